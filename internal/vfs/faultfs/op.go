package faultfs

import "fmt"

// OpKind is what is being asked of the file system.
type OpKind uint8

// The operations of vfs.FS and vfs.File. An OpenFile with O_CREATE of a name
// that may be new is OpCreate, every other one OpOpen.
const (
	OpOpen OpKind = iota
	OpCreate
	OpRemove
	OpRemoveAll
	OpRename
	OpMkdir
	OpList
	OpStat
	OpSyncDir
	OpLock
	OpFree
	OpRead
	OpWrite
	OpTruncate
	OpSync
	OpSyncData
	OpAllocate
	OpSize
	OpClose
)

// String returns the operation's name.
func (k OpKind) String() string {
	names := [...]string{"open", "create", "remove", "removeall", "rename", "mkdir", "list", "stat", "syncdir",
		"lock", "free", "read", "write", "truncate", "sync", "syncdata", "allocate", "size", "close"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("op(%d)", uint8(k))
}

// Mutates reports whether the operation changes the disk, or makes a change
// durable.
func (k OpKind) Mutates() bool {
	switch k {
	case OpCreate, OpRemove, OpRemoveAll, OpRename, OpMkdir, OpSyncDir, OpWrite, OpTruncate, OpSync, OpSyncData:
		return true
	}
	return false
}

// Op is one call about to be made.
type Op struct {
	Kind OpKind

	// Path is the name as it was given; for a File, as it was opened.
	Path string

	// NewPath is the target of a rename.
	NewPath string

	// Offset and Len are those of a read, write or allocation; Offset is the
	// new size of a truncation.
	Offset int64
	Len    int
}

// String renders the call in one line, for traces.
func (o Op) String() string {
	switch o.Kind {
	case OpRename:
		return fmt.Sprintf("%s %s %s", o.Kind, o.Path, o.NewPath)
	case OpRead, OpWrite, OpAllocate:
		return fmt.Sprintf("%s %s %d+%d", o.Kind, o.Path, o.Offset, o.Len)
	case OpTruncate:
		return fmt.Sprintf("%s %s %d", o.Kind, o.Path, o.Offset)
	default:
		return fmt.Sprintf("%s %s", o.Kind, o.Path)
	}
}
