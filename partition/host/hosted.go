package host

import (
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/partition"
)

// Hosted is one partition of this broker and the loop around it. Its methods may
// be called from any goroutine; they enter the loop or read its State.
type Hosted struct {
	m   *ReplicaManager
	id  model.TopicIDPartition
	tp  model.TopicPartition
	dir *Dir // nil when no directory has it
	// unmade: it is new, and its log could not be made yet. beingMade: a directory that
	// is behind is at it; who applies images touches that.
	unmade, beingMade bool
	box               *loop.Box[message]

	state atomic.Pointer[State]
	// lastOnline is the State before the log was lost, nil while it isn't.
	lastOnline atomic.Pointer[State]
	unanswered unanswered
	// heard is the last leader epoch in which the log, lost now, may have fetched;
	// model.NoEpoch if this process has not had it.
	heard atomic.Int32
	// damage is what takes the partition offline, nil if it isn't damage. remnant is
	// what can be read below it, nil while nobody knows.
	damage  atomic.Pointer[log.CorruptionError]
	remnant atomic.Pointer[log.Remnant]
	// diskError is the disk's refusal that took the partition offline, nil if it was
	// something else. closing: the files of the log that was let go of are not closed yet.
	diskError atomic.Pointer[diskError]
	closing   atomic.Bool
	// looking: what lies below the damage is being looked at. alone: the metadata knows
	// of no other in-sync replica, and this one leads.
	looking, alone atomic.Bool
	// stalled is set by the watchdog while a write doesn't come back: requests
	// are answered KAFKA_STORAGE_ERROR without entering the loop.
	stalled atomic.Bool
	// busySince is the instant at which the running write began, 0 if none runs.
	busySince atomic.Int64
	// flushSince is the instant at which the flush that somebody waits for was sent to
	// the disk, 0 if none is.
	flushSince atomic.Int64
	// established: what stands in the directory is durable, so that an append need
	// not wait. Only the loop sets it.
	established atomic.Bool
	// lag is how many records below the leader's high watermark a follower lacks.
	lag     atomic.Int64
	traffic traffic

	// What follows belongs to the loop.

	core          *partition.Partition
	plog          *log.Log // nil while offline
	topic         *config.Topic
	replicas      []model.BrokerID
	*scratch      // nil while nobody is in the loop
	work          Work
	attached      Attachment
	ride          ride
	turn          Turn // of the message being handled
	standingStale bool
	epochsSeen    uint64 // version of the epoch cache in the published State
	unsyncedBytes int64
	tail          bool  // what an earlier process has left is to be flushed, and no flush has begun
	fault         error // why the log broke
	fetching      *fetchLoop
	cut           *cutJob   // has the log; nothing else touches it
	parked        []message // came meanwhile
	reason        string
	refusals      refusals
	keeping       keeping // for receipts; whoever has the log has it
	vouched       vouched
	watches       []*watch // of fetch sessions; some may be over
}

func newHosted(m *ReplicaManager, id model.TopicIDPartition, tp model.TopicPartition) *Hosted {
	h := &Hosted{m: m, id: id, tp: tp, standingStale: true}
	h.work.h = h
	h.heard.Store(int32(model.NoEpoch))
	h.box = loop.NewBox[message](h, hostedRuntime{m.deps.RT, h})
	return h
}

// ID returns the partition's identity.
func (h *Hosted) ID() model.TopicIDPartition { return h.id }

// TopicPartition returns the partition's name.
func (h *Hosted) TopicPartition() model.TopicPartition { return h.tp }

// Dir returns the path of the log directory that holds the partition, "" if
// none does.
func (h *Hosted) Dir() string {
	if h.dir == nil {
		return ""
	}
	return h.dir.path
}

// Established says whether an append is done within the loop's turn. A
// partition's first one waits for the disk; who sends it holds back what comes
// behind it over the same connection.
func (h *Hosted) Established() bool { return h.established.Load() }

// State returns the latest published snapshot, never nil.
func (h *Hosted) State() *State { return h.state.Load() }

// Backlog returns how many messages wait for the partition. Full reports that
// its mailbox has reached its bound: the connection that finds it so stops
// reading until it has not; nothing is refused.
func (h *Hosted) Backlog() int { return h.box.Len() }

// Full reports whether the mailbox has reached its bound.
func (h *Hosted) Full() bool { return h.box.Full() }

// scratch is what a Hosted needs while somebody is in its loop: there are as many
// as loops are at work, not as there are partitions.
type scratch struct {
	in  partition.Input
	out partition.Output
}

func (h *Hosted) enter() {
	s, ok := h.m.scratch.Get().(*scratch)
	if !ok {
		s = new(scratch)
	}
	h.scratch = s
}

func (h *Hosted) leave() {
	h.in = partition.Input{}
	h.out.Reset()
	h.m.scratch.Put(h.scratch)
	h.scratch = nil
}

// Handle takes one message. For the Box only.
func (h *Hosted) Handle(now model.Now, msg message, out *loop.Outbox) {
	h.enter()
	h.handleOne(now, msg, out)
	h.unpark(now, out)
	h.leave()
}

