package coordinator

import "github.com/tidemark/tidemark/internal/model"

// Machine is the state that the partition's records make, and its rules. Its
// methods are called in the partition's loop, but for Replay and Commit while a
// Loader owns it.
type Machine interface {
	// Begin is called once, when the whole log has been replayed and the machine
	// starts to serve.
	Begin(now model.Now, out *Out)
	// Handle decides one call.
	Handle(now model.Now, c *Call, out *Out)
	// Replay takes one record that is in the log at offset at. It is the only
	// writer of what the records make.
	Replay(at model.Offset, r Record)
	// Commit says that everything below the offset is committed: it may be shown.
	Commit(to model.Offset)
	// Written tells how a Write ended: with CodeNone it is committed, and Replay
	// and Commit have been called for it. With another code it may still be
	// committed later, if it was appended.
	Written(now model.Now, w *Write, code Code, out *Out)
	// NextDeadline is when Tick is due, model.Never if it isn't.
	NextDeadline() model.Instant
	// Tick does what is due.
	Tick(now model.Now, out *Out)
	// Close answers everything that waits in the machine with code. Nothing of
	// the machine is called afterwards.
	Close(code Code, out *Out)
}
