package fetcher

import (
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
)

// TestSession follows KIP-227: everything once, then what has changed.
func TestSession(t *testing.T) {
	r := newRig(t)
	r.add(0, 5, 10, 4)
	r.wants("fetch 0.0 wait=500 0:10@4/5")
	r.add(1, 5, 0, -1) // while the request is outstanding
	r.answer(9, say{n: 0})
	r.wants("fetch 9.1 wait=500 1:0@-1/5")
	r.answer(9, say{n: 1, records: "ab", hw: 1})
	if d := r.deliveries[1]; string(d.Records) != "ab" || d.HighWatermark != 1 || d.Asked != (partition.Position{LeaderEpoch: 5, Offset: 0, LastEpoch: -1}) {
		t.Fatalf("delivered %+v", d)
	}
	r.wants("nothing") // what is being applied may be part of it
	r.done(1, partition.OutcomeApplied, 2, 5)
	r.wants("fetch 9.2 wait=500 1:2@5/5")
	r.answer(9)
	r.wants("fetch 9.3 wait=500")
	r.remove(0)
	r.answer(9)
	r.wants("fetch 9.4 wait=500 forget=[0]")
	r.add(1, 6, 2, 5) // replaced: to the leader it is the old one, changed
	r.answer(9)
	r.wants("fetch 9.5 wait=500 1:2@5/6")
	r.remove(1)
	r.answer(9)
	r.wants("nothing")
	if r.f.Len() != 0 || len(r.deliveries) != 0 || len(r.events) != 0 {
		t.Errorf("%d partitions, deliveries %v, events %v", r.f.Len(), r.deliveries, r.events)
	}
}

func TestRequestSaysWhoAsks(t *testing.T) {
	r := newRig(t)
	r.step(Input{Kind: KindAdd, Add: Add{ID: id(3), Topic: "t", Follow: partition.Follow{
		Leader: 1, LogStart: 4, HighWatermark: 8, Position: partition.Position{LeaderEpoch: 5, Offset: 10, LastEpoch: 4},
	}}})
	q := r.req.(*kmsg.FetchRequest)
	p := q.Topics[0].Partitions[0]
	if q.ReplicaID != 2 || q.ReplicaState.ID != 2 || q.ReplicaState.Epoch != 77 || q.MinBytes != 1 || q.MaxBytes != 10<<20 {
		t.Errorf("%+v", q)
	}
	if q.Topics[0].Topic != "t" || q.Topics[0].TopicID != topicID() || p.LogStartOffset != 4 || p.HighWatermark != 8 || p.PartitionMaxBytes != 1<<20 {
		t.Errorf("%+v", q.Topics[0])
	}
}

func TestSessionErrors(t *testing.T) {
	for _, tc := range []struct {
		name string
		fail func(r *rig)
		want string
		free bool // asked again at once
	}{
		{"unknown id", func(r *rig) { r.fail(70) }, "fetch 0.0 wait=500 0:0@-1/1", true},
		{"epoch out of step", func(r *rig) { r.fail(71) }, "fetch 9.0 wait=500 0:0@-1/1", true},
		{"kind of naming", func(r *rig) { r.fail(106) }, "fetch 9.0 wait=500 0:0@-1/1", true},
		{"another code", func(r *rig) { r.fail(-1) }, "fetch 9.0 wait=500 0:0@-1/1", false},
		{"no connection", func(r *rig) { r.reply(nil, errors.New("refused")) }, "fetch 9.0 wait=500 0:0@-1/1", false},
		{"another response", func(r *rig) { r.reply(kmsg.NewPtrListOffsetsResponse(), nil) }, "fetch 9.0 wait=500 0:0@-1/1", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			r.add(0, 1, 0, -1)
			r.answer(9, say{n: 0})
			tc.fail(r)
			if !tc.free {
				r.wants("nothing")
				r.after(25 * ms)
			}
			r.wants(tc.want)
			// The second in a row is not free, and each pause is twice the last, up
			// to the backoff.
			pause, last := 25*ms, model.Instant(0)
			if !tc.free {
				pause = 50 * ms
			}
			for range 10 {
				tc.fail(r)
				at := r.f.NextDeadline() - r.now
				if at < min(pause, 1000*ms) || at < last || at > 1000*ms {
					t.Fatalf("pause of %d ms after %d ms", at/ms, last/ms)
				}
				last = at
				r.after(at - 1)
				r.wants("nothing")
				r.after(1)
				if r.req == nil {
					t.Fatal("nothing is asked after the pause")
				}
			}
			if last != 1000*ms {
				t.Errorf("pauses end at %d ms, want the backoff", last/ms)
			}
			r.answer(11, say{n: 0})
			r.wants("fetch 11.1 wait=500")
			if want := []string{"failing", "working"}; len(r.events) != 2 || r.events[0][:7] != want[0] || r.events[1][:7] != want[1] {
				t.Errorf("events %v", r.events)
			}
		})
	}
}

