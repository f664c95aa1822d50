package host

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
)

const second = model.Instant(1e9)

// fetchOf builds a request for partitions of topic "t".
func fetchOf(version int16, id, epoch int32, offsets map[int32]int64, forgotten ...int32) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.Version, r.SessionID, r.SessionEpoch = version, id, epoch
	if len(offsets) > 0 {
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = "t", topicID("t")
		var parts []int32
		for p := range offsets {
			parts = append(parts, p)
		}
		slices.Sort(parts)
		for _, p := range parts {
			rp := kmsg.NewFetchRequestTopicPartition()
			rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p, offsets[p], 100
			t.Partitions = append(t.Partitions, rp)
		}
		r.Topics = append(r.Topics, t)
	}
	if len(forgotten) > 0 {
		f := kmsg.NewFetchRequestForgottenTopic()
		f.Topic, f.TopicID, f.Partitions = "t", topicID("t"), forgotten
		r.ForgottenTopics = append(r.ForgottenTopics, f)
	}
	return r
}

// answer tells a context what each partition has, and returns which partitions
// the response holds and its session id.
func answer(ctx *FetchContext, now model.Instant, of func(p int32) FetchOutcome) (included []int32, id int32, code Code) {
	for _, p := range ctx.Partitions() {
		if ctx.Include(p, of(p.Partition)) {
			included = append(included, p.Partition)
		}
	}
	id, code = ctx.Finish(now)
	return included, id, code
}

func newSessions(slots int) *FetchSessionCache {
	return NewFetchSessionCache(slots, rand.New(rand.NewPCG(5, 6)))
}

// begun opens a session over partitions 0..n-1 at offset 0 and returns its id.
func begun(t *testing.T, c *FetchSessionCache, now model.Instant, n int, privileged bool) int32 {
	t.Helper()
	offsets := make(map[int32]int64)
	for p := range n {
		offsets[int32(p)] = 0
	}
	ctx, code := c.Begin(now, fetchOf(12, 0, 0, offsets), privileged)
	if code != 0 {
		t.Fatalf("begin: code %d", code)
	}
	included, id, code := answer(ctx, now, func(int32) FetchOutcome { return FetchOutcome{} })
	if code != 0 || len(included) != n || !ctx.Full() {
		t.Fatalf("full fetch: %v, code %d, want all %d", included, code, n)
	}
	return id
}

func TestSessionIncrements(t *testing.T) {
	c := newSessions(10)
	id := begun(t, c, 0, 3, false)
	if id <= 0 {
		t.Fatalf("session id %d", id)
	}
	outcome := map[int32]FetchOutcome{}
	step := func(name string, epoch int32, req *kmsg.FetchRequest, want ...int32) {
		t.Helper()
		if req == nil {
			req = fetchOf(12, id, epoch, nil)
		}
		ctx, code := c.Begin(0, req, false)
		if code != 0 {
			t.Fatalf("%s: code %d", name, code)
		}
		got, gotID, code := answer(ctx, 0, func(p int32) FetchOutcome { return outcome[p] })
		if !slices.Equal(got, want) || gotID != id || code != 0 {
			t.Errorf("%s: holds %v, id %d, code %d; want %v", name, got, gotID, code, want)
		}
	}
	step("nothing changed", 1, nil)
	outcome[1] = FetchOutcome{HighWatermark: 5}
	step("a high watermark moved", 2, nil, 1)
	step("and is told once", 3, nil)
	outcome[2] = FetchOutcome{LogStart: 2}
	step("a log start moved", 4, nil, 2)
	outcome[0] = FetchOutcome{Bytes: 10}
	step("records", 5, nil, 0)
	step("it moved to the end, and still has records", 6, nil, 0)
	outcome[0] = FetchOutcome{}
	outcome[2] = FetchOutcome{Code: 6, HighWatermark: -1, LogStart: -1}
	step("an error", 7, nil, 2)
	step("errors are always told", 8, nil, 2)
	outcome[2] = FetchOutcome{LogStart: 2}
	step("the error cleared: told again", 9, nil, 2)
	outcome[2] = FetchOutcome{LogStart: 2, Diverging: true}
	step("a diverging epoch", 10, nil, 2)
	outcome[2] = FetchOutcome{LogStart: 2, Redirected: true}
	step("a preferred replica", 11, nil, 2)
	outcome[2] = FetchOutcome{LogStart: 2, Lacking: true}
	step("a follower lacks it", 12, nil, 2)
	step("and is told until it doesn't", 13, nil, 2)
	outcome[2] = FetchOutcome{LogStart: 2}
	step("one is added, one forgotten", 14, fetchOf(12, id, 14, map[int32]int64{7: 3}, 1), 7)
	outcome[1] = FetchOutcome{HighWatermark: 50}
	step("the forgotten one is not read", 15, nil)
}