func (h *Hosted) handleOne(now model.Now, msg message, out *loop.Outbox) {
	h.turn = Turn{Hosted: h, Now: now, out: out}
	defer h.guard(now, msg, out)
	if h.blocked(now, msg, out) {
		h.parked = append(h.parked, msg)
		return
	}
	msg.handle(h, now, out)
	h.serveRide()
	h.publish(out)
}

// NextDeadline is the core's or the rider's. For the Box only.
func (h *Hosted) NextDeadline() model.Instant {
	at := h.core.NextDeadline()
	if h.ride.rider != nil {
		at = min(at, h.ride.rider.NextDeadline())
	}
	return at
}

// Tick passes a deadline to the core and the rider. For the Box only.
func (h *Hosted) Tick(now model.Now, out *loop.Outbox) {
	h.enter()
	h.tick(now, out)
	h.leave()
}

func (h *Hosted) tick(now model.Now, out *loop.Outbox) {
	h.turn = Turn{Hosted: h, Now: now, out: out}
	defer h.guard(now, nil, out)
	if h.core.NextDeadline() <= now.Mono {
		h.in = partition.Input{Kind: partition.KindTick}
		h.step(now, out)
	}
	h.serveRide()
	h.tickRide()
	h.serveRide()
	h.publish(out)
}

// step gives h.in to the core and carries out what it leaves, until nothing is
// left that can be done now.
func (h *Hosted) step(now model.Now, out *loop.Outbox) {
	for {
		h.core.Step(now, &h.in, &h.out)
		write, urgency := h.out.Write, h.out.Flush
		h.collect(out)
		h.out.Reset()
		if urgency != partition.FlushNone && h.plog != nil {
			h.startFlush(now, urgency == partition.FlushNow, out)
			return
		}
		if write.Kind == partition.WriteNone {
			break
		}
		written, done := h.begin(now, write, out)
		if !done {
			return
		}
		h.in = partition.Input{Kind: partition.KindWritten, Written: written}
	}
	if h.fault != nil && h.plog != nil {
		h.goOffline(now, partition.CodeStorageError, h.fault.Error(), out)
	}
}

// collect turns the core's answers into deliveries. Events come last: should
// telling one fail an assertion, no answer is lost or given twice.
func (h *Hosted) collect(out *loop.Outbox) {
	for _, p := range h.out.Produced {
		switch op := p.Token.(type) {
		case *produceOp:
			op.emit(out)
		case *RideAppend:
			h.ride.ended = append(h.ride.ended, op)
		}
	}
	for _, d := range h.out.Deleted {
		op := d.Token.(*deleteOp)
		op.emitted = true
		out.Add(op)
	}
	for _, f := range h.out.Replicas {
		op := f.Token.(*replicaFetchOp)
		op.emitted = true
		out.Add(op)
	}
	for _, f := range h.out.Fetched {
		f.Token.(*fetchedOp).emit(out)
	}
	if h.out.Follow != nil {
		h.follow(h.out.Follow, out)
	}
	for _, w := range h.out.Woken {
		out.Add(w.Token.(*FetchWait))
	}
	if h.out.Alter != nil {
		h.m.sendAlter(h, h.out.Alter, out)
	}
	if h.out.KeepStart && h.plog != nil {
		out.Add(&startAsked{h: h, plog: h.plog})
	}
	h.out.ResetAnswers()
	for i := range h.out.Events {
		h.observe(&h.out.Events[i])
	}
}

// publish makes the present state visible to all. Everything that a message
// changed becomes visible at once, before any answer of it is delivered. out
// takes the wakes of fetch sessions.
func (h *Hosted) publish(out *loop.Outbox) {
	old := h.state.Load()
	s := State{Mark: h.core.Mark(), Durable: h.core.Durable()}
	if h.plog != nil {
		s.View, s.RecoveryPoint = h.plog.View(), h.plog.RecoveryPoint()
		if v := h.plog.Epochs().Version(); v != h.epochsSeen {
			h.epochsSeen, h.standingStale = v, true
		}
	}
	if r := h.serves(); r != nil {
		r.show(&s.Mark)
	}
	// New settings take effect after the write that they came in, if there was one.
	if old != nil && old.MinISR != h.core.EffectiveMinISR() {
		h.standingStale = true
	}
	if old != nil && !h.standingStale {
		if s.Mark == old.Mark && s.Durable == old.Durable && s.View == old.View && s.RecoveryPoint == old.RecoveryPoint {
			return
		}
		s.Standing = old.Standing
		h.store(old, &s, out)
		return
	}
	h.standingStale = false
	s.Standing = h.standing()
	if s.Remnant != nil && (old == nil || old.Remnant == nil) {
		h.m.events.serving(h, s.Remnant)
	}
	h.store(old, &s, out)
}

// store keeps the one allocation of a State out of publish's early return.
func (h *Hosted) store(old, s *State, out *loop.Outbox) {
	published := *s
	h.state.Store(&published)
	for _, w := range h.watches {
		w.moved(old, &published, out)
	}
}