// TestNoRoomForASession: a leader that gives no session is asked in full.
func TestNoRoomForASession(t *testing.T) {
	r := newRig(t)
	r.add(0, 1, 0, -1)
	r.answer(0, say{n: 0})
	r.wants("fetch 0.0 wait=500 0:0@-1/1")
	r.answer(4, say{n: 0})
	r.wants("fetch 4.1 wait=500")
	r.answer(0)
	r.wants("fetch 0.0 wait=500 0:0@-1/1")
}

// TestPartitionErrors says for each code what becomes of the partition, and that
// the others go on.
func TestPartitionErrors(t *testing.T) {
	for _, tc := range []struct {
		code  int16
		state State
		pause model.Instant
	}{
		{75, Delayed, 25 * ms}, {6, Delayed, 25 * ms}, {3, Delayed, 25 * ms}, {100, Delayed, 25 * ms}, {103, Delayed, 25 * ms},
		{56, Delayed, 1000 * ms}, {2, Delayed, 1000 * ms}, {-1, Delayed, 1000 * ms}, {29, Delayed, 1000 * ms},
		{74, Failed, 0}, {1, Truncating, 0},
	} {
		r := newRig(t)
		r.add(0, 1, 5, 1)
		r.answer(9, say{n: 0})
		r.add(1, 1, 0, -1)
		r.answer(9)
		r.answer(9, say{n: 0, code: tc.code})
		r.states(tc.state, Fetching)
		switch tc.state {
		case Truncating:
			r.wants("bounds 0:-1/1")
			continue
		case Failed:
			r.wants("fetch 9.3 wait=500 forget=[0]")
			r.after(3600_000 * ms)
			r.states(Failed)
			r.add(0, 2, 5, 1)
			r.states(Fetching)
			continue
		}
		r.wants("fetch 9.3 wait=500 forget=[0]")
		r.answer(9)
		r.after(tc.pause - 1)
		r.states(tc.state)
		r.after(1)
		r.states(Fetching)
		r.answer(9)
		r.wants("fetch 9.5 wait=500 0:5@1/1")
	}
}

// TestNewsOnly: an answer without news is not handed on.
func TestNewsOnly(t *testing.T) {
	r := newRig(t)
	r.add(0, 1, 10, 1)
	r.answer(9, say{n: 0, hw: 7})
	if d := r.deliveries[0]; d.HighWatermark != 7 {
		t.Fatalf("a high watermark is news: %+v", d)
	}
	r.done(0, partition.OutcomeApplied, 10, 1)
	r.wants("fetch 9.1 wait=500 0:10@1/1") // it tells the high watermark that it has now
	r.answer(9, say{n: 0, hw: 7})
	if len(r.deliveries) > 0 {
		t.Error("the same is no news")
	}
	r.answer(9, say{n: 0, hw: 12})
	r.done(0, partition.OutcomeApplied, 10, 1)
	r.answer(9, say{n: 0, hw: 15})
	if len(r.deliveries) > 0 {
		t.Error("what lies beyond the own end is no news")
	}
	r.answer(9, say{n: 0, hw: 15, start: 3})
	if d := r.deliveries[0]; d.LogStart != 3 {
		t.Errorf("a log start is news: %+v", d)
	}
}