func TestSessionOrderIsFair(t *testing.T) {
	c := newSessions(10)
	id := begun(t, c, 0, 3, false)
	order := func(epoch int32) (got []int32) {
		ctx, code := c.Begin(0, fetchOf(12, id, epoch, nil), false)
		if code != 0 {
			t.Fatalf("code %d", code)
		}
		for _, p := range ctx.Partitions() {
			got = append(got, p.Partition)
			o := FetchOutcome{}
			if p.Partition == got[0] {
				o.Bytes = 1 // only the first has room in the response
			}
			ctx.Include(p, o)
		}
		ctx.Finish(0)
		return got
	}
	for i, want := range [][]int32{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}, {0, 1, 2}} {
		if got := order(int32(i + 1)); !slices.Equal(got, want) {
			t.Errorf("fetch %d reads %v, want %v", i+1, got, want)
		}
	}
}

func TestSessionRequestsTakeOver(t *testing.T) {
	c := newSessions(10)
	id := begun(t, c, 0, 2, false)
	ctx, _ := c.Begin(0, fetchOf(12, id, 1, map[int32]int64{1: 77}), false)
	if p := ctx.Partitions()[1]; p.Offset != 77 || p.Partition != 1 || p.Topic != "t" {
		t.Errorf("partition 1 is read as %+v, want offset 77", p)
	}
	if p := ctx.Partitions()[0]; p.Offset != 0 || p.MaxBytes != 100 {
		t.Errorf("partition 0 is read as %+v, want as before", p)
	}
	ctx.Finish(0)
}

func TestSessionErrors(t *testing.T) {
	c := newSessions(10)
	id := begun(t, c, 0, 1, false)
	for _, tt := range []struct {
		name string
		req  *kmsg.FetchRequest
		want Code
	}{
		{"unknown session", fetchOf(12, id+1, 1, nil), codeSessionNotFound},
		{"epoch ahead", fetchOf(12, id, 2, nil), codeSessionEpoch},
		{"the border of topic ids", fetchOf(13, id, 1, nil), codeSessionTopicID},
		{"right", fetchOf(12, id, 1, nil), 0},
	} {
		ctx, code := c.Begin(0, tt.req, false)
		if code != tt.want {
			t.Errorf("%s: code %d, want %d", tt.name, code, tt.want)
		}
		if ctx != nil && ctx.SessionID() != id {
			t.Errorf("%s: session %d, want %d", tt.name, ctx.SessionID(), id)
		}
	}
	// The last one is still being answered.
	if _, code := c.Begin(0, fetchOf(12, id, 2, nil), false); code != codeSessionEpoch {
		t.Errorf("a second request at once: code %d, want %d", code, codeSessionEpoch)
	}
	// A full request with the id closes it, even while it is being answered.
	ctx, _ := c.Begin(0, fetchOf(12, id, -1, map[int32]int64{0: 0}), false)
	if _, newID, _ := answer(ctx, 0, func(int32) FetchOutcome { return FetchOutcome{} }); newID != 0 {
		t.Errorf("session %d for a request that wanted none", newID)
	}
	if n, _ := c.Len(); n != 0 {
		t.Errorf("%d sessions, want none", n)
	}
}

