package memfs

import (
	"time"
)

// pageSize is the unit in which a power loss keeps or forgets what was written.
const pageSize = 4096

// node is a file or a directory, apart from its names.
type node struct {
	modTime time.Time

	// A directory has both maps, a file neither.
	live   map[string]*node // the names that readers see
	synced map[string]*node // the names that survive a power loss

	// listed are the keys of live in order.
	listed []string

	// A file's bytes are data; what survives a power loss is kept as the
	// difference. Invariant: a page below syncedSize that is not in undo holds
	// the same bytes in both.
	data       []byte
	syncedSize int64
	undo       map[int64][]byte // page → its synced bytes, nil if it has none

	// shared: the first so many bytes of data's array belong to others too, a
	// copy of the disk or who was given Content: they may never change.
	shared int64
	// rewritten: since the last sync, bytes were changed that were synced. As
	// long as it is not, what survives are the first bytes of data.
	rewritten bool

	// last is the latest write if nothing but reads followed it.
	last *lastWrite

	linked   bool // has a name
	opens    int  // open Files
	released bool // its bytes no longer count as used
}

// lastWrite is what it takes to undo part of a write.
type lastWrite struct {
	off     int64
	n       int
	old     []byte // the bytes it overwrote; shorter than n at the end
	oldSize int64
}

func newDir() *node {
	return &node{live: make(map[string]*node), synced: make(map[string]*node), linked: true}
}

func (n *node) isDir() bool { return n.live != nil }

// write stores p at off, extending the file with zeros up to it if need be.
func (n *node) write(p []byte, off int64) {
	if len(p) == 0 {
		return
	}
	size, end := int64(len(n.data)), off+int64(len(p))
	n.last = &lastWrite{off: off, n: len(p), oldSize: size}
	if off < size {
		n.last.old = append([]byte(nil), n.data[off:min(end, size)]...)
	}
	n.touch(min(off, size), end)
	n.own(min(off, size))
	n.extend(end)
	copy(n.data[off:], p)
}

// own makes sure that the file's bytes from off on may be changed in place.
func (n *node) own(off int64) {
	if off < n.shared {
		n.data, n.shared = append(make([]byte, 0, len(n.data)), n.data...), 0
	}
}

// share returns the file's bytes as they are now, for ever.
func (n *node) share() []byte {
	size := int64(len(n.data))
	n.shared = max(n.shared, size)
	return n.data[:size:size]
}

// resize cuts or extends the file.
func (n *node) resize(size int64) {
	old := int64(len(n.data))
	n.touch(min(size, old), max(size, old))
	n.last = nil
	if size < old {
		n.data = n.data[:size]
		return
	}
	n.own(old)
	n.extend(size)
}

// extend makes the file at least size long; what is new is zero.
func (n *node) extend(size int64) {
	old := int64(len(n.data))
	if size <= old {
		return
	}
	if size <= int64(cap(n.data)) {
		n.data = n.data[:size]
		clear(n.data[old:]) // may hold what a truncation cut
		return
	}
	n.data, n.shared = append(n.data, make([]byte, size-old)...), 0
}

// touch saves the synced bytes of the pages of [from, to) that are clean.
func (n *node) touch(from, to int64) {
	n.rewritten = n.rewritten || from < n.syncedSize
	for page := from / pageSize; page*pageSize < to; page++ {
		if _, dirty := n.undo[page]; dirty {
			continue
		}
		if n.undo == nil {
			n.undo = make(map[int64][]byte)
		}
		var before []byte
		if start := page * pageSize; start < n.syncedSize {
			before = append(before, n.data[start:min(start+pageSize, n.syncedSize)]...)
		}
		n.undo[page] = before
	}
}

// sync makes what readers see durable.
func (n *node) sync() {
	n.undo, n.rewritten = nil, false
	n.syncedSize = int64(len(n.data))
	n.last = nil
}

// dropUnsynced makes the file what a power loss would leave at least.
func (n *node) dropUnsynced() {
	n.data, n.shared = n.durable(), n.syncedSize
	n.sync()
}

// durable returns what a power loss leaves of the file at least, for ever.
func (n *node) durable() []byte {
	if !n.rewritten {
		n.shared = max(n.shared, n.syncedSize)
		return n.data[:n.syncedSize:n.syncedSize]
	}
	return n.image(n.syncedSize, n.data, func(int64) bool { return false })
}

// image returns size bytes of the file: clean pages as they are, of a dirty
// page what newData holds if keep says so, else its synced bytes; zeros where
// there are none. It asks keep in rising order.
func (n *node) image(size int64, newData []byte, keep func(page int64) bool) []byte {
	if len(n.undo) == 0 && size == int64(len(n.data)) {
		return n.share()
	}
	out := make([]byte, size)
	for page := int64(0); page*pageSize < size; page++ {
		start := page * pageSize
		dst := out[start:min(start+pageSize, size)]
		if before, dirty := n.undo[page]; !dirty {
			copy(dst, n.data[start:])
		} else if !keep(page) {
			copy(dst, before)
		} else if start < int64(len(newData)) {
			copy(dst, newData[start:])
		}
	}
	return out
}

// tear returns the file's bytes with only the first keep bytes of its last
// write in them.
func (n *node) tear(keep int) []byte {
	w := n.last
	if w == nil || keep >= w.n {
		return n.share()
	}
	data := append([]byte(nil), n.data...)
	cut := w.off + int64(keep)
	if keep < len(w.old) {
		copy(data[cut:], w.old[keep:])
	}
	return data[:max(w.oldSize, cut)]
}
