package partition_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/record"
)

// TestRandomClusters lets three replicas produce, fetch, delete records, fail
// over, crash, meet full disks and damaged answers, and lose, repeat and delay
// answers at random, under a controller that elects from the ISR alone, and checks
// after each step:
//
//   - what was acknowledged by all stands in the log of every later leader, but for
//     deleted records;
//   - two logs that agree on the epoch at an offset agree there and below;
//   - no high watermark falls but by a truncation, and what lies below that of two
//     replicas is the same;
//   - the numbers of each replica are in order, and its epoch cache is that of its
//     batches.
func TestRandomClusters(t *testing.T) {
	seeds := uint64(400)
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		if why := randomCluster(seed, 400); why != "" {
			t.Fatalf("seed %d: %s", seed, why)
		}
	}
}

// swarm is one run: what it does, and how often.
type swarm struct {
	*cluster
	rng   *rand.Rand
	serve int
	acked map[string]model.Offset // values acknowledged by all, and where
	told  []*partition.Fetched
	hw    map[model.BrokerID]model.Offset
	why   string
}

// randomCluster returns what went wrong, "" if nothing did.
func randomCluster(seed uint64, steps int) string {
	rng := rand.New(rand.NewPCG(seed, 11))
	cfg := defaultConfig()
	cfg.MinISR = int32(1 + rng.IntN(2))
	if rng.IntN(3) == 0 {
		cfg.FlushMessages = 1
	}
	s := &swarm{
		cluster: newCluster([]model.BrokerID{1, 2, 3}, cfg), rng: rng, acked: map[string]model.Offset{},
		hw: map[model.BrokerID]model.Offset{},
	}
	s.elect()
	var did []string
	for range steps {
		s.now.Mono += model.Instant(rng.Int64N(int64(3_000 * ms)))
		s.now.Wall += 10
		did = append(did, s.one())
		s.check()
		if s.why != "" {
			return fmt.Sprintf("%s, after %v", s.why, did[max(0, len(did)-25):])
		}
	}
	return ""
}

func (s *swarm) up() []*node {
	var up []*node
	for _, n := range s.nodes {
		if n.p != nil {
			up = append(up, n)
		}
	}
	return up
}

// elect has the controller choose a leader among the live members of the ISR.
func (s *swarm) elect() {
	var able []model.BrokerID
	for _, n := range s.up() {
		if slices.Contains(s.reg.ISR, n.id) {
			able = append(able, n.id)
		}
	}
	s.reg.LeaderEpoch++
	s.reg.PartitionEpoch++
	s.reg.Leader = model.NoLeader
	if len(able) > 0 {
		s.reg.Leader = able[s.rng.IntN(len(able))]
	}
}

func (s *swarm) one() string {
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	if n.p == nil {
		if s.rng.IntN(3) == 0 {
			n.epoch += 100
			s.start(n)
			s.register(n)
			if s.reg.Leader == model.NoLeader {
				s.elect()
			}
			return fmt.Sprintf("restart %d", n.id)
		}
		return ""
	}
	switch k := s.rng.IntN(20); k {
	case 0, 1, 2:
		s.serve++
		value := fmt.Sprint("v", s.serve)
		values := []string{value}
		for range s.rng.IntN(3) {
			values = append(values, "more")
		}
		s.produce(n, -1, value, values...)
		return fmt.Sprintf("produce %d %s", n.id, value)
	case 3, 4, 5, 6:
		if n.asked == nil && n.answer == nil && n.follow != nil && s.leaderOf(n).p != nil {
			s.ask(n)
			return fmt.Sprintf("ask %d", n.id)
		}
	case 7, 8, 9, 10:
		if n.asked != nil {
			s.reply(n, 1+s.rng.IntN(4))
			return fmt.Sprintf("reply %d", n.id)
		}
	case 11, 12, 13:
		if a := n.answer; a != nil {
			if a.Records.Len() > 0 && s.rng.IntN(10) == 0 {
				s.damage(n, 0, 65)
			}
			if s.rng.IntN(15) == 0 {
				n.plog.fault = partition.FaultRefused
			}
			again := *a
			s.told = append(s.told, &again)
			s.deliver(n)
			return fmt.Sprintf("deliver %d", n.id)
		}
	case 14:
		if s.rng.IntN(2) == 0 {
			return s.delete(n)
		}
		n.answer, n.asked = nil, nil
		return fmt.Sprintf("drop %d", n.id)
	case 15: // any answer of before arrives again, at anybody
		if len(s.told) > 0 {
			again := *s.told[s.rng.IntN(len(s.told))]
			s.step(n, partition.Input{Kind: partition.KindFetched, Fetched: &again})
			return fmt.Sprintf("again %d %+v", n.id, again.Asked)
		}
	case 16:
		return s.rarely(n)
	case 17:
		s.flushAll(n)
		s.step(n, partition.Input{Kind: partition.KindTick})
		return fmt.Sprintf("tick %d", n.id)
	case 18:
		return s.controller(n)
	case 19:
		s.register(n)
		return fmt.Sprintf("tell %d", n.id)
	}
	return ""
}