func TestSessionLostWhileAnswering(t *testing.T) {
	c := newSessions(10)
	id := begun(t, c, 0, 1, false)
	ctx, _ := c.Begin(0, fetchOf(12, id, 1, nil), false)
	c.Begin(0, fetchOf(12, id, -1, nil), false)
	if _, code := ctx.Finish(0); code != codeSessionNotFound {
		t.Errorf("code %d, want %d", code, codeSessionNotFound)
	}
}

func TestSessionEndsWithItsLastPartition(t *testing.T) {
	c := newSessions(10)
	id := begun(t, c, 0, 2, false)
	ctx, code := c.Begin(0, fetchOf(12, id, 1, nil, 0, 1), false)
	if code != 0 || len(ctx.Partitions()) != 0 {
		t.Fatalf("code %d, partitions %d", code, len(ctx.Partitions()))
	}
	if newID, _ := ctx.Finish(0); newID != 0 {
		t.Errorf("session id %d, want 0", newID)
	}
	if n, _ := c.Len(); n != 0 {
		t.Errorf("%d sessions, want none", n)
	}
}

func TestSessionAbandoned(t *testing.T) {
	c := newSessions(10)
	id := begun(t, c, 0, 1, false)
	ctx, _ := c.Begin(0, fetchOf(12, id, 1, nil), false)
	ctx.Abandon()
	if _, code := c.Begin(0, fetchOf(12, id, 2, nil), false); code != 0 {
		t.Errorf("after an abandoned fetch: code %d", code)
	}
}

func TestSessionlessVersions(t *testing.T) {
	c := newSessions(10)
	ctx, code := c.Begin(0, fetchOf(6, 12345, 3, map[int32]int64{0: 0}), false)
	if code != 0 || !ctx.Full() {
		t.Fatalf("version 6: code %d", code)
	}
	if id, _ := ctx.Finish(0); id != 0 {
		t.Errorf("version 6 got session %d", id)
	}
	none := newSessions(0)
	if id := begun(t, none, 0, 1, false); id != 0 {
		t.Errorf("a cache without slots gave session %d", id)
	}
}

func TestSessionsByTopicID(t *testing.T) {
	c := newSessions(10)
	ctx, _ := c.Begin(0, fetchOf(13, 0, 0, map[int32]int64{0: 4}), false)
	if p := ctx.Partitions()[0]; p.TopicID != topicID("t") || p.Topic != "" {
		t.Errorf("%+v, want it named by id alone", p)
	}
	_, id, _ := answer(ctx, 0, func(int32) FetchOutcome { return FetchOutcome{} })
	ctx, code := c.Begin(0, fetchOf(13, id, 1, map[int32]int64{0: 5}), false)
	if code != 0 || len(ctx.Partitions()) != 1 || ctx.Partitions()[0].Offset != 5 {
		t.Errorf("code %d, %d partitions, want the one updated", code, len(ctx.Partitions()))
	}
}

func TestSessionEpochWraps(t *testing.T) {
	if got := nextSessionEpoch(math.MaxInt32); got != 1 {
		t.Errorf("after the last epoch comes %d, want 1", got)
	}
}

