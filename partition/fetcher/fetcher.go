package fetcher

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
)

// State is what is being done for a partition.
type State uint8

// The states; see the package.
const (
	Fetching State = iota
	Applying
	Truncating
	Delayed
	Failed
	states
)

// String returns the name of the state.
func (s State) String() string {
	return [...]string{"fetching", "applying", "truncating", "delayed", "failed", "?"}[min(s, states)]
}

// part is one partition that is fetched.
type part struct {
	id    ID
	topic string
	state State
	gone  bool // removed or replaced; lists may still hold it

	// pos, logStart and highWatermark are the partition's, as it told last.
	pos           partition.Position
	logStart      model.Offset
	highWatermark model.Offset

	// serial numbers the delivery that the partition has.
	serial uint64
	// until is the end of a delay, next the state after it.
	until model.Instant
	next  State
	// failures counts those in a row; code is the last one's.
	failures int
	code     partition.Code

	// sent: the leader's session has it, with asked. Invariant: an answer counts
	// for it only while sent, Fetching, and asked is what would be asked now.
	sent  bool
	asked question
	// fresh and stale: it is in the Fetcher's lists of that name.
	fresh, stale bool

	// answeredIn is the number of the last request that was answered for it.
	answeredIn uint64

	// leaderEnd is the leader's, while its bounds are asked for; NoOffset at first.
	leaderEnd model.Offset
	locating  bool // in the outstanding request
	// bounds and diverging: the delivery that it has is of that kind.
	bounds, diverging bool

	// corrupt counts the answers in a row that were damaged at corruptAt.
	corrupt   int
	corruptAt model.OffsetAndEpoch
	// divergedAt is where the leader's log ended last when it was found to be
	// another than ours, and the leader's epoch.
	divergedAt model.OffsetAndEpoch
}

// question is what a request says of a partition.
type question struct {
	pos                     partition.Position
	logStart, highWatermark model.Offset
	suspect                 bool // with a DamageTag
}

func (p *part) question() question {
	return question{p.pos, p.logStart, p.highWatermark, p.corrupt >= suspected}
}

// Fetcher is the state machine towards one leader. It is owned by one loop; only
// Step touches it.
type Fetcher struct {
	cfg         Config
	brokerEpoch model.BrokerEpoch

	parts map[ID]*part
	// order is all parts in the order they were added, with some that are gone.
	order  []*part
	counts [states]int // of parts, by state

	// fresh are parts whose question the leader's session may not have; stale are
	// those that it may have though they are not to be fetched.
	fresh, stale []*part
	delayed      []*part

	session session
	// outstanding is the request that was sent, nil if none; requests counts them,
	// serial the deliveries.
	outstanding kmsg.Request
	requests    uint64
	serial      uint64

	// sentAt is when the outstanding request was sent. At abortAt it is given up, if
	// it is still parked, for partitions that came meanwhile; Never if none did.
	sentAt, abortAt model.Instant
	abortedAt       model.Instant

	// failures counts failed requests in a row; pausedUntil is the end of the
	// pause after the last, reconnect asks for a new connection.
	failures    int
	pausedUntil model.Instant
	reconnect   bool
	// heldUntil: the next fetch waits so long for what is being applied; 0 if
	// nothing is held.
	heldUntil model.Instant
	// wakeAt is the earliest end of a delay.
	wakeAt model.Instant
}

// holdMax is how long a fetch waits for answers that are being applied, and how
// long the leader may hold one that could not wait for them: 20 ms.
const holdMax = model.Instant(20 * 1e6)

// abortAfter is how long a fetch may have been parked with the leader when a
// partition is added, and how long more are then waited for: 5 ms. A fetch that is
// that old brings nothing soon, while the new partition may hold up its leader's
// high watermark. abortEvery is the least time between two such fetches.
const (
	abortAfter = model.Instant(5 * 1e6)
	abortEvery = model.Instant(100 * 1e6)
)

// pauseMin is the first pause after a failure; each doubles. A leader that has
// not heard of its epoch yet, which is how most failures begin, hears soon.
const pauseMin = model.Instant(25 * 1e6)

// New returns a Fetcher without partitions.
func New(c Config) *Fetcher {
	return &Fetcher{
		cfg: c, brokerEpoch: model.NoBrokerEpoch, parts: make(map[ID]*part),
		wakeAt: model.Never, abortAt: model.Never,
	}
}

