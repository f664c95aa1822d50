package loop

import "github.com/tidemark/tidemark/internal/model"

// Bounds of a loop. Source: rules 1.1d and 8.
const (
	// MailboxDepth is the number of waiting messages from which on a box is
	// Full. Nothing is refused then: connections stop reading.
	MailboxDepth = 8192

	// OthersMax is how many messages an owner handles beside its own.
	OthersMax = 64

	// DrainMax is how long an owner works before it leaves the rest to a
	// spare. Looked at after 1, 2, 4, ... messages, so that it can be passed
	// by as much again.
	DrainMax model.Instant = 200_000 // ns
)

// Handler is the state machine in a Box. It is owned by the box: only one
// goroutine is in it at a time, and none of its methods may block.
type Handler[M any] interface {
	// Handle takes one message. What is to happen outside goes to out.
	Handle(now model.Now, msg M, out *Outbox)

	// NextDeadline returns when Tick is due next, or model.Never.
	NextDeadline() model.Instant

	// Tick is called once NextDeadline has passed, after the messages that
	// were waiting at that moment.
	Tick(now model.Now, out *Outbox)
}

// Delivery is something to run after the loop was released, such as the reply
// to a waiter. Its dynamic type should be a pointer, so that it is made an
// interface without an allocation.
//
// A Delivery that has a message for a box uses Post, or is a Relay. Enter is
// correct too, but runs that box's drain inside this one's delivery.
type Delivery interface {
	Deliver(now model.Now)
}

// Relay is a delivery that sends to boxes. What it puts in out runs after it,
// in the same trampoline.
type Relay interface {
	Relay(now model.Now, out *Outbox)
}

// Ticker is told that the instant it asked for has come.
type Ticker interface {
	TickAt(now model.Now)
}

// Runtime is what a loop needs of the world around it: clocks, and somebody
// else to run things. It may be used from any goroutine.
type Runtime interface {
	// Now reads both clocks.
	Now() model.Now

	// Spare runs d soon on another goroutine, never inside the call.
	Spare(d Delivery)

	// SetDeadline asks that t.TickAt be called once at has come. Each Ticker
	// has one deadline: a new one replaces the old, model.Never clears it. One
	// that passed already fires at once, though not inside the call.
	SetDeadline(t Ticker, at model.Instant)
}