func TestSessionEviction(t *testing.T) {
	const minute = 60 * second
	for _, tt := range []struct {
		name       string
		have       []struct{ n, age int } // consumers' sessions
		privileged bool
		n          int
		idle       model.Instant // since the last use of all
		want       bool
	}{
		{"young consumers stay before a consumer", []struct{ n, age int }{{1, 0}, {5, 0}}, false, 100, 0, false},
		{"a young consumer goes before a follower", []struct{ n, age int }{{1, 0}, {5, 0}}, true, 1, 0, true},
		{"unused for long", []struct{ n, age int }{{9, 0}, {9, 0}}, false, 1, 3 * minute, true},
		{"unused, not for long", []struct{ n, age int }{{9, 0}, {9, 0}}, false, 1, 119 * second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newSessions(len(tt.have))
			for _, h := range tt.have {
				begun(t, c, 0, h.n, false)
			}
			id := begun(t, c, tt.idle, tt.n, tt.privileged)
			if (id != 0) != tt.want {
				t.Errorf("session %d, want one: %v", id, tt.want)
			}
			if n, _ := c.Len(); n != len(tt.have) {
				t.Errorf("%d sessions, want %d", n, len(tt.have))
			}
		})
	}
	t.Run("an old, used, smaller one goes", func(t *testing.T) {
		c := newSessions(2)
		small, large := begun(t, c, 0, 2, false), begun(t, c, 0, 5, false)
		now := 121 * second
		for _, id := range []int32{small, large} {
			ctx, code := c.Begin(now, fetchOf(12, id, 1, nil), false)
			if code != 0 {
				t.Fatalf("code %d", code)
			}
			ctx.Finish(now)
		}
		if id := begun(t, c, now, 2, false); id != 0 {
			t.Error("an equal one took a place")
		}
		if id := begun(t, c, now, 3, false); id == 0 {
			t.Error("a larger one got no place")
		}
		if _, code := c.Begin(now, fetchOf(12, small, 2, nil), false); code != codeSessionNotFound {
			t.Errorf("the smaller one is still there: code %d", code)
		}
		if _, code := c.Begin(now, fetchOf(12, large, 2, nil), false); code != 0 {
			t.Errorf("the larger one is gone: code %d", code)
		}
	})
	t.Run("followers stay before consumers", func(t *testing.T) {
		c := newSessions(1)
		id := begun(t, c, 0, 1, true)
		now := 121 * second
		ctx, _ := c.Begin(now, fetchOf(12, id, 1, nil), true)
		ctx.Finish(now)
		if got := begun(t, c, now, 500, false); got != 0 {
			t.Error("a consumer pushed a follower out")
		}
		if got := begun(t, c, now, 2, true); got == 0 {
			t.Error("a larger follower got no place")
		}
	})
}

