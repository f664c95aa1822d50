package host

import (
	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/record"
)

// Attachment is a state machine that rides on a partition: a coordinator whose
// state is the partition's records. Its methods are called in the partition's
// loop, so they may not block, and they may not enter a loop.
type Attachment interface {
	// Led says that this replica leads in epoch, with everything below end in
	// the log: time to load.
	Led(t *Turn, epoch model.LeaderEpoch, end model.Offset)
	// Applied says that everything below the high watermark is replicated.
	Applied(t *Turn, highWatermark model.Offset)
	// Unled says that the leadership or the log is gone: time to unload.
	Unled(t *Turn)
}

// Rider is an Attachment that takes commands, appends records and keeps time.
type Rider interface {
	Attachment
	// Command takes what Hosted.Command was given.
	Command(t *Turn, c Command)
	// Appended says that a batch is in the log, with its Base. It comes in the
	// turn in which the write was done, before anything else is told.
	Appended(t *Turn, a *RideAppend)
	// Ended says what became of a batch, once for each Append, after Appended if
	// that came and after Applied for what is replicated: with code 0 it is
	// committed. With another it was not appended, or may still be committed.
	Ended(t *Turn, a *RideAppend, code Code)
	// NextDeadline is when Tick is due, model.Never if it isn't.
	NextDeadline() model.Instant
	// Tick says that the deadline has passed.
	Tick(t *Turn)
}

// Command is a message for a Rider.
type Command interface {
	// Dropped is called instead of Rider.Command when there is no rider, and
	// after an assertion failed while it was handled.
	Dropped(t *Turn)
}

// Turn is one stay in a partition's loop. It is valid during the call that it is
// given to.
type Turn struct {
	Hosted *Hosted
	Now    model.Now

	out *loop.Outbox
}

// Add has d delivered after the loop's release.
func (t *Turn) Add(d loop.Delivery) { t.out.Add(d) }

// Append has a batch appended at the end of the present call. At most one may be
// on its way to the log. Not to be called from Led or Unled.
func (t *Turn) Append(a *RideAppend) {
	r := &t.Hosted.ride
	assert.That(r.next == nil && r.open == nil, "a rider appends while an append is outstanding")
	r.next = a
}

// RideAppend is one batch of a Rider on its way. The rider owns it; the
// partition has it until Ended.
type RideAppend struct {
	// Batch is a whole batch; offsets and epoch are stamped here.
	Batch record.Batch
	// Records is how many it holds.
	Records int32
	// Timeout is how long Ended may take, in nanoseconds.
	Timeout model.Instant
	// Token is the rider's.
	Token any
	// Base is the offset of the first record, from Appended on.
	Base model.Offset

	op partition.Produce
}

// ride is what the loop keeps of a Rider.
type ride struct {
	rider Rider         // nil if the attachment is none
	next  *RideAppend   // to be appended
	open  *RideAppend   // given to the core, not in the log yet
	ended []*RideAppend // to be told
	told  model.Offset  // high watermark as told last; -1: none in this reign
}

// Attach has a ride on the partition from now on; nil ends that. If the replica
// leads already, Led is called at once.
func (h *Hosted) Attach(a Attachment) { h.box.Enter(&attachMsg{a}) }

// Command hands c to the Rider on the partition. It reports false, and does
// nothing, while the partition's disk does not answer.
func (h *Hosted) Command(c Command) bool {
	if h.stalled.Load() {
		return false
	}
	h.box.Enter(&commandMsg{c})
	return true
}

// attachMsg attaches to a partition; nil detaches.
type attachMsg struct{ to Attachment }

func (m *attachMsg) handle(h *Hosted, _ model.Now, _ *loop.Outbox) {
	h.unled()
	h.attached, h.ride.rider = m.to, nil
	if r, ok := m.to.(Rider); ok {
		h.ride.rider = r
	}
	if mark := h.core.Mark(); m.to != nil && mark.Role == partition.Leader {
		h.led(mark.LeaderEpoch, mark.LogEnd)
	}
}

// commandMsg brings a command.
type commandMsg struct{ c Command }

func (m *commandMsg) handle(h *Hosted, _ model.Now, _ *loop.Outbox) {
	if h.ride.rider == nil {
		m.c.Dropped(&h.turn)
		return
	}
	h.ride.rider.Command(&h.turn, m.c)
}

func (h *Hosted) led(epoch model.LeaderEpoch, end model.Offset) {
	h.ride.told = model.NoOffset
	if h.attached != nil {
		h.attached.Led(&h.turn, epoch, end)
	}
}

func (h *Hosted) unled() {
	h.ride.told, h.ride.next = model.NoOffset, nil
	if h.attached != nil {
		h.attached.Unled(&h.turn)
	}
}

// serveRide tells the attachment what the message has changed, and does what it
// wants, until it wants nothing more.
func (h *Hosted) serveRide() {
	for h.attached != nil {
		r := &h.ride
		mark := h.core.Mark()
		switch {
		case r.open != nil && r.open.op.Required > 0 && mark.Role == partition.Leader && mark.LogEnd >= r.open.op.Required:
			a := r.open
			r.open = nil
			a.Base = a.op.Result.BaseOffset
			r.rider.Appended(&h.turn, a)
		case mark.Role == partition.Leader && mark.HighWatermark != r.told:
			r.told = mark.HighWatermark
			h.attached.Applied(&h.turn, mark.HighWatermark)
		case len(r.ended) > 0:
			a := r.ended[0]
			r.ended[0] = nil
			r.ended = r.ended[1:]
			if r.open == a {
				r.open = nil
			}
			r.rider.Ended(&h.turn, a, a.op.Result.Code)
		case r.next != nil:
			h.appendRide()
		default:
			r.ended = nil
			return
		}
	}
}

// appendRide gives the rider's batch to the core.
func (h *Hosted) appendRide() {
	a := h.ride.next
	h.ride.next, h.ride.open = nil, a
	a.op = partition.Produce{
		Prepared: record.Prepared{Batch: a.Batch, Records: a.Records}, Acks: -1,
		ControllerHeard: model.Instant(h.m.heardAt.Load()), Token: a,
	}
	a.op.Deadline = h.turn.Now.Mono + a.Timeout
	h.in = partition.Input{Kind: partition.KindProduce, Produce: &a.op}
	h.step(h.turn.Now, h.turn.out)
}

// tickRide passes a deadline on, if it has come.
func (h *Hosted) tickRide() {
	if r := h.ride.rider; r != nil && r.NextDeadline() <= h.turn.Now.Mono {
		r.Tick(&h.turn)
	}
}
