package log

import (
	"errors"
	"fmt"

	"github.com/tidemark/tidemark/internal/model"
)

// What can go wrong besides errors of the file system.
var (
	// ErrOffsetOutOfRange: the offset lies below the log's start or above its
	// end.
	ErrOffsetOutOfRange = errors.New("log: offset out of range")
	// ErrClosed: the log was closed.
	ErrClosed = errors.New("log: closed")
	// ErrPoisoned: an operation failed half way and couldn't be undone, or a
	// fsync failed. What the disk holds is unknown until the log is opened anew.
	ErrPoisoned = errors.New("log: poisoned by an earlier failure")
	// ErrStaleView: the view is older than a truncation or deletion whose bytes
	// are gone by now. Take a new View.
	ErrStaleView = errors.New("log: view is stale")
	// ErrBusy: another operation of that kind is under way. Nothing was done.
	ErrBusy = errors.New("log: busy")
	// ErrOrder: the batches of an append don't follow the log's end, or their
	// epochs fall. Nothing was written.
	ErrOrder = errors.New("log: append out of order")
)

// CorruptionError reports bytes that no stop can explain: damage. The files
// are as they were found.
type CorruptionError struct {
	// Dir is the partition's directory.
	Dir string
	// Segment is the base offset of the segment that holds the damage.
	Segment model.Offset
	// Pos is the byte position in the segment file.
	Pos int64
	// Offset is the first offset that can't be read.
	Offset model.Offset
	// BelowRecoveryPoint tells damage to bytes that were once durable from
	// damage that was found above them.
	BelowRecoveryPoint bool
	// Err says what is wrong.
	Err error
}

// Error implements error.
func (e *CorruptionError) Error() string {
	where := "above"
	if e.BelowRecoveryPoint {
		where = "below"
	}
	return fmt.Sprintf("log %s: damage in segment %d at position %d, offset %d, %s the recovery point: %v",
		e.Dir, e.Segment, e.Pos, e.Offset, where, e.Err)
}

// Unwrap returns what is wrong.
func (e *CorruptionError) Unwrap() error { return e.Err }