// Len returns how many partitions there are.
func (f *Fetcher) Len() int { return len(f.parts) }

// Count returns how many partitions are in a state.
func (f *Fetcher) Count(s State) int { return f.counts[s] }

// StateOf returns what is being done for a partition; false if it is not here.
func (f *Fetcher) StateOf(id ID) (State, bool) {
	p := f.parts[id]
	if p == nil {
		return 0, false
	}
	return p.state, true
}

// NextDeadline is when Step must be given a KindTick.
func (f *Fetcher) NextDeadline() model.Instant {
	at := min(f.wakeAt, f.abortAt)
	if f.outstanding == nil && f.counts[Fetching]+f.counts[Truncating] > 0 {
		if f.pausedUntil > 0 {
			at = min(at, f.pausedUntil)
		} else if f.heldUntil > 0 {
			at = min(at, f.heldUntil)
		}
	}
	return at
}

// Step takes one fact and leaves in out what is to be done about it.
func (f *Fetcher) Step(now model.Now, in *Input, out *Output) {
	f.brokerEpoch = in.BrokerEpoch
	switch in.Kind {
	case KindAdd:
		f.add(&in.Add)
		f.hurry(now.Mono)
	case KindRemove:
		if p := f.parts[in.ID]; p != nil {
			f.remove(p)
		}
	case KindAnswered:
		f.answered(now.Mono, &in.Answer, out)
	case KindProgress:
		f.progress(now.Mono, &in.Progress, out)
	case KindTick:
	case KindAbandon:
		f.abandon(now.Mono, in.ID)
	default:
		assert.Unreachable("input of kind %d", in.Kind)
	}
	f.wake(now.Mono)
	f.abort(now.Mono)
	f.pump(now.Mono, out)
	assert.Slow(f.check)
}

func (f *Fetcher) add(a *Add) {
	if old := f.parts[a.ID]; old != nil {
		f.remove(old)
	}
	p := &part{
		id: a.ID, topic: a.Topic, pos: a.Position, logStart: a.LogStart, highWatermark: a.HighWatermark,
		leaderEnd: model.NoOffset,
	}
	f.parts[p.id] = p
	if len(f.order) > 2*len(f.parts)+64 {
		f.compact()
	}
	f.order = append(f.order, p)
	f.counts[Fetching]++
	f.freshen(p)
}

// remove forgets a partition. The leader's session still has it, until the next
// request says otherwise.
func (f *Fetcher) remove(p *part) {
	p.gone = true
	f.counts[p.state]--
	delete(f.parts, p.id)
	f.stalen(p)
}

func (f *Fetcher) compact() {
	kept := f.order[:0]
	for _, p := range f.order {
		if !p.gone {
			kept = append(kept, p)
		}
	}
	clear(f.order[len(kept):])
	f.order = kept
}

// enter changes a partition's state.
func (f *Fetcher) enter(p *part, s State) {
	f.counts[p.state]--
	p.state = s
	f.counts[s]++
	if s == Fetching {
		f.freshen(p)
		return
	}
	f.stalen(p)
}

func (f *Fetcher) freshen(p *part) {
	if !p.fresh && (!p.sent || p.asked != p.question()) {
		p.fresh = true
		f.fresh = append(f.fresh, p)
	}
}

func (f *Fetcher) stalen(p *part) {
	if !p.stale && p.sent {
		p.stale = true
		f.stale = append(f.stale, p)
	}
}

// delay takes a partition out of the requests for a while.
func (f *Fetcher) delay(now model.Instant, p *part, pause model.Instant) {
	f.enter(p, Delayed)
	p.until, p.next = now+pause, Fetching
	f.delayed = append(f.delayed, p)
	f.wakeAt = min(f.wakeAt, p.until)
}

// wake ends the delays that are over.
func (f *Fetcher) wake(now model.Instant) {
	if f.wakeAt > now {
		return
	}
	f.wakeAt = model.Never
	kept := f.delayed[:0]
	for _, p := range f.delayed {
		switch {
		case p.gone || p.state != Delayed:
		case p.until <= now:
			f.enter(p, p.next)
		default:
			kept = append(kept, p)
			f.wakeAt = min(f.wakeAt, p.until)
		}
	}
	clear(f.delayed[len(kept):])
	f.delayed = kept
}

// pause is how long to wait after the n-th failure in a row.
func (f *Fetcher) pause(n int) model.Instant {
	return min(f.cfg.Backoff, pauseMin<<min(max(n-1, 0), 20))
}

