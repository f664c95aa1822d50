package memfs

import "slices"

// nameOp is one change of names: it takes effect after a crash as a whole or
// not at all, as in a file system with a journal.
type nameOp struct {
	kind opKind
	dir  *node // where name is
	name string
	node *node // what it names

	from    *node // opRename: where it was
	oldName string
}

type opKind uint8

const (
	opCreate opKind = iota
	opRemove
	opRename
)

// nameKey is one name in one directory.
type nameKey struct {
	dir  *node
	name string
}

// keys returns the names that the change touches; the second is empty but for
// a rename.
func (op *nameOp) keys() (nameKey, nameKey) {
	return nameKey{op.dir, op.name}, nameKey{op.from, op.oldName}
}

// change applies a change to what readers see, and notes that it is not yet
// durable.
func (fs *FS) change(op nameOp) {
	replaced := op.dir.live[op.name]
	apply(&op, live)
	switch op.kind {
	case opCreate:
		op.dir.list(op.name)
		op.node.linked = true
	case opRemove:
		op.dir.unlist(op.name)
		op.node.linked = false
		fs.release(op.node)
	case opRename:
		op.from.unlist(op.oldName)
		op.dir.list(op.name)
		if replaced != nil {
			replaced.linked = false
			fs.release(replaced)
		}
	}
	fs.pending = append(fs.pending, op)
	fs.writer = nil // whoever changes names has returned from its write
}

// list notes a name among those of a directory.
func (n *node) list(name string) {
	if i, there := slices.BinarySearch(n.listed, name); !there {
		n.listed = slices.Insert(n.listed, i, name)
	}
}

// unlist strikes a name off those of a directory.
func (n *node) unlist(name string) {
	if i, there := slices.BinarySearch(n.listed, name); there {
		n.listed = slices.Delete(n.listed, i, i+1)
	}
}

// release gives back the space of a file that has neither a name nor an open
// File.
func (fs *FS) release(n *node) {
	if !n.linked && n.opens == 0 && !n.released {
		n.released = true
		fs.used -= int64(len(n.data))
	}
}

// names picks one of a directory's two maps.
type names func(dir *node) map[string]*node

func live(dir *node) map[string]*node   { return dir.live }
func synced(dir *node) map[string]*node { return dir.synced }

// apply makes the change in one kind of map.
func apply(op *nameOp, of names) {
	switch op.kind {
	case opCreate:
		of(op.dir)[op.name] = op.node
	case opRemove:
		delete(of(op.dir), op.name)
	case opRename:
		delete(of(op.from), op.oldName)
		of(op.dir)[op.name] = op.node
	}
}

// commit makes the names in dir durable: every pending change that gave or
// took a name there. A rename out of dir is made durable by the directory it
// went to.
func (fs *FS) commit(dir *node) {
	fs.pending = settle(fs.pending, func(op *nameOp) bool { return op.dir == dir })
}

// settle makes the chosen changes durable and returns the others. A change
// takes with it every earlier one of the same names, as in a journal: without
// those it would be of something else. It asks from the latest to the first.
func settle(pending []nameOp, choose func(op *nameOp) bool) (rest []nameOp) {
	chosen := make([]bool, len(pending))
	count := 0
	for i := len(pending) - 1; i >= 0; i-- {
		if chosen[i] = choose(&pending[i]); chosen[i] {
			count++
		}
	}
	if 0 < count && count < len(pending) {
		complete(pending, chosen)
	}
	for i := range pending {
		if chosen[i] {
			apply(&pending[i], synced)
		} else {
			rest = append(rest, pending[i])
		}
	}
	return rest
}

// complete chooses every change that a chosen one takes with it.
func complete(pending []nameOp, chosen []bool) {
	touched := make(map[nameKey]bool)
	for i := len(pending) - 1; i >= 0; i-- {
		op := &pending[i]
		a, b := op.keys()
		if !chosen[i] && !touched[a] && !touched[b] {
			continue
		}
		chosen[i] = true
		touched[a] = true
		if op.kind == opRename {
			touched[b] = true
		}
	}
}
