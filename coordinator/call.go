package coordinator

import (
	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/model"
)

// Waiter is told the answer of a Call, once, after the partition's loop was
// released.
type Waiter interface{ Answered(c *Call) }

// Call is one request on its way through a coordinator. It is answered exactly
// once: with a Response, or with a Code alone. Nothing in it aliases a frame.
type Call struct {
	// Key is what the request is about: a group's id.
	Key string
	// Version is that of the request; the answer depends on it.
	Version int16
	// ClientID and ClientHost are who asks.
	ClientID, ClientHost string
	// Request is the machine's to understand.
	Request any
	// Waiter and Token are the shell's.
	Waiter Waiter
	Token  any

	// Code is not 0 when the request as a whole has failed; there is no Response
	// then.
	Code Code
	// Response is the machine's answer.
	Response any

	answered bool
}

// Answered reports whether the call has its answer.
func (c *Call) Answered() bool { return c.answered }

// Record is one record of the partition. A nil Value is a tombstone.
type Record struct {
	Key, Value []byte
}

// Write is one batch to append and, afterwards, who wants to know. Without
// records it is a barrier: it ends when all that was appended before it is
// committed.
type Write struct {
	Records []Record
	// Call is answered by the machine's Written, or by the runtime if the reign
	// ends before; may be nil.
	Call *Call
	// Timeout is how long the machine waits for the write to be committed, in
	// nanoseconds.
	Timeout model.Instant
	// Token is the machine's own note of what the write is for.
	Token any

	load  uint64        // the loading it belongs to
	end   model.Offset  // exclusive, once appended
	until model.Instant // of a barrier
}

// Out is what a step leaves to be done by the shell: it is filled, carried out
// after the step, and emptied.
type Out struct {
	// Answers are calls that have been answered, in order.
	Answers []*Call
	// Append is nil or the one batch to append now.
	Append *Write
	// Load says that the log is to be loaded, from its start.
	Load bool

	writes []*Write // what the machine wants written, in order
}

// Answer answers a call with a response.
func (o *Out) Answer(c *Call, response any) {
	c.Response = response
	o.done(c)
}

// Fail answers a call with a code alone.
func (o *Out) Fail(c *Call, code Code) {
	c.Code = code
	o.done(c)
}

func (o *Out) done(c *Call) {
	assert.That(!c.answered, "a call about %q was answered twice", c.Key)
	c.answered = true
	o.Answers = append(o.Answers, c)
}

// Write asks to have records appended. The machine's Written is called once
// they are committed or have failed.
func (o *Out) Write(w *Write) { o.writes = append(o.writes, w) }

// Writes reports whether something is to be written that has not been handed to
// the shell: what it changes is not seen yet.
func (o *Out) Writes() bool { return len(o.writes) > 0 }

// Reset empties o and keeps its memory.
func (o *Out) Reset() {
	clear(o.Answers)
	o.Answers, o.Append, o.Load = o.Answers[:0], nil, false
}