// delete raises a leader's log start, perhaps into the middle of a batch.
func (s *swarm) delete(n *node) string {
	m := n.p.Mark()
	if m.Role != partition.Leader {
		return ""
	}
	to := m.LogStart + model.Offset(s.rng.Int64N(int64(m.HighWatermark-m.LogStart)+1))
	del := &partition.DeleteRecords{Offset: to}
	del.Deadline = model.Never
	s.step(n, partition.Input{Kind: partition.KindDeleteRecords, Delete: del})
	return fmt.Sprintf("delete %d to %d", n.id, to)
}

func (s *swarm) flushAll(n *node) {
	if n.flush >= 0 {
		to := min(n.flush, n.plog.end)
		n.flush, n.plog.durable = -1, max(n.plog.durable, to)
		s.step(n, partition.Input{Kind: partition.KindFlushed, Flushed: n.plog.durable})
	}
}

// rarely does what ends a reign.
func (s *swarm) rarely(n *node) string {
	switch s.rng.IntN(3) {
	case 0:
		s.elect()
		return fmt.Sprintf("elect %d epoch %d", s.reg.Leader, s.reg.LeaderEpoch)
	case 1:
		s.crash(n, false, 0)
		if s.reg.Leader == n.id {
			s.elect()
		}
		return fmt.Sprintf("kill %d", n.id)
	}
	if slices.Contains(s.reg.ISR, n.id) {
		if len(s.reg.ISR) == 1 {
			return ""
		}
		s.reg.ISR = slices.DeleteFunc(slices.Clone(s.reg.ISR), func(id model.BrokerID) bool { return id == n.id })
		s.reg.PartitionEpoch++
	}
	s.crash(n, true, model.Offset(s.rng.Int64N(int64(n.plog.end-n.plog.start)+1))+n.plog.start)
	if s.reg.Leader == n.id {
		s.elect()
	}
	return fmt.Sprintf("power %d", n.id)
}

// controller answers a leader's proposal, as the controller's rules demand.
func (s *swarm) controller(n *node) string {
	p := n.alter
	if p == nil {
		return ""
	}
	n.alter = nil
	code := partition.Code(0)
	for _, m := range p.ISR {
		if o := s.node(m.ID); o.p == nil || m.Epoch != model.NoBrokerEpoch && m.Epoch != o.epoch {
			code = 107
		}
	}
	switch {
	case s.reg.Leader != n.id || p.LeaderEpoch != s.reg.LeaderEpoch:
		code = partition.CodeFencedLeaderEpoch
	case p.PartitionEpoch != s.reg.PartitionEpoch:
		code = 95
	}
	answer := partition.AlterAnswer{Token: p.Token, Code: code}
	if code == 0 {
		s.reg.ISR = nil
		for _, m := range p.ISR {
			s.reg.ISR = append(s.reg.ISR, m.ID)
		}
		s.reg.PartitionEpoch++
	}
	if s.rng.IntN(4) == 0 {
		answer.Retriable = true // the answer is lost, and it is asked again
	}
	s.step(n, partition.Input{Kind: partition.KindAlterAnswered, Alter: answer})
	return fmt.Sprintf("alter %d code=%d isr=%v", n.id, code, s.reg.ISR)
}

func (s *swarm) fail(format string, args ...any) {
	if s.why == "" {
		s.why = fmt.Sprintf(format, args...)
	}
}

