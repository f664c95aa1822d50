package producer

import (
	"math/rand"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
)

// history is the naive model: every batch in the log, never condensed. Each
// question is answered by reading it from the start. It also notes from where
// on a producer's past was forgotten.
type history struct {
	plog   []spec
	forgot map[model.ProducerID]int // index into plog
	hw     model.Offset
}

// past returns what is remembered of a producer, oldest first.
func (h *history) past(id model.ProducerID) []spec {
	var out []spec
	for i, s := range h.plog {
		if s.id == id && i >= h.forgot[id] {
			out = append(out, s)
		}
	}
	return out
}

// known returns the data batches of the producer's present epoch, and that
// epoch.
func (h *history) known(id model.ProducerID) (batches []spec, epoch model.ProducerEpoch, any bool) {
	epoch = model.NoProducerEpoch
	for _, s := range h.past(id) {
		if s.epoch != epoch {
			batches = nil
		}
		epoch, any = s.epoch, true
		if !s.control {
			batches = append(batches, s)
		}
	}
	return batches, epoch, any
}

// openSince returns where the producer's open transaction began.
func (h *history) openSince(id model.ProducerID) model.Offset {
	begin := model.NoOffset
	for _, s := range h.past(id) {
		switch {
		case s.control:
			begin = model.NoOffset
		case s.txn && begin == model.NoOffset:
			begin = s.base
		}
	}
	return begin
}

func lastSeq(s spec) int64 { return (int64(s.seq) + int64(s.n) - 1) % (1 << 31) }

func (h *history) check(s spec) (Verdict, model.Offset) {
	batches, epoch, any := h.known(s.id)
	if !any {
		return OK, 0
	}
	if s.epoch == epoch {
		recent := batches[max(0, len(batches)-CachedBatchesMax):]
		for _, b := range recent {
			if b.seq == s.seq && lastSeq(b) == lastSeq(s) {
				return Duplicate, b.base
			}
		}
	}
	want := int64(0)
	if s.epoch == epoch && len(batches) > 0 {
		want = (lastSeq(batches[len(batches)-1]) + 1) % (1 << 31)
	}
	switch {
	case s.epoch < epoch:
		return FencedEpoch, 0
	case int64(s.seq) != want:
		return OutOfOrder, 0
	case h.openSince(s.id) != model.NoOffset && !s.txn:
		return InvalidTxnState, 0
	}
	return OK, 0
}

// firstUnstable reads all transactions out of the log.
func (h *history) firstUnstable() model.Offset {
	first := model.NoOffset
	open := map[model.ProducerID]model.Offset{}
	note := func(o model.Offset) {
		if first == model.NoOffset || o < first {
			first = o
		}
	}
	for _, s := range h.plog {
		begin, isOpen := open[s.id]
		switch {
		case s.control && isOpen:
			delete(open, s.id)
			if s.base >= h.hw {
				note(begin)
			}
		case !s.control && s.txn && !isOpen:
			open[s.id] = s.base
		}
	}
	for _, o := range open {
		note(o)
	}
	return first
}

func (h *history) end() model.Offset {
	if len(h.plog) == 0 {
		return 0
	}
	last := h.plog[len(h.plog)-1]
	return last.base + model.Offset(last.n)
}

// propose makes a batch that is often right, and else wrong in one way.
func (h *history) propose(rng *rand.Rand) spec {
	id := model.ProducerID(rng.Intn(4))
	batches, epoch, _ := h.known(id)
	s := data(id, max(epoch, 0), 0, h.end(), 1+rng.Int31n(3))
	s.txn = h.openSince(id) != model.NoOffset || id >= 2 && rng.Intn(2) == 0
	if len(batches) > 0 {
		s.seq = model.Sequence((lastSeq(batches[len(batches)-1]) + 1) % (1 << 31))
	} else if rng.Intn(3) == 0 {
		s.seq = 1<<31 - 2 // soon to wrap
	}
	switch rng.Intn(12) {
	case 0:
		s.seq++
	case 1:
		s.epoch++
	case 2:
		s.epoch++
		s.seq = 0
	case 3:
		s.epoch--
	case 4:
		s.txn = !s.txn
	case 5, 6, 7:
		if len(batches) > 0 { // a retry of one of the last seven
			old := batches[max(0, len(batches)-1-rng.Intn(7))]
			s.seq, s.n = old.seq, old.n
		}
	case 8:
		s.n++
	}
	if s.seq < 0 || s.epoch < 0 {
		s.seq, s.epoch = 0, max(s.epoch, 0)
	}
	return s
}