func TestDiverging(t *testing.T) {
	r := newRig(t)
	r.add(0, 3, 14, 2)
	r.answer(9, say{n: 0, records: "ignored", diverge: model.OffsetAndEpoch{Offset: 12, Epoch: 1}})
	d := r.deliveries[0]
	if d.Kind != partition.AnswerDiverging || d.Diverging != (model.OffsetAndEpoch{Offset: 12, Epoch: 1}) || d.Records != nil {
		t.Fatalf("delivered %+v", d)
	}
	r.done(0, partition.OutcomeApplied, 10, 1)
	r.wants("fetch 9.1 wait=500 0:10@1/3")
}

// TestOutOfRange asks for the leader's bounds, its end first.
func TestOutOfRange(t *testing.T) {
	start := func() *rig {
		r := newRig(t)
		r.add(0, 1, 10, 1)
		r.answer(9, say{n: 0, code: 1})
		r.wants("bounds 0:-1/1")
		return r
	}
	r := start() // the leader is shorter
	r.bounds([3]int64{0, 0, 7})
	if d := r.deliveries[0]; d.Kind != partition.AnswerBounds || d.LeaderEnd != 7 || d.LeaderStart != -1 {
		t.Fatalf("shorter: %+v", d)
	}
	r.done(0, partition.OutcomeApplied, 7, 1)
	r.wants("fetch 9.1 wait=500 0:7@1/1")

	r = start() // the leader begins behind our end
	r.bounds([3]int64{0, 0, 50})
	r.wants("bounds 0:-2/1")
	r.bounds([3]int64{0, 0, 20})
	if d := r.deliveries[0]; d.LeaderEnd != 50 || d.LeaderStart != 20 {
		t.Fatalf("begins later: %+v", d)
	}
	r.done(0, partition.OutcomeApplied, 20, -1)
	r.wants("fetch 9.1 wait=500 0:20@-1/1")

	r = start() // bounds that explain nothing are asked for twice, then at a pause
	for range 2 {
		r.bounds([3]int64{0, 0, 10})
		r.bounds([3]int64{0, 0, 0})
		r.done(0, partition.OutcomeApplied, 10, 1)
		r.answer(9, say{n: 0, code: 1})
	}
	r.states(Delayed)
	r.wants("nothing")

	for _, tc := range []struct {
		code, offset int64
		want         State
	}{{74, -1, Failed}, {75, -1, Delayed}, {0, -1, Delayed}} {
		r = start()
		r.bounds([3]int64{0, tc.code, tc.offset})
		r.states(tc.want)
	}
	r = start() // the answer lacks it
	r.bounds()
	r.states(Delayed)
	r = start() // no answer at all
	r.reply(nil, errors.New("reset"))
	r.states(Truncating)
	r.wants("nothing")
	r.after(25 * ms)
	r.wants("bounds 0:-1/1")
	r.remove(0) // gone meanwhile
	r.bounds([3]int64{0, 0, 7})
	if len(r.deliveries) > 0 {
		t.Error("bounds of a partition that is gone were handed on")
	}
}

