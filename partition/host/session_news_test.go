package host

import (
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
)

// watching is a consumer's session over partition 0 of "t", which a node leads.
type watching struct {
	t     *testing.T
	n     *node
	h     *Hosted
	c     *FetchSessionCache
	id    int32
	epoch int32
	wakes answers
}

func newWatching(t *testing.T) *watching {
	w := &watching{t: t, c: newSessions(10), epoch: 1}
	w.n, w.h = leading(t, nil)
	w.id = begun(t, w.c, 0, 3, false)
	return w
}

func (w *watching) begin(named map[int32]int64, forgotten ...int32) *FetchContext {
	w.t.Helper()
	ctx, code := w.c.Begin(0, fetchOf(12, w.id, w.epoch, named, forgotten...), false)
	if code != 0 {
		w.t.Fatalf("code %d", code)
	}
	w.epoch++
	return ctx
}

// answer answers from partition 0's state, and as if 1 and 2 were at rest.
func (w *watching) answer(ctx *FetchContext) (looked []int32) {
	for _, p := range ctx.Partitions() {
		looked = append(looked, p.Partition)
		s := w.h.State()
		o := FetchOutcome{HighWatermark: s.HighWatermark, LogStart: s.LogStart, AtEnd: p.Offset == s.HighWatermark}
		if p.Partition > 0 {
			o = FetchOutcome{AtEnd: true}
		} else if o.AtEnd {
			w.h.Watch(p, partition.BoundHighWatermark, s)
		} else {
			o.Bytes = 1
		}
		ctx.Include(p, o)
	}
	if _, code := ctx.Finish(0); code != 0 {
		w.t.Fatalf("code %d", code)
	}
	return looked
}

// fetch is a whole request, which must look at the given partitions.
func (w *watching) fetch(named map[int32]int64, want ...int32) {
	w.t.Helper()
	if got := w.answer(w.begin(named)); !slices.Equal(got, want) {
		w.t.Errorf("looked at %v, want %v", got, want)
	}
}

func TestSessionLooksAtWhatMoved(t *testing.T) {
	w := newWatching(t)
	w.fetch(nil, 0, 1, 2) // the first time at all
	w.fetch(nil)
	w.n.send(w.h, 1, batchOf(1, -1, 0))
	w.fetch(nil, 0)
	w.fetch(nil, 0) // what was not read is looked at again
	w.fetch(map[int32]int64{0: 1}, 0)
	w.fetch(nil)
	w.fetch(map[int32]int64{2: 0}, 2)
	// A request of other terms looks at everything.
	r := fetchOf(12, w.id, w.epoch, nil)
	r.IsolationLevel = 1
	ctx, _ := w.c.Begin(0, r, false)
	w.epoch++
	if n := len(ctx.Partitions()); n != 3 {
		t.Errorf("with another isolation level %d partitions are looked at", n)
	}
	ctx.Abandon()
	if n := len(w.begin(nil).Partitions()); n != 3 {
		t.Errorf("after a request that was given up %d partitions are looked at", n)
	}
}

func TestSessionThatWaitsIsWoken(t *testing.T) {
	w := newWatching(t)
	w.fetch(nil, 0, 1, 2)
	ctx := w.begin(nil)
	ctx.Park(&w.wakes)
	if len(ctx.More()) != 0 || ctx.Resting() != 3 || len(w.wakes.ready) != 0 {
		t.Fatalf("%d partitions, %d rest, wakes %v", len(ctx.Partitions()), ctx.Resting(), w.wakes.ready)
	}
	w.n.send(w.h, 1, batchOf(1, -1, 0))
	if more := ctx.More(); len(w.wakes.ready) != 1 || len(more) != 1 || more[0].Partition != 0 || ctx.Resting() != 2 {
		t.Fatalf("wakes %v, %d partitions", w.wakes.ready, len(more))
	}
	w.n.send(w.h, 1, batchOf(1, -1, 0))
	if more := ctx.More(); len(w.wakes.ready) != 2 || len(more) != 0 || len(ctx.Partitions()) != 1 {
		t.Fatalf("the same again: wakes %v, %d more, %d in all", w.wakes.ready, len(more), len(ctx.Partitions()))
	}
	ctx.Unpark()
	w.n.send(w.h, 1, batchOf(1, -1, 0))
	if len(w.wakes.ready) != 2 {
		t.Error("a session that doesn't wait is woken")
	}
	w.answer(ctx)
	w.fetch(nil, 0)
}