func (h *Hosted) standing() *Standing {
	st := &Standing{
		Leader: h.core.LeaderID(), PartitionEpoch: h.core.PartitionEpoch(), EpochStart: h.core.EpochStart(),
		ISR: h.core.ISR(), Replicas: h.replicas, MinISR: h.core.EffectiveMinISR(), Config: h.topic,
	}
	if h.core.Mark().Role == partition.Offline {
		st.Code, st.Reason = h.core.OfflineCode(), h.reason
	}
	st.Remnant = h.serves()
	switch {
	case h.plog != nil:
		st.epochs = h.plog.Epochs().Clone()
	case st.Remnant != nil:
		st.epochs = st.Remnant.epochs
	default:
		st.epochs, _ = epoch.New(nil)
	}
	return st
}

// goOffline answers everything that waits with code and lets go of the log.
func (h *Hosted) goOffline(now model.Now, code Code, reason string, out *loop.Outbox) {
	h.standingStale = true
	h.tailDone(out)
	if h.plog != nil {
		h.reason = reason
		h.lastOnline.Store(h.state.Load())
		h.heard.Store(int32(h.core.Mark().LeaderEpoch))
	}
	h.unled()
	plog := h.plog
	h.plog, h.work.pending = nil, false
	h.in = partition.Input{Kind: partition.KindOffline, Code: code}
	h.step(now, out)
	if plog != nil && code == partition.CodeStorageError {
		out.Add(troubleDelivery{h.m})
	}
	if plog != nil && h.fault != nil {
		if h.damage.Load() == nil {
			h.diskError.Store(diskErrorOf(h.fault))
		}
		// A broken log is only let go of: nothing is written to it any more.
		h.closing.Store(true)
		out.Add(&abandon{h: h, plog: plog})
		if h.damage.Load() != nil {
			h.lookBelow(out)
		}
	}
}

// snapshotProducers has the log keep the producers' state as it is when the role
// changes, so that a restart replays less.
func (h *Hosted) snapshotProducers() {
	if h.plog == nil {
		return
	}
	cut := h.busySince.Load() // one that begins after this turn
	h.busySince.Store(int64(h.turn.Now.Mono))
	err := h.plog.SnapshotProducers()
	h.busySince.Store(cut)
	h.resumed()
	if err != nil {
		h.m.logger.Warn("producers' state not kept; a restart will replay the log", name(h), zap.Error(err))
	}
}

// flushOld has everything unsynced flushed in the background.
func (h *Hosted) flushOld(now model.Now, out *loop.Outbox) {
	h.in = partition.Input{Kind: partition.KindFlushOld}
	h.step(now, out)
}

// takeDownMsg ends the partition's service and gives up its log unbroken.
type takeDownMsg struct {
	code   Code
	reason string
	w      *takenDown
}

func (m *takeDownMsg) handle(h *Hosted, now model.Now, out *loop.Outbox) {
	m.w.plog = h.plog
	h.dropRemnant()
	h.goOffline(now, m.code, m.reason, out)
	out.Add(m.w)
}

// abandon closes a broken log's files outside the loop.
type abandon struct {
	h    *Hosted
	plog *log.Log
}

// Deliver closes the files without writing anything.
func (a *abandon) Deliver(model.Now) {
	_ = a.plog.Close(false)
	a.h.closing.Store(false)
	if a.h.spoilt() {
		a.h.m.without.Add(1)
	}
}

// guard confines a failed assertion to this partition: it is quarantined, with
// its files as they are, and every request of it is answered.
func (h *Hosted) guard(now model.Now, msg message, out *loop.Outbox) {
	f := assert.Caught(recover())
	if f == nil {
		return
	}
	h.fault = f
	h.m.events.quarantined(h, f)
	h.collect(out)
	h.out.Reset()
	h.goOffline(now, partition.CodeStorageError, f.Error(), out)
	h.answerCurrent(msg, out)
	h.publish(out)
}

// answerCurrent answers the message that was being handled when an assertion
// failed, if the core had not yet taken charge of it.
func (h *Hosted) answerCurrent(msg message, out *loop.Outbox) {
	switch op := msg.(type) {
	case *produceOp:
		if !op.emitted {
			op.Result = stalledResult()
			op.Result.Message = ""
			op.emit(out)
		}
	case *deleteOp:
		if !op.emitted {
			op.Code, op.LowWatermark, op.emitted = partition.CodeStorageError, model.NoOffset, true
			out.Add(op)
		}
	case *replicaFetchOp:
		if !op.emitted {
			op.Result.Code, op.emitted = partition.CodeStorageError, true
			out.Add(op)
		}
	case *fetchedOp:
		if !op.emitted {
			op.Progress = partition.Progress{Outcome: partition.OutcomeStale}
			op.emit(out)
		}
	case *commandMsg:
		op.c.Dropped(&h.turn)
	case *producersOp:
		if !op.emitted {
			op.code, op.emitted = partition.CodeStorageError, true
			out.Add(op)
		}
	}
}