// TestStaleAnswers: an answer counts only for what is still as it was asked.
func TestStaleAnswers(t *testing.T) {
	r := newRig(t)
	r.add(0, 1, 0, -1)
	r.add(1, 1, 0, -1)
	r.answer(9, say{n: 0})
	r.wants("fetch 9.1 wait=500 1:0@-1/1")
	r.remove(0)
	r.add(0, 2, 0, -1)
	r.remove(1)
	r.answer(9, say{n: 0, records: "of epoch 1"}, say{n: 1, records: "removed"}, say{n: 7, records: "never asked"})
	if len(r.deliveries) > 0 {
		t.Errorf("delivered %v", r.deliveries)
	}
	r.wants("fetch 9.2 wait=500 0:0@-1/2 forget=[1]")
	// Progress of a delivery to what was here before.
	r.answer(9, say{n: 0, records: "ab"})
	old := r.deliveries[0]
	r.add(0, 3, 0, -1)
	delete(r.deliveries, 0)
	r.step(Input{Kind: KindProgress, Progress: Progress{ID: id(0), Serial: old.Serial, Progress: partition.Progress{
		Outcome: partition.OutcomeApplied, Following: true, Position: partition.Position{LeaderEpoch: 3, Offset: 2, LastEpoch: 1},
	}}})
	r.wants("fetch 9.3 wait=500 0:0@-1/3")
	// An answer that nobody waits for.
	r.req = nil
	r.step(Input{Kind: KindAnswered, Answer: Answer{Err: errors.New("closed")}})
	r.req = nil
	sent := r.sent
	r.f.outstanding = nil
	r.step(Input{Kind: KindRemove, ID: id(0)})
	r.step(Input{Kind: KindAnswered, Answer: Answer{Err: errors.New("closed")}})
	if r.sent != sent {
		t.Error("an answer to nothing has a request sent")
	}
}

// TestSlowPartitions: what takes long to apply is left out, and joins again.
func TestSlowPartitions(t *testing.T) {
	r := newRig(t)
	r.add(0, 1, 0, -1)
	r.add(1, 1, 0, -1)
	r.answer(9, say{n: 0})
	r.answer(9, say{n: 0, records: "a"}, say{n: 1, records: "b"})
	r.states(Applying, Applying)
	r.done(1, partition.OutcomeApplied, 1, 1)
	r.wants("nothing")
	if at := r.f.NextDeadline() - r.now; at != holdMax {
		t.Fatalf("held for %d ms", at/ms)
	}
	r.after(holdMax - 1)
	r.wants("nothing")
	r.after(1)
	r.wants("fetch 9.2 wait=20 1:1@1/1 forget=[0]")
	r.done(0, partition.OutcomeApplied, 1, 1) // its fsync is done
	r.answer(9)
	r.wants("fetch 9.3 wait=500 0:1@1/1")
}

// TestAbandon: where one delivery is stuck, the others are asked for again over
// another connection, and what still comes of them counts for nothing.
func TestAbandon(t *testing.T) {
	r := newRig(t)
	for n := range int32(3) {
		r.add(n, 1, 0, -1)
	}
	r.answer(9, say{n: 0})
	r.answer(9, say{n: 0, records: "a"}, say{n: 1, records: "b"}, say{n: 2, records: "c"})
	r.states(Applying, Applying, Applying)
	r.done(2, partition.OutcomeApplied, 1, 1)
	r.step(Input{Kind: KindAbandon, ID: id(0)})
	r.states(Applying, Fetching, Fetching)
	r.after(holdMax)
	r.wants("fetch 9.0 wait=20 1:0@-1/1 2:1@1/1")
	if r.reconnects != 1 {
		t.Errorf("%d new connections", r.reconnects)
	}
	r.done(1, partition.OutcomeApplied, 1, 1) // late
	r.answer(10, say{n: 2, records: "d"}, say{n: 1, records: "b"})
	r.states(Applying, Applying, Applying)
	r.done(0, partition.OutcomeApplied, 1, 1)
	r.states(Fetching, Applying, Applying)
}