// TestWatchesGo: sessions that are over, and partitions that were forgotten,
// leave nothing behind with the partition.
func TestWatchesGo(t *testing.T) {
	w := newWatching(t)
	for range 100 {
		w.fetch(nil, 0, 1, 2)
		w.c.Begin(0, fetchOf(12, w.id, 0, nil), false) // ends the session
		w.id, w.epoch = begun(t, w.c, 0, 3, false), 1
	}
	w.fetch(nil, 0, 1, 2)
	for range 100 {
		w.answer(w.begin(nil, 0))
		w.fetch(map[int32]int64{0: 0}, 0)
	}
	if n := len(w.h.watches); n > 1 {
		t.Errorf("the partition holds %d watches for one session", n)
	}
}

// TestLeaseOfASession: a follower's session stands for fetches of a partition
// that it doesn't name, up to the moment at which something happens to it, and
// not while it names it.
func TestLeaseOfASession(t *testing.T) {
	n, h := leading(t, nil)
	c := newSessions(10)
	id := begun(t, c, 0, 1, true)
	epoch := int32(1)
	begin := func(now model.Instant, named map[int32]int64, forgotten ...int32) *FetchContext {
		t.Helper()
		r := fetchOf(12, id, epoch, named, forgotten...)
		r.ReplicaID = 2
		ctx, code := c.Begin(now, r, true)
		if code != 0 {
			t.Fatalf("code %d", code)
		}
		epoch++
		return ctx
	}
	ctx := begin(10, nil)
	part := ctx.Partitions()[0]
	var verdict verdicts
	h.ReplicaFetch(ReplicaFetchMsg{
		ReplicaFetch: partition.ReplicaFetch{Replica: 2, BrokerEpoch: -1, CurrentEpoch: -1, LastEpoch: -1},
		Waiter:       &verdict, Part: part,
	})
	// This node leads alone, so that it grants no lease; what the partition would
	// ask of one is asked here.
	lease := partition.Lease(&part.watch)
	part.quiet = true
	ctx.Finish(10)
	if at := lease.LastFetch(); at != 10 {
		t.Errorf("the last fetch came at %d", at)
	}
	begin(20, nil).Finish(20)
	if at := lease.LastFetch(); at != 20 {
		t.Errorf("a fetch that doesn't name it counts at %d", at)
	}
	if at := lease.End(); at != 20 {
		t.Errorf("ended at %d", at)
	}
	ctx = begin(30, nil)
	if len(ctx.Partitions()) != 1 {
		t.Error("the next fetch is not told of a partition that ended its lease")
	}
	part.quiet = true
	ctx.Finish(30)
	// One that names it counts only when it was judged.
	ctx = begin(40, map[int32]int64{0: 0})
	if at := lease.LastFetch(); at != 30 {
		t.Errorf("a fetch that names it counts at %d before it is judged", at)
	}
	h.ReplicaFetch(ReplicaFetchMsg{Waiter: &verdict, Part: part})
	if at := lease.LastFetch(); at != 40 {
		t.Errorf("judged, the last fetch came at %d", at)
	}
	part.quiet = true
	ctx.Finish(40)
	begin(50, nil, 0)
	if at := lease.LastFetch(); at != 40 {
		t.Errorf("a partition that was forgotten was fetched at %d", at)
	}
	n.stop()
}

type verdicts struct{ n int }

func (v *verdicts) ReplicaFetchDone(int32, partition.ReplicaResult, *State) { v.n++ }
