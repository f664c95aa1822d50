package memfs

import (
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/tidemark/tidemark/internal/assert"
)

// Crash says how much of what was not synced a power loss leaves.
type Crash struct {
	// UnsyncedPct is the chance, in percent, of each unsynced 4 KiB page, each
	// unsynced file size and each unsynced change of names to be found. At 0
	// only what was synced is left, at 100 all.
	UnsyncedPct int

	// Torn lets the last unsynced write of each file be cut at any byte.
	Torn bool

	// Rand makes the choices. It may be nil if there is none to make.
	Rand *rand.Rand
}

// Kill says what a process that was killed leaves behind it.
type Kill struct {
	// Cut is asked how many bytes of the disk's very last write, of n, were
	// done when the process died; nil is all of them. It is asked only if that
	// write was not followed by a sync, truncation or write of the same file.
	Cut func(n int) int
}

// CutAnywhere returns a Kill.Cut that keeps any number of bytes, each as
// likely.
func CutAnywhere(r *rand.Rand) func(n int) int {
	return func(n int) int { return r.IntN(n + 1) }
}

// CrashClone returns the disk that is found after a power loss now. The old
// one is dead from then on, but may be cloned again for another outcome.
func (fs *FS) CrashClone(c Crash) *FS {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.dead = true
	return fs.crashed(c)
}

func (fs *FS) crashed(c Crash) *FS {
	after, _ := fs.fork()
	settle(after.pending, func(*nameOp) bool { return c.roll() })
	after.pending = nil
	after.writer = nil
	after.root.crash(&c, make(map[*node]bool))
	after.recount()
	return after
}

// KillClone returns the disk that is found after the process was killed now.
// What was not synced is there, and can still be lost to a later power loss.
// The old one is dead from then on, but may be cloned again.
func (fs *FS) KillClone(k Kill) *FS {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.dead = true
	after, byOld := fs.fork()
	if w := fs.writer; k.Cut != nil && w != nil && w.last != nil {
		n := byOld[w]
		n.data = w.tear(k.Cut(w.last.n))
		n.last = nil
	}
	after.writer = nil
	after.recount()
	return after
}

// Fork returns an independent disk in the same state, with the same unsynced
// changes and without open Files or locks. The old one lives on.
func (fs *FS) Fork() *FS {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	after, _ := fs.fork()
	after.recount()
	return after
}

// roll decides one thing.
func (c *Crash) roll() bool {
	switch {
	case c.UnsyncedPct <= 0:
		return false
	case c.UnsyncedPct >= 100:
		return true
	}
	assert.That(c.Rand != nil, "a crash with UnsyncedPct %d needs a Rand", c.UnsyncedPct)
	return c.Rand.IntN(100) < c.UnsyncedPct
}

// fork copies every node that a name, or a lost name, may lead to.
func (fs *FS) fork() (*FS, map[*node]*node) {
	copies := make(map[*node]*node)
	after := New()
	after.root = fs.root.fork(copies)
	after.capacity, after.clock, after.ticks = fs.capacity, fs.clock, fs.ticks
	for _, op := range fs.pending {
		op.dir, op.node = op.dir.fork(copies), op.node.fork(copies)
		if op.from != nil {
			op.from = op.from.fork(copies)
		}
		after.pending = append(after.pending, op)
	}
	if fs.writer != nil {
		after.writer = fs.writer.fork(copies)
	}
	return after, copies
}

func (n *node) fork(copies map[*node]*node) *node {
	if c := copies[n]; c != nil {
		return c
	}
	c := &node{modTime: n.modTime, syncedSize: n.syncedSize, rewritten: n.rewritten, linked: n.linked, last: n.last}
	copies[n] = c
	if !n.isDir() {
		c.data, c.shared = n.share(), int64(len(n.data)) // who changes it first makes a copy
		c.undo = maps.Clone(n.undo)                      // the pages themselves never change
		return c
	}
	c.live, c.synced = make(map[string]*node, len(n.live)), make(map[string]*node, len(n.synced))
	c.listed = slices.Clone(n.listed)
	for name, child := range n.live { // order-free: copies have no order
		c.live[name] = child.fork(copies)
	}
	for name, child := range n.synced { // order-free: as above
		c.synced[name] = child.fork(copies)
	}
	return c
}

// crash makes synced names the live ones and gives each file what is left of
// it, in the order of names so that the choices repeat.
func (n *node) crash(c *Crash, done map[*node]bool) {
	if done[n] {
		return // two names after half of a change: one file
	}
	done[n] = true
	n.linked = true
	if !n.isDir() {
		n.data = n.crashed(c)
		n.shared = int64(len(n.data)) // perhaps the old disk's
		n.sync()
		return
	}
	n.live = maps.Clone(n.synced)
	n.listed = sortedNames(n.live)
	for _, name := range n.listed {
		n.live[name].crash(c, done)
	}
}

// crashed draws the bytes of a file after the crash.
func (n *node) crashed(c *Crash) []byte {
	data := n.data
	if c.Torn && c.UnsyncedPct > 0 && n.last != nil {
		assert.That(c.Rand != nil, "a torn crash needs a Rand")
		data = n.tear(c.Rand.IntN(n.last.n + 1))
	}
	return n.image(n.crashedSize(c, int64(len(data))), data, func(int64) bool { return c.roll() })
}

// crashedSize draws the size: the new one, the synced one, or when the file
// grew by pages any page's end between them.
func (n *node) crashedSize(c *Crash, size int64) int64 {
	if size == n.syncedSize || c.roll() {
		return size
	}
	pages := (size - n.syncedSize) / pageSize
	if pages <= 0 || !c.roll() {
		return n.syncedSize
	}
	return min(size, (n.syncedSize/pageSize+1+c.Rand.Int64N(pages))*pageSize)
}

// recount sums up the content of a disk that has no open Files.
func (fs *FS) recount() {
	fs.used = fs.root.total(make(map[*node]bool))
}

func (n *node) total(done map[*node]bool) int64 {
	if done[n] {
		return 0
	}
	done[n] = true
	sum := int64(len(n.data))
	for _, child := range n.live { // order-free: a sum
		sum += child.total(done)
	}
	return sum
}
