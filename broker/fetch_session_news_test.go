package broker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestFetchSessionTellsWhatAFullFetchWould: whatever happens to the partitions of
// a session, each of its answers holds exactly the partitions of which a fetch
// without a session, at that moment, says something that the client was not told
// yet.
func TestFetchSessionTellsWhatAFullFetchWould(t *testing.T) {
	a := newAPI(t)
	for seed := range uint64(4) {
		name, _ := a.topic(fmt.Sprintf("tells-%d", seed), 8)
		r := &sessionRun{
			t: t, name: name, rng: rand.New(rand.NewPCG(seed, 3)), c: a.dial(), s: &session{c: a.dial(), v: 11},
			asked: map[int32]kmsg.FetchRequestTopicPartition{}, told: map[int32][2]int64{},
		}
		r.run()
	}
}

type sessionRun struct {
	t    *testing.T
	name string
	rng  *rand.Rand
	c    *rawConn // everything but the session
	s    *session
	// asked is what the session asks of each of its partitions; told the high
	// watermark and log start that it was told last.
	asked map[int32]kmsg.FetchRequestTopicPartition
	told  map[int32][2]int64
	end   [8]int64
}

func (r *sessionRun) run() {
	r.t.Helper()
	for p := range int32(6) {
		r.asked[p] = fetchPart(p, 0, 5000)
	}
	first := r.s.fetch(fetchTopic(r.name, r.parts()...))
	r.s.id = first.SessionID
	r.noteTold(first)
	for range 150 {
		for range r.rng.IntN(3) {
			p := r.rng.Int32N(8)
			r.c.produce(r.name, p, plainBatch(1, 100))
			r.end[p]++
		}
		if r.rng.IntN(12) == 0 {
			p := r.rng.Int32N(8)
			r.c.call(deleteRecords(r.name, map[int32]int64{p: r.rng.Int64N(r.end[p] + 1)}), 2)
		}
		r.compare(r.change())
	}
}

// change draws what the next request names and forgets.
func (r *sessionRun) change() (named []kmsg.FetchRequestTopicPartition, forgotten []int32) {
	for range r.rng.IntN(3) {
		p := r.rng.Int32N(8)
		offset := r.rng.Int64N(r.end[p] + 2)
		if r.rng.IntN(2) == 0 {
			offset = r.end[p]
		}
		if i := slices.IndexFunc(named, func(n kmsg.FetchRequestTopicPartition) bool { return n.Partition == p }); i >= 0 {
			continue
		}
		r.asked[p] = fetchPart(p, offset, 5000)
		named = append(named, r.asked[p])
	}
	if r.rng.IntN(6) == 0 && len(r.asked) > 3 {
		for _, p := range r.partitions() {
			if !slices.ContainsFunc(named, func(n kmsg.FetchRequestTopicPartition) bool { return n.Partition == p }) {
				delete(r.asked, p)
				delete(r.told, p)
				return named, []int32{p}
			}
		}
	}
	return named, nil
}

func (r *sessionRun) partitions() (ids []int32) {
	for p := range r.asked {
		ids = append(ids, p)
	}
	slices.Sort(ids)
	return ids
}

func (r *sessionRun) parts() (parts []kmsg.FetchRequestTopicPartition) {
	for _, p := range r.partitions() {
		parts = append(parts, r.asked[p])
	}
	return parts
}

// compare fetches both ways.
func (r *sessionRun) compare(named []kmsg.FetchRequestTopicPartition, forgotten []int32) {
	r.t.Helper()
	full := fetchAll(fetchTopic(r.name, r.parts()...))
	full.SessionEpoch = -1
	want := map[int32]bool{}
	for _, p := range r.c.fetched(full, 11).Topics[0].Partitions {
		if told, ok := r.told[p.Partition]; !ok || p.ErrorCode != 0 || len(p.RecordBatches) > 0 || told != [2]int64{p.HighWatermark, p.LogStartOffset} {
			want[p.Partition] = true
		}
	}
	req := fetchAll()
	if len(named) > 0 {
		req = fetchAll(fetchTopic(r.name, named...))
	}
	if len(forgotten) > 0 {
		ft := kmsg.NewFetchRequestForgottenTopic()
		ft.Topic, ft.Partitions = r.name, forgotten
		req.ForgottenTopics = append(req.ForgottenTopics, ft)
	}
	req.SessionID, req.SessionEpoch = r.s.id, r.s.epoch
	r.s.epoch++
	got := r.s.c.fetched(req, 11)
	if got.ErrorCode != 0 {
		r.t.Fatalf("session: code %d", got.ErrorCode)
	}
	for _, p := range answered(got) {
		if !want[p] {
			r.t.Errorf("partition %d is told again", p)
		}
		delete(want, p)
	}
	if len(want) > 0 {
		r.t.Fatalf("partitions %v are not told: %+v", want, got)
	}
	r.noteTold(got)
}

func (r *sessionRun) noteTold(resp *kmsg.FetchResponse) {
	for _, rt := range resp.Topics {
		for _, p := range rt.Partitions {
			r.told[p.Partition] = [2]int64{p.HighWatermark, p.LogStartOffset}
			if p.ErrorCode != 0 {
				delete(r.told, p.Partition)
			}
		}
	}
}