func (s *swarm) check() {
	s.text.Reset()
	for _, n := range s.nodes {
		for _, r := range n.results {
			var value string
			var code int
			var base model.Offset
			if _, err := fmt.Sscanf(r, "%s code=%d base=%d", &value, &code, &base); err == nil && code == 0 {
				s.acked[value] = base
			}
		}
		n.results = nil
	}
	for i, n := range s.nodes {
		s.checkOne(n)
		for _, o := range s.nodes[i+1:] {
			s.checkTwo(n, o)
		}
	}
	if s.reg.Leader == model.NoLeader {
		return
	}
	if l := s.node(s.reg.Leader); l.p != nil && l.p.Mark().Role == partition.Leader && l.p.Mark().LeaderEpoch == s.reg.LeaderEpoch {
		have := map[string]bool{}
		for _, b := range l.plog.batches {
			have[string(firstValue(b))] = true
		}
		for v, at := range s.acked {
			if !have[v] && at >= l.plog.start {
				s.fail("leader %d of epoch %d lacks %s", l.id, s.reg.LeaderEpoch, v)
			}
		}
	}
}

func (s *swarm) checkOne(n *node) {
	cache := append(n.plog.epochs.Entries()[:0:0], n.plog.epochs.Entries()...)
	last, end := model.NoEpoch, model.Offset(0)
	for _, b := range n.plog.batches {
		if b.LastOffset() < n.plog.start {
			continue
		}
		if b.BaseOffset() < end || b.LeaderEpoch() < last {
			s.fail("%d: batch at %d of epoch %d after %d of epoch %d", n.id, b.BaseOffset(), b.LeaderEpoch(), end, last)
		}
		last, end = b.LeaderEpoch(), b.NextOffset()
		if e, ok := n.plog.epochs.EpochFor(max(b.BaseOffset(), n.plog.start)); !ok || e != b.LeaderEpoch() {
			s.fail("%d: batch at %d of epoch %d, cache %v", n.id, b.BaseOffset(), b.LeaderEpoch(), cache)
		}
	}
	if n.p == nil {
		delete(s.hw, n.id)
		return
	}
	m := n.p.Mark()
	if m.LogEnd != n.plog.end || m.LogStart != n.plog.start {
		s.fail("%d: %+v, log [%d, %d)", n.id, m, n.plog.start, n.plog.end)
	}
	if old := s.hw[n.id]; m.HighWatermark < min(old, m.LogEnd) {
		s.fail("%d: high watermark fell from %d to %d", n.id, old, m.HighWatermark)
	}
	s.hw[n.id] = m.HighWatermark
}

// checkTwo compares two logs where both have records: where they have the same
// epoch at an offset they are the same up to there, and what both know to be
// committed is the same.
func (s *swarm) checkTwo(a, b *node) {
	from := max(a.plog.start, b.plog.start)
	x, y := a.plog.from(from), b.plog.from(from)
	n := 0
	for n < min(len(x), len(y)) && string(x[n]) == string(y[n]) {
		n++
	}
	common := from
	if n > 0 {
		common = x[n-1].NextOffset()
	}
	for _, p := range x[n:] {
		for _, q := range y[n:] {
			if p.BaseOffset() == q.BaseOffset() && p.LeaderEpoch() == q.LeaderEpoch() {
				s.fail("%d and %d differ at %d of epoch %d", a.id, b.id, p.BaseOffset(), p.LeaderEpoch())
			}
		}
	}
	if a.p == nil || b.p == nil {
		return
	}
	if hw := min(a.p.Mark().HighWatermark, b.p.Mark().HighWatermark); hw > common {
		s.fail("%d and %d have %d and %d as high watermarks, and agree below %d alone", a.id, b.id,
			a.p.Mark().HighWatermark, b.p.Mark().HighWatermark, common)
	}
}

// from is the batches that hold an offset at or above one.
func (l *store) from(at model.Offset) []record.Batch {
	i := slices.IndexFunc(l.batches, func(b record.Batch) bool { return b.LastOffset() >= at })
	if i < 0 {
		return nil
	}
	return l.batches[i:]
}

// firstValue is the value of a batch's first record.
func firstValue(b record.Batch) (v []byte) {
	_ = b.Each(1<<20, func(r *record.Record) error {
		if v == nil {
			v = slices.Clone(r.Value)
		}
		return nil
	})
	return v
}