// TestSessionsAgainstModel plays random clients against the cache. Each client
// keeps what it was told; at every response its picture must be the truth, but
// for what was too recent to tell.
func TestSessionsAgainstModel(t *testing.T) {
	type picture struct{ hw, start model.Offset }
	for seed := uint64(0); seed < 60; seed++ {
		rng := rand.New(rand.NewPCG(seed, 8))
		c := newSessions(3)
		truth := make([]FetchOutcome, 6)
		type client struct {
			id, epoch int32
			wants     map[int32]bool
			seen      map[int32]picture
		}
		clients := make([]*client, 5)
		for i := range clients {
			clients[i] = &client{wants: map[int32]bool{}, seen: map[int32]picture{}}
		}
		now := model.Instant(0)
		for step := range 400 {
			now += model.Instant(rng.Int64N(int64(5 * second)))
			p := rng.IntN(len(truth))
			truth[p] = FetchOutcome{HighWatermark: model.Offset(rng.IntN(4)), LogStart: model.Offset(rng.IntN(2))}
			if rng.IntN(6) == 0 {
				truth[p] = FetchOutcome{Code: 6, HighWatermark: -1, LogStart: -1}
			}
			cl := clients[rng.IntN(len(clients))]
			var req *kmsg.FetchRequest
			if cl.id == 0 || rng.IntN(20) == 0 {
				cl.wants = map[int32]bool{int32(rng.IntN(6)): true, int32(rng.IntN(6)): true}
				offsets := map[int32]int64{}
				for p := range cl.wants {
					offsets[p] = 1
				}
				req = fetchOf(12, cl.id, 0, offsets)
				cl.seen = map[int32]picture{}
			} else {
				added, gone := int32(rng.IntN(6)), int32(rng.IntN(6))
				offsets := map[int32]int64{}
				var forget []int32
				if rng.IntN(3) == 0 && added != gone {
					offsets[added], cl.wants[added] = 1, true
				}
				if rng.IntN(3) == 0 && cl.wants[gone] && len(cl.wants) > 1 && added != gone {
					forget = append(forget, gone)
					delete(cl.wants, gone)
					delete(cl.seen, gone)
				}
				req = fetchOf(12, cl.id, cl.epoch, offsets, forget...)
			}
			ctx, code := c.Begin(now, req, false)
			if code == codeSessionNotFound {
				cl.id = 0 // pushed out; it begins anew next time
				continue
			}
			if code != 0 {
				t.Fatalf("seed %d step %d: code %d", seed, step, code)
			}
			if len(ctx.Partitions()) != len(cl.wants) {
				t.Fatalf("seed %d step %d: %d partitions read, %d wanted", seed, step, len(ctx.Partitions()), len(cl.wants))
			}
			full := ctx.Full()
			included, id, _ := answer(ctx, now, func(p int32) FetchOutcome { return truth[p] })
			for _, p := range included {
				cl.seen[p] = picture{truth[p].HighWatermark, truth[p].LogStart}
			}
			for p := range cl.wants {
				if want := (picture{truth[p].HighWatermark, truth[p].LogStart}); cl.seen[p] != want {
					t.Fatalf("seed %d step %d: partition %d is seen as %v, truth %v", seed, step, p, cl.seen[p], want)
				}
			}
			if full {
				cl.id, cl.epoch = id, 1
			} else {
				cl.epoch++
			}
			if n, _ := c.Len(); n > 3 {
				t.Fatalf("seed %d step %d: %d sessions in 3 slots", seed, step, n)
			}
		}
	}
}

var _ = fmt.Sprint

// A follower that opens a session over partitions of an older one has given that
// up, whether it knew of it or not. Another follower's, a consumer's, and one over
// other partitions stay.
func TestFollowersNewSessionEndsItsOld(t *testing.T) {
	c := newSessions(100)
	open := func(replica int32, privileged bool, parts ...int32) int32 {
		t.Helper()
		offsets := make(map[int32]int64)
		for _, p := range parts {
			offsets[p] = 0
		}
		r := fetchOf(12, 0, 0, offsets)
		r.ReplicaID = replica
		ctx, code := c.Begin(second, r, privileged)
		if code != 0 {
			t.Fatal(code)
		}
		_, id, code := answer(ctx, second, func(int32) FetchOutcome { return FetchOutcome{} })
		if id == 0 || code != 0 {
			t.Fatalf("session %d, code %d", id, code)
		}
		return id
	}
	there := func(id, replica int32, privileged bool) bool {
		t.Helper()
		r := fetchOf(12, id, 1, nil)
		r.ReplicaID = replica
		ctx, code := c.Begin(2*second, r, privileged)
		if code != 0 {
			return false
		}
		ctx.Abandon()
		return true
	}
	old, other := open(2, true, 0, 1), open(2, true, 7)
	peer, consumer := open(3, true, 0, 1), open(-1, false, 0, 1)
	young := open(2, true, 1, 2)
	for _, s := range []struct {
		name       string
		id         int32
		replica    int32
		privileged bool
		want       bool
	}{
		{"the old one", old, 2, true, false}, {"over another partition", other, 2, true, true},
		{"another follower's", peer, 3, true, true}, {"a consumer's", consumer, -1, false, true}, {"the new one", young, 2, true, true},
	} {
		if got := there(s.id, s.replica, s.privileged); got != s.want {
			t.Errorf("%s is there: %v, want %v", s.name, got, s.want)
		}
	}
	if n, evicted := c.Len(); n != 4 || evicted != 0 {
		t.Errorf("%d sessions, %d pushed out; want 4 and none", n, evicted)
	}
}
