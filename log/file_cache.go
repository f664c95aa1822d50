package log

import "sync"

// Bounds of a FileCache, for arguments that are zero.
const (
	defaultOpenFiles  = 8000
	defaultIndexCache = 64 << 20
)

// evictLooks is how many files are looked at for one that is better closed than
// others, before any idle one will do.
const evictLooks = 64

// walkBufferSize is the read size of a search for a batch: a little more than
// the distance of two index entries.
const walkBufferSize = 8 << 10

// FileCache bounds what the logs of a process keep open and in memory: file
// handles of segments, and indexes of sealed segments. A handle that is in use
// is never closed, so that the bound may be passed for a moment. Safe for use
// by any goroutine.
//
// Lock order: segmentFile.mu, then FileCache.mu.
type FileCache struct {
	mu sync.Mutex
	// open are the files with a handle; hand is where the clock stands.
	open    []*segmentFile
	hand    int
	openMax int

	// indexes is a queue of segments whose indexes are loaded, oldest first.
	indexes    []*segment
	indexBytes int64
	indexMax   int64

	// buffers are *[]byte of walkBufferSize.
	buffers sync.Pool
}

// NewFileCache returns a cache of at most openMax handles and indexMax bytes of
// indexes; 0 means 8,000 handles (rules: table of limits) and 64 MiB.
func NewFileCache(openMax int, indexMax int64) *FileCache {
	if openMax <= 0 {
		openMax = defaultOpenFiles
	}
	if indexMax <= 0 {
		indexMax = defaultIndexCache
	}
	c := &FileCache{openMax: openMax, indexMax: indexMax}
	c.buffers.New = func() any {
		b := make([]byte, walkBufferSize)
		return &b
	}
	return c
}

// Open returns the number of handles that are open now.
func (c *FileCache) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// IndexBytes returns the size of the indexes that are loaded now.
func (c *FileCache) IndexBytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.indexBytes
}

func (c *FileCache) buffer() *[]byte     { return c.buffers.Get().(*[]byte) }
func (c *FileCache) release(buf *[]byte) { c.buffers.Put(buf) }

// admit enters a file whose handle was just opened, and closes another one if
// there are too many. The caller holds s.mu.
func (c *FileCache) admit(s *segmentFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.slot = len(c.open)
	c.open = append(c.open, s)
	for len(c.open) > c.openMax && c.evictOne(s) {
	}
}

// evictOne closes the handle of the first idle file that the clock meets: a
// used one is passed over once, one with unsynced bytes as long as there is
// another, because a handle that has seen all of a file's writes is the surest
// witness of a failed one.
func (c *FileCache) evictOne(not *segmentFile) bool {
	for pass := range 3 {
		looks := len(c.open)
		if pass < 2 {
			looks = min(looks, evictLooks)
		}
		for range looks {
			c.hand++
			if c.hand >= len(c.open) {
				c.hand = 0
			}
			s := c.open[c.hand]
			if s == not || !s.mu.TryLock() {
				continue
			}
			if s.pins > 0 || (pass < 2 && s.dirty) || (pass < 1 && s.used) {
				s.used = false
				s.mu.Unlock()
				continue
			}
			s.closeHandle()
			s.mu.Unlock()
			c.removeAt(c.hand)
			return true
		}
	}
	return false
}

// shrink closes about half of the idle handles: the process ran out of them.
func (c *FileCache) shrink(not *segmentFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := len(c.open) / 2; n >= 0 && c.evictOne(not); n-- {
	}
}

// forget takes a file out whose handle is closed. The caller holds s.mu.
func (c *FileCache) forget(s *segmentFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.slot >= 0 && s.slot < len(c.open) && c.open[s.slot] == s {
		c.removeAt(s.slot)
	}
}

func (c *FileCache) removeAt(i int) {
	last := len(c.open) - 1
	c.open[i].slot = -1
	if i != last {
		c.open[i] = c.open[last]
		c.open[i].slot = i
	}
	c.open[last] = nil
	c.open = c.open[:last]
}

// admitIndex counts a segment's freshly loaded indexes, and drops the ones that
// were loaded longest ago if there are too many. Readers that hold them go on.
func (c *FileCache) admitIndex(s *segment, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.indexes = append(c.indexes, s)
	c.indexBytes += bytes
	for c.indexBytes > c.indexMax && len(c.indexes) > 1 {
		oldest := c.indexes[0]
		c.indexes[0] = nil
		c.indexes = c.indexes[1:]
		if x := oldest.indexes.Swap(nil); x != nil {
			c.indexBytes -= x.bytes()
		}
	}
}

// dropIndex forgets the indexes of a segment that left its log.
func (c *FileCache) dropIndex(s *segment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.indexes {
		if other != s {
			continue
		}
		c.indexes = append(c.indexes[:i], c.indexes[i+1:]...)
		if x := s.indexes.Swap(nil); x != nil {
			c.indexBytes -= x.bytes()
		}
		return
	}
}