func (h *history) marker(rng *rand.Rand) spec {
	id := model.ProducerID(rng.Intn(4))
	_, epoch, _ := h.known(id)
	return end(id, max(epoch, 0)+model.ProducerEpoch(rng.Intn(2)), h.end(), rng.Intn(2) == 0, rng.Int31n(3))
}

// TestAgainstHistory runs random sessions against the naive model.
func TestAgainstHistory(t *testing.T) {
	verdicts := map[Verdict]int{}
	for seed := range int64(300) {
		rng := rand.New(rand.NewSource(seed))
		h := &history{forgot: map[model.ProducerID]int{}}
		m := New()
		for op := range 120 {
			switch rng.Intn(10) {
			case 0:
				s := h.marker(rng)
				begin := h.openSince(s.id)
				h.plog = append(h.plog, s)
				preview, _ := m.Completes(s.batch())
				done, ok := m.Update(s.batch())
				if ok != (begin != model.NoOffset) || preview != done ||
					ok && (done.FirstOffset != begin || done.Aborted == s.commit) {
					t.Fatalf("seed %d op %d: completed %+v %v (preview %+v), began at %d", seed, op, done, ok, preview, begin)
				}
			case 1:
				h.hw = min(h.end(), h.hw+model.Offset(rng.Intn(9)))
				m.AdvanceHighWatermark(h.hw)
			case 2:
				now := model.Timestamp(1000) + model.Timestamp(h.end())
				h.expire(now, 25)
				m.Expire(now, 25)
			default:
				s := h.propose(rng)
				want, first := h.check(s)
				got := m.Check(s.batch())
				verdicts[want]++
				if got.Kind != want || want == Duplicate && got.First != first {
					t.Fatalf("seed %d op %d: %+v is %v at %d, want %v at %d", seed, op, s, got.Kind, got.First, want, first)
				}
				if want == OK {
					h.plog = append(h.plog, s)
					m.Update(s.batch())
				}
			}
			if got, _ := m.FirstUnstable(); got != h.firstUnstable() {
				t.Fatalf("seed %d op %d: first unstable %d, want %d", seed, op, got, h.firstUnstable())
			}
			if m.MapEnd() != h.end() {
				t.Fatalf("seed %d op %d: map end %d, want %d", seed, op, m.MapEnd(), h.end())
			}
		}
	}
	for v := OK; v <= InvalidTxnState; v++ {
		if verdicts[v] < 100 {
			t.Errorf("only %d answers were %v", verdicts[v], v)
		}
	}
}

func (h *history) expire(now model.Timestamp, ttl int64) {
	for id := range model.ProducerID(4) {
		past := h.past(id)
		if len(past) == 0 || h.openSince(id) != model.NoOffset {
			continue
		}
		if int64(now-past[len(past)-1].ts) >= ttl {
			h.forgot[id] = len(h.plog)
		}
	}
}

// TestRestartAtEveryPoint takes a snapshot after each batch of a random log,
// loads it and replays the rest: the state is that of the process that lived
// through it all (invariant 7).
func TestRestartAtEveryPoint(t *testing.T) {
	for seed := range int64(40) {
		rng := rand.New(rand.NewSource(seed))
		h := &history{forgot: map[model.ProducerID]int{}}
		live := New()
		snapshots := [][]byte{live.Marshal(nil)}
		for len(h.plog) < 60 {
			s := h.propose(rng)
			if rng.Intn(8) == 0 {
				s = h.marker(rng)
			} else if v, _ := h.check(s); v != OK {
				continue
			}
			h.plog = append(h.plog, s)
			live.Update(s.batch())
			snapshots = append(snapshots, live.Marshal(nil))
		}
		for i, snap := range snapshots {
			m := New()
			at := model.Offset(0)
			if i > 0 {
				at = h.plog[i-1].base + model.Offset(h.plog[i-1].n)
			}
			m.Reset(at)
			if err := m.Unmarshal(snap); err != nil {
				t.Fatal(err)
			}
			for _, s := range h.plog[i:] {
				m.Update(s.batch())
			}
			sameAfterRestart(t, "restart", live, m)
		}
	}
}
