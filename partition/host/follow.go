package host

import (
	"sync/atomic"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/partition/fetcher"
)

// follow has this partition fetched from another leader, or from nobody.
func (h *Hosted) follow(f *partition.Follow, out *loop.Outbox) {
	var to *fetchLoop
	if f.Leader != model.NoLeader {
		to = h.m.fetchLoops.of(f.Leader, h.tp)
	}
	if from := h.fetching; from != nil && from != to {
		loop.Send[fetchMessage](out, from.box, &unfollowMsg{h})
	}
	h.fetching = to
	h.lag.Store(0)
	if to != nil {
		loop.Send[fetchMessage](out, to.box, &followMsg{h, *f})
	}
}

// fetchedOp is a leader's answer for one partition: it is checked outside every
// loop, goes through the partition's and then back to the fetcher's.
type fetchedOp struct {
	partition.Fetched
	h       *Hosted
	l       *fetchLoop
	serial  uint64
	raw     []byte
	frame   Frame
	emitted bool
}

func newFetchedOp(l *fetchLoop, h *Hosted, d *fetcher.Delivery, hold Frame) *fetchedOp {
	op := &fetchedOp{h: h, l: l, serial: d.Serial, raw: d.Records}
	op.Fetched = partition.Fetched{
		Kind: d.Kind, Asked: d.Asked, HighWatermark: d.HighWatermark, LogStart: d.LogStart,
		Diverging: d.Diverging, LeaderStart: d.LeaderStart, LeaderEnd: d.LeaderEnd, Token: op,
	}
	if len(op.raw) > 0 && hold != nil {
		hold.Retain()
		op.frame = hold
	}
	return op
}

// Relay checks the bytes and passes them on; not on this goroutine to a partition
// whose disk hangs, since others wait behind it.
func (op *fetchedOp) Relay(_ model.Now, out *loop.Outbox) {
	op.Records = partition.CheckRecords(op.raw)
	if d := op.h.dir; d != nil && d.slow.used.Load() {
		op.h.box.Post(op)
		return
	}
	loop.Send[message](out, op.h.box, op)
}

func (op *fetchedOp) handle(h *Hosted, now model.Now, out *loop.Outbox) {
	h.in = partition.Input{Kind: partition.KindFetched, Fetched: &op.Fetched}
	h.step(now, out)
	if !h.core.Busy() {
		op.releaseFrame()
	}
}

// releaseFrame gives the answer's bytes back: they are in the log or refused.
func (op *fetchedOp) releaseFrame() {
	if op.frame != nil {
		op.frame.Release()
		op.frame = nil
	}
	op.raw, op.Records = nil, partition.Records{}
}

// emit tells the fetcher.
func (op *fetchedOp) emit(out *loop.Outbox) {
	op.releaseFrame()
	op.emitted = true
	g := &op.Progress
	c := &op.h.m.followed
	c.bytes.Add(int64(g.Bytes))
	switch {
	case g.Outcome == partition.OutcomeCorrupt:
		c.corrupt.Add(1)
	case g.Truncated:
		c.truncations.Add(1)
	}
	if op.Kind == partition.AnswerRecords && g.Following {
		op.h.lag.Store(max(0, int64(op.HighWatermark.Sub(g.Position.Offset))))
	}
	loop.Send[fetchMessage](out, op.l.box, op)
}

func (op *fetchedOp) fetch(l *fetchLoop, now model.Now, out *loop.Outbox) {
	l.in = fetcher.Input{Kind: fetcher.KindProgress, Progress: fetcher.Progress{
		ID: op.h.id, Serial: op.serial, Progress: op.Progress,
	}}
	l.step(now, nil, out)
}

// followCounts counts what this broker does as a follower.
type followCounts struct {
	requests, bytes, failures, corrupt, truncations, belowHW, outOfRange atomic.Int64
}

// FollowStats is what this broker does as a follower.
type FollowStats struct {
	// Partitions follow a leader; Lagging of them lack something below its high
	// watermark, MaxLag is the most records that one lacks.
	Partitions, Lagging int
	MaxLag              int64
	// Requests were sent to leaders, Bytes of records were appended.
	Requests, Bytes int64
	// Failures of requests, the first of each row; Corrupt answers; Truncations,
	// of which BelowHighWatermark cut what had been committed; OutOfRange answers.
	Failures, Corrupt, Truncations, BelowHighWatermark, OutOfRange int64
}

// FollowStats counts.
func (m *ReplicaManager) FollowStats() FollowStats {
	c := &m.followed
	s := FollowStats{
		Requests: c.requests.Load(), Bytes: c.bytes.Load(), Failures: c.failures.Load(), Corrupt: c.corrupt.Load(),
		Truncations: c.truncations.Load(), BelowHighWatermark: c.belowHW.Load(), OutOfRange: c.outOfRange.Load(),
	}
	for _, h := range m.All() {
		if st := h.State(); st.Role != partition.Follower || st.Leader == model.NoLeader {
			continue
		}
		s.Partitions++
		if lag := h.lag.Load(); lag > 0 {
			s.Lagging++
			s.MaxLag = max(s.MaxLag, lag)
		}
	}
	return s
}

// Lag is how many records below the leader's high watermark this follower lacks,
// as of its last answer with news.
func (h *Hosted) Lag() int64 { return h.lag.Load() }

// ControllerHeard tells that at the given instant this broker had an answer of a
// controller whose term a quorum had confirmed. A leader that hears neither it
// nor its followers for a session takes no writes.
func (m *ReplicaManager) ControllerHeard(at model.Instant) {
	for {
		old := m.heardAt.Load()
		if int64(at) <= old || m.heardAt.CompareAndSwap(old, int64(at)) {
			return
		}
	}
}