// progress takes where a partition stands after a delivery.
func (f *Fetcher) progress(now model.Instant, g *Progress, out *Output) {
	p := f.parts[g.ID]
	if p == nil || p.state != Applying || p.serial != g.Serial {
		return
	}
	if !g.Following || g.Position.LeaderEpoch != p.pos.LeaderEpoch {
		f.enter(p, Failed) // an Add with the new epoch, or a Remove, is on its way
		return
	}
	p.pos, p.logStart, p.highWatermark = g.Position, g.LogStart, g.HighWatermark
	switch g.Outcome {
	case partition.OutcomeCorrupt:
		f.corrupted(now, p, g, out)
	case partition.OutcomeRefused:
		p.failures++
		f.delay(now, p, f.cfg.Backoff)
	case partition.OutcomeStuck:
		if g.Why != nil {
			f.corrupted(now, p, g, out)
			return
		}
		p.failures++
		f.delay(now, p, f.pause(p.failures))
	default:
		if g.Truncated && p.diverging {
			f.diverged(now, p, out)
			return
		}
		if !p.bounds { // those are only the hope that the next fetch is in range
			p.failures, p.code, p.corrupt = 0, 0, 0
		}
		f.enter(p, Fetching)
	}
}

// abandon has everything that was delivered asked for anew, over another connection,
// but for one partition, whose disk does not answer. What comes of those deliveries
// later counts for nothing.
func (f *Fetcher) abandon(now model.Instant, stuck ID) {
	for _, p := range f.order {
		if !p.gone && p.state == Applying && p.id != stuck {
			p.serial = 0
			f.enter(p, Fetching)
		}
	}
	f.abortAt = now
}

// diverged notes where a log was cut because the leader's is another. What is
// fetched in one epoch of a leader is that leader's: to be cut back to the same
// offset twice says that what came from there was not of the epoch that it said.
func (f *Fetcher) diverged(now model.Instant, p *part, out *Output) {
	at := model.OffsetAndEpoch{Offset: p.pos.Offset, Epoch: p.pos.LeaderEpoch}
	if p.divergedAt != at {
		p.divergedAt, p.failures, p.code, p.corrupt = at, 0, 0, 0
		f.enter(p, Fetching)
		return
	}
	p.failures++
	if p.corrupt < suspected {
		p.corrupt, p.corruptAt = suspected, at
		out.Events = append(out.Events, Event{Kind: EventDamaged, ID: p.id, Position: p.pos, Err: errDiverges})
	}
	f.delay(now, p, f.pause(p.failures))
}

// errDiverges: what was fetched in a leader's epoch is not the leader's.
var errDiverges = errors.New("the leader does not know the epochs of what it sent")

// suspected is how many answers must have been damaged before the leader is told.
const suspected = 2

// DamageTag is the tag of a partition in a follower's Fetch by which it says that
// what came at this offset was no batch, twice, over different connections: the
// leader verifies what it has. It is Tidemark's own; see docs/formats/private.md.
const DamageTag = 20000

// corrupted fetches the same again over another connection, and tells when it
// was damaged there too: then it is the leader's log that is, not the way.
func (f *Fetcher) corrupted(now model.Instant, p *part, g *Progress, out *Output) {
	at := model.OffsetAndEpoch{Offset: p.pos.Offset, Epoch: p.pos.LeaderEpoch}
	if p.corruptAt != at {
		p.corruptAt, p.corrupt = at, 0
	}
	p.corrupt++
	p.failures++
	f.reconnect = true
	if p.corrupt == suspected {
		out.Events = append(out.Events, Event{Kind: EventDamaged, ID: p.id, Position: p.pos, Err: g.Why})
	}
	f.delay(now, p, f.pause(p.failures))
}

// check asserts what must hold after every step.
func (f *Fetcher) check() {
	var counts [states]int
	for _, p := range f.parts { // order-free: counted
		counts[p.state]++
		assert.That(!p.gone, "a partition that was removed is still here")
		assert.That(p.state != Fetching || p.fresh || p.sent && p.asked == p.question(),
			"%s is to be fetched, and no request will say so", p.id)
		assert.That(p.state == Fetching || !p.sent || p.stale, "%s is not to be fetched, and no request will say so", p.id)
	}
	assert.That(counts == f.counts, "states %v, counted %v", counts, f.counts)
}