// TestOutcomes: what each outcome has the fetcher do.
func TestOutcomes(t *testing.T) {
	for _, tc := range []struct {
		outcome partition.Outcome
		state   State
		pause   model.Instant
	}{
		{partition.OutcomeApplied, Fetching, 0}, {partition.OutcomeStale, Fetching, 0},
		{partition.OutcomeCorrupt, Delayed, 25 * ms}, {partition.OutcomeStuck, Delayed, 25 * ms},
		{partition.OutcomeRefused, Delayed, 1000 * ms},
	} {
		r := newRig(t)
		r.add(0, 1, 0, -1)
		r.answer(9, say{n: 0, records: "a"})
		r.done(0, tc.outcome, 0, -1)
		r.states(tc.state)
		if tc.pause > 0 {
			if at := r.f.NextDeadline() - r.now; at != tc.pause {
				t.Errorf("%s: back in %d ms, want %d", tc.outcome, at/ms, tc.pause/ms)
			}
			r.after(tc.pause)
		}
		r.wants("fetch 9.1 wait=500") // the session has what is asked
	}
	for _, g := range []partition.Progress{
		{Outcome: partition.OutcomeStale},
		{Outcome: partition.OutcomeStale, Following: true, Position: partition.Position{LeaderEpoch: 2}},
	} {
		r := newRig(t)
		r.add(0, 1, 0, -1)
		r.answer(9, say{n: 0, records: "a"})
		r.step(Input{Kind: KindProgress, Progress: Progress{ID: id(0), Serial: r.deliveries[0].Serial, Progress: g}})
		r.states(Failed) // what follows is told by an Add or a Remove
		r.wants("nothing")
	}
}

// TestCorruptTwice: the same again over another connection; then it is told.
func TestCorruptTwice(t *testing.T) {
	r := newRig(t)
	r.add(0, 1, 0, -1)
	for i := range 3 {
		r.answer(9, say{n: 0, records: "a"})
		r.done(0, partition.OutcomeCorrupt, 0, -1)
		told := slices.Contains(r.events, "damaged 0 code=0")
		if told != (i >= 1) {
			t.Errorf("after %d: told %v", i+1, told)
		}
		r.after(1000 * ms)
		if r.reconnects != i+1 {
			t.Errorf("after %d: %d new connections", i+1, r.reconnects)
		}
	}
	r.answer(9, say{n: 0, records: "a"})
	r.done(0, partition.OutcomeCorrupt, 5, 1) // elsewhere
	r.after(1000 * ms)
	r.answer(9, say{n: 0, records: "a"})
	r.done(0, partition.OutcomeApplied, 6, 1)
	r.answer(9, say{n: 0, records: "a"})
	r.done(0, partition.OutcomeCorrupt, 6, 1)
	if n := len(r.events); n != 1 {
		t.Errorf("events %v, want one report", r.events)
	}
}

// TestLeaderIsTold: after the second damaged answer the request says so, until one
// is sound. A batch of a later epoch than that of the fetch counts as damage, since
// no CRC covers it.
func TestLeaderIsTold(t *testing.T) {
	r := newRig(t)
	r.add(0, 1, 0, -1)
	stuck := func() {
		d := r.deliveries[0]
		delete(r.deliveries, 0)
		r.step(Input{Kind: KindProgress, Progress: Progress{ID: id(0), Serial: d.Serial, Progress: partition.Progress{
			Outcome: partition.OutcomeStuck, Why: io.ErrUnexpectedEOF, Following: true, Position: d.Asked,
		}}})
	}
	for i, ask := range []string{"9.1 wait=500", "9.2 wait=500 0:0@-1/1!20000"} {
		r.answer(9, say{n: 0, records: "a"})
		if i == 0 {
			r.done(0, partition.OutcomeCorrupt, 0, -1)
		} else {
			stuck()
		}
		r.after(1000 * ms)
		r.wants("fetch " + ask)
	}
	r.answer(9, say{n: 0, code: 56}) // it looks
	r.after(1000 * ms)
	r.wants("fetch 9.3 wait=500")
	r.answer(9, say{n: 0, records: "a"})
	r.done(0, partition.OutcomeApplied, 1, 1)
	r.wants("fetch 9.4 wait=500 0:1@1/1")
}

