package coordinator

import (
	"slices"

	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
)

// State is where a Runtime stands.
type State uint8

// The states.
const (
	Idle    State = iota // this broker does not lead the partition
	Loading              // it leads, and reads the log
	Active               // it serves
	Failed               // the log could not be read; it will be tried again
	Closed               // the node stops
)

// String returns the name of the state.
func (s State) String() string {
	names := [...]string{"idle", "loading", "active", "failed", "closed"}
	if int(s) < len(names) {
		return names[s]
	}
	return "?"
}

// Bounds and pauses of a Runtime.
const (
	// CallsMax bounds the calls that wait for an append to finish. One more is
	// answered COORDINATOR_NOT_AVAILABLE, and its client asks again.
	CallsMax = 8192
	// WritesMax bounds the batches that are appended and not committed. Above it
	// calls are answered COORDINATOR_NOT_AVAILABLE until some are.
	WritesMax = 8192
	// retryLoad is the pause before a log that could not be read is read again.
	retryLoad = model.Instant(1e9)
)

// Runtime rides on one partition; see the package comment. It is owned by that
// partition's loop.
type Runtime struct {
	state State
	epoch model.LeaderEpoch // of the present reign
	// load numbers the loadings; an answer of an older one is dropped.
	load    uint64
	retryAt model.Instant
	machine Machine // nil unless Active
	// loaded is a machine that waits to serve; see begin.
	loaded Machine
	// next is the log end as this runtime knows it: where its next record goes.
	next model.Offset
	// high is what is committed, as told last.
	high model.Offset

	appending *Write   // given to the shell, not in the log yet
	writes    []*Write // to be appended, in order
	open      []*Write // appended, and the outcome is awaited
	barriers  []*Write // wait for the high watermark, in order
	calls     []*Call  // wait for the append
	reloads   int64
}

// State returns where the runtime stands.
func (r *Runtime) State() State { return r.state }

// Epoch returns the leader epoch of the present reign.
func (r *Runtime) Epoch() model.LeaderEpoch { return r.epoch }

// Load returns the number of the latest loading.
func (r *Runtime) Load() uint64 { return r.load }

// Machine returns the machine that serves, nil unless Active.
func (r *Runtime) Machine() Machine { return r.machine }

// Reloads returns how often the log was loaded again because of a doubt.
func (r *Runtime) Reloads() int64 { return r.reloads }

// Lead begins a reign: the log is loaded from its start.
func (r *Runtime) Lead(epoch model.LeaderEpoch, out *Out) {
	if r.state == Closed {
		return
	}
	r.drop(CodeNotCoordinator, out)
	r.epoch, r.high = epoch, 0
	r.startLoad(out)
}

func (r *Runtime) startLoad(out *Out) {
	r.state, r.retryAt, r.loaded = Loading, model.Never, nil
	r.load++
	out.Load = true
}

// Unlead ends the reign.
func (r *Runtime) Unlead(out *Out) {
	if r.state == Closed {
		return
	}
	r.drop(CodeNotCoordinator, out)
	r.state = Idle
}

// drop answers everything with code and forgets the machine.
func (r *Runtime) drop(code Code, out *Out) {
	for _, list := range [][]*Write{r.open, {r.appending}, r.writes, r.barriers} {
		for _, w := range list {
			if w != nil && w.Call != nil {
				out.Fail(w.Call, code)
			}
		}
	}
	for _, c := range r.calls {
		out.Fail(c, code)
	}
	if r.machine != nil {
		r.machine.Close(code, out)
	}
	r.loaded = nil
	r.machine, r.calls, r.writes, r.appending, r.open, r.barriers = nil, nil, nil, nil, nil, nil
	out.writes, out.Append = nil, nil
}

// Close ends the service: what waits is answered COORDINATOR_NOT_AVAILABLE.
func (r *Runtime) Close(out *Out) {
	r.drop(CodeCoordinatorNotAvailable, out)
	r.state = Closed
}

// Restart forgets everything and loads again, without answering anybody: the
// shell does, when an assertion has failed and nothing in here can be trusted.
func (r *Runtime) Restart(out *Out) {
	*r = Runtime{state: r.state, epoch: r.epoch, load: r.load, high: r.high, reloads: r.reloads + 1}
	*out = Out{}
	if r.state != Idle && r.state != Closed {
		r.startLoad(out)
	}
}

// reload gives up what is known: the log says otherwise.
func (r *Runtime) reload(out *Out) {
	r.drop(CodeCoordinatorLoadInProgress, out)
	r.reloads++
	r.startLoad(out)
}

// Loaded hands over the machine that loading number load made, with everything
// below end replayed.
func (r *Runtime) Loaded(now model.Now, load uint64, m Machine, end model.Offset, out *Out) {
	if r.state != Loading || r.load != load {
		return
	}
	r.loaded, r.next = m, end
	r.begin(now, out)
}

// begin has the loaded machine serve once all that it was made of is committed. A
// leader that was just elected may know a high watermark from long ago: what was
// acknowledged by the one before would be there and not be shown, as if it had
// been taken back.
func (r *Runtime) begin(now model.Now, out *Out) {
	if r.loaded == nil || r.high < r.next && !mutant.On("coord-serves-old-watermark") {
		return
	}
	if r.high > r.next {
		r.startLoad(out) // somebody has written meanwhile
		return
	}
	m := r.loaded
	r.state, r.machine, r.loaded = Active, m, nil
	m.Commit(min(r.high, r.next))
	m.Begin(now, out)
	r.proceed(now, out)
}

// LoadFailed says that the log could not be read; it is tried again after a
// pause.
func (r *Runtime) LoadFailed(now model.Now, load uint64) {
	if r.state == Loading && r.load == load {
		r.state, r.retryAt = Failed, now.Mono+retryLoad
	}
}

// Call takes one request.
func (r *Runtime) Call(now model.Now, c *Call, out *Out) {
	switch {
	case r.state == Loading:
		out.Fail(c, CodeCoordinatorLoadInProgress)
	case r.state == Failed, r.state == Closed:
		out.Fail(c, CodeCoordinatorNotAvailable)
	case r.state == Idle:
		out.Fail(c, CodeNotCoordinator)
	case len(r.open)+len(r.barriers) >= WritesMax, len(r.calls) >= CallsMax:
		out.Fail(c, CodeCoordinatorNotAvailable)
	case r.busy():
		r.calls = append(r.calls, c)
	default:
		r.machine.Handle(now, c, out)
		r.proceed(now, out)
	}
}

func (r *Runtime) busy() bool { return r.appending != nil || len(r.writes) > 0 }

// proceed starts the next append, or takes the calls that waited for the last.
func (r *Runtime) proceed(now model.Now, out *Out) {
	for r.state == Active {
		r.writes = append(r.writes, out.writes...)
		out.writes = out.writes[:0]
		switch {
		case r.appending != nil:
			return
		case len(r.writes) > 0:
			w := r.writes[0]
			r.writes[0] = nil
			r.writes = r.writes[1:]
			r.start(now, w, out)
		case len(r.calls) > 0:
			c := r.calls[0]
			r.calls[0] = nil
			r.calls = r.calls[1:]
			r.machine.Handle(now, c, out)
		default:
			r.writes, r.calls = nil, nil
			return
		}
	}
}

// start has one write appended, or a barrier passed.
func (r *Runtime) start(now model.Now, w *Write, out *Out) {
	w.load = r.load
	if len(w.Records) == 0 {
		if w.end = r.next; r.high >= r.next {
			r.machine.Written(now, w, CodeNone, out)
			return
		}
		w.until = now.Mono + w.Timeout
		r.barriers = append(r.barriers, w)
		return
	}
	r.appending, out.Append = w, w
	if mutant.On("coord-replay-before-append") {
		r.replay(w, r.next)
	}
}

func (r *Runtime) replay(w *Write, base model.Offset) {
	for i, rec := range w.Records {
		r.machine.Replay(base.Add(model.OffsetDelta(i)), rec)
	}
}

// Appended says that the outstanding write is in the log, its first record at
// base. Its records are replayed before anything else happens.
func (r *Runtime) Appended(now model.Now, w *Write, base model.Offset, out *Out) {
	if w != r.appending {
		return // of an earlier reign
	}
	r.appending = nil
	r.open = append(r.open, w)
	if base != r.next {
		r.reload(out) // somebody else has written to the partition
		return
	}
	w.end = base.Add(model.OffsetDelta(len(w.Records)))
	r.next = w.end
	if !mutant.On("coord-replay-before-append") {
		r.replay(w, base)
	}
	if mutant.On("coord-visible-before-commit") {
		r.machine.Commit(w.end)
	}
	r.proceed(now, out)
}

// Committed says that everything below high is replicated.
func (r *Runtime) Committed(now model.Now, high model.Offset, out *Out) {
	r.high = high
	if r.state != Active {
		r.begin(now, out)
		return
	}
	if high > r.next {
		r.reload(out) // there are records that are not ours
		return
	}
	r.machine.Commit(high)
	for len(r.barriers) > 0 && r.barriers[0].end <= high {
		w := r.barriers[0]
		r.barriers = r.barriers[1:]
		r.machine.Written(now, w, CodeNone, out)
	}
	r.proceed(now, out)
}

// Done says how a write ended, after Appended if it was appended.
func (r *Runtime) Done(now model.Now, w *Write, code Code, out *Out) {
	if r.state != Active || w.load != r.load {
		return // of an earlier reign
	}
	if w == r.appending { // refused: nothing is in the log
		assert.That(code != CodeNone, "a write was committed before it was appended")
		r.appending = nil
	} else {
		i := slices.Index(r.open, w)
		assert.That(i >= 0, "a write ended that was not open")
		r.open = slices.Delete(r.open, i, i+1)
	}
	r.machine.Written(now, w, code, out)
	r.proceed(now, out)
}

// NextDeadline is when Tick is due. Nothing is decided while an append is
// outstanding.
func (r *Runtime) NextDeadline() model.Instant {
	switch {
	case r.state == Failed:
		return r.retryAt
	case r.state == Active && !r.busy():
		return min(r.machine.NextDeadline(), r.barrierAt())
	}
	return model.Never
}

// barrierAt is when the oldest barrier's time is up.
func (r *Runtime) barrierAt() model.Instant {
	at := model.Never
	for _, w := range r.barriers {
		at = min(at, w.until)
	}
	return at
}

// Tick does what is due.
func (r *Runtime) Tick(now model.Now, out *Out) {
	switch {
	case r.state == Failed && now.Mono >= r.retryAt:
		r.startLoad(out)
	case r.state == Active && !r.busy():
		if r.barrierAt() <= now.Mono {
			r.expireBarriers(now, out)
		}
		if r.machine.NextDeadline() <= now.Mono {
			r.machine.Tick(now, out)
		}
		r.proceed(now, out)
	}
}

func (r *Runtime) expireBarriers(now model.Now, out *Out) {
	var late []*Write
	r.barriers = slices.DeleteFunc(r.barriers, func(w *Write) bool {
		if w.until > now.Mono {
			return false
		}
		late = append(late, w)
		return true
	})
	for _, w := range late {
		r.machine.Written(now, w, CodeRequestTimedOut, out)
	}
}