// TestDivergingTwice: what was fetched in an epoch of the leader is the leader's.
// When it is cut off again at the same offset its epoch was not what was written.
func TestDivergingTwice(t *testing.T) {
	r := newRig(t)
	r.add(0, 3, 14, 2)
	diverge := func() {
		r.answer(9, say{n: 0, diverge: model.OffsetAndEpoch{Offset: 10, Epoch: 1}})
		d := r.deliveries[0]
		delete(r.deliveries, 0)
		r.step(Input{Kind: KindProgress, Progress: Progress{ID: id(0), Serial: d.Serial, Progress: partition.Progress{
			Outcome: partition.OutcomeApplied, Truncated: true, Following: true,
			Position: partition.Position{LeaderEpoch: 3, Offset: 10, LastEpoch: 1},
		}}})
	}
	diverge()
	r.wants("fetch 9.1 wait=500 0:10@1/3")
	r.answer(9, say{n: 0, records: "a"})
	r.done(0, partition.OutcomeApplied, 11, 2)
	diverge()
	r.states(Delayed)
	r.after(1000 * ms)
	r.wants("fetch 9.3 wait=500 0:10@1/3!20000")
	if !slices.Equal(r.events, []string{"damaged 0 code=0"}) {
		t.Errorf("events %v", r.events)
	}
}

// TestFullAnswerLacksOne: it is delayed, and the rest goes on.
func TestFullAnswerLacksOne(t *testing.T) {
	r := newRig(t)
	r.add(0, 1, 0, -1)
	r.add(1, 1, 0, -1)
	r.fail(70)
	r.wants("fetch 0.0 wait=500 0:0@-1/1 1:0@-1/1")
	r.answer(9, say{n: 1})
	r.states(Delayed, Fetching)
	r.wants("fetch 9.1 wait=500 forget=[0]")
}

// TestOldPeer answers by topic name.
func TestOldPeer(t *testing.T) {
	r := newRig(t)
	r.add(4, 1, 0, -1)
	resp := kmsg.NewPtrFetchResponse()
	resp.Version, resp.SessionID = 12, 5
	rt := kmsg.NewFetchResponseTopic()
	rt.Topic = "t"
	rp := kmsg.NewFetchResponseTopicPartition()
	rp.Partition, rp.RecordBatches = 4, []byte("a")
	rt.Partitions = append(rt.Partitions, rp)
	resp.Topics = append(resp.Topics, rt)
	r.reply(resp, nil)
	if string(r.deliveries[4].Records) != "a" {
		t.Errorf("delivered %v", r.deliveries)
	}
}

// TestNewcomersHurry: a partition that comes while a fetch is parked doesn't wait
// for its end; those that come with it share one new request.
func TestNewcomersHurry(t *testing.T) {
	r := newRig(t)
	r.add(0, 1, 0, -1)
	r.answer(9, say{n: 0})
	r.wants("fetch 9.1 wait=500")
	r.after(4 * ms)
	r.add(1, 1, 0, -1) // the fetch is young: it may be answered any moment
	r.after(100 * ms)
	r.wants("fetch 9.1 wait=500")
	r.add(2, 1, 0, -1)
	r.after(4 * ms)
	r.add(3, 1, 0, -1)
	r.wants("fetch 9.1 wait=500")
	r.after(1 * ms)
	r.wants("fetch 9.0 wait=500 0:0@-1/1 1:0@-1/1 2:0@-1/1 3:0@-1/1")
	if r.reconnects != 1 {
		t.Errorf("%d new connections, want 1", r.reconnects)
	}
	r.answer(10, say{n: 0}, say{n: 1}, say{n: 2}, say{n: 3})
	r.after(50 * ms)
	r.add(4, 1, 0, -1) // not again so soon
	r.after(49 * ms)
	r.wants("fetch 10.1 wait=500")
	r.after(1 * ms)
	r.wants("fetch 10.0 wait=500 0:0@-1/1 1:0@-1/1 2:0@-1/1 3:0@-1/1 4:0@-1/1")
	r.answer(11, say{n: 0}, say{n: 1}, say{n: 2}, say{n: 3}, say{n: 4})
	r.after(200 * ms)
	r.add(5, 1, 0, -1)
	r.answer(11) // the answer comes first
	r.wants("fetch 11.2 wait=500 5:0@-1/1")
	r.after(100 * ms)
	r.wants("fetch 11.2 wait=500 5:0@-1/1")
}
