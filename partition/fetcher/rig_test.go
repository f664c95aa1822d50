package fetcher

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
)

const ms = model.Instant(1_000_000)

// rig is a Fetcher worked by hand.
type rig struct {
	t    *testing.T
	f    *Fetcher
	now  model.Instant
	out  Output
	req  kmsg.Request
	sent int // requests so far
	// deliveries not yet answered, by partition.
	deliveries map[int32]Delivery
	starts     map[int32]model.Offset // the partitions' log starts
	events     []string
	reconnects int
}

func newRig(t *testing.T) *rig {
	return &rig{t: t, deliveries: map[int32]Delivery{}, starts: map[int32]model.Offset{}, now: 1000 * ms, f: New(Config{
		Self: 2, MinBytes: 1, MaxBytes: 1 << 20, ResponseBytes: 10 << 20, Wait: 500 * ms, Backoff: 1000 * ms,
	})}
}

func topicID() model.TopicID { return model.TopicID{7} }
func id(n int32) ID          { return ID{TopicID: topicID(), Partition: n} }

func (r *rig) step(in Input) {
	r.t.Helper()
	in.BrokerEpoch = 77
	r.f.Step(model.Now{Mono: r.now}, &in, &r.out)
	r.f.check()
	for _, d := range r.out.Deliveries {
		if _, ok := r.deliveries[d.ID.Partition]; ok {
			r.t.Fatalf("partition %d has two answers at a time", d.ID.Partition)
		}
		r.deliveries[d.ID.Partition] = d
	}
	for _, e := range r.out.Events {
		r.events = append(r.events, fmt.Sprintf("%s %d code=%d", e.Kind, e.ID.Partition, e.Code))
	}
	if r.out.Request != nil {
		if r.req != nil && !r.out.Reconnect {
			r.t.Fatal("two requests at a time")
		}
		r.req = r.out.Request
		r.sent++
		if r.out.Reconnect {
			r.reconnects++
		}
	}
	r.out.Reset()
}

func (r *rig) add(n int32, epoch model.LeaderEpoch, offset model.Offset, last model.LeaderEpoch) {
	r.t.Helper()
	r.step(Input{Kind: KindAdd, Add: Add{ID: id(n), Topic: "t", Follow: partition.Follow{
		Leader: 1, Position: partition.Position{LeaderEpoch: epoch, Offset: offset, LastEpoch: last},
	}}})
}

func (r *rig) remove(n int32) {
	r.t.Helper()
	r.step(Input{Kind: KindRemove, ID: id(n)})
}

// after lets time pass, and ticks if that is due.
func (r *rig) after(d model.Instant) {
	r.t.Helper()
	r.now += d
	if r.f.NextDeadline() <= r.now {
		r.step(Input{Kind: KindTick})
	}
}

// say is what one partition is answered.
type say struct {
	n       int32
	code    int16
	records string
	hw      model.Offset
	start   model.Offset
	diverge model.OffsetAndEpoch
}

func (r *rig) answer(session int32, parts ...say) {
	r.t.Helper()
	resp := kmsg.NewPtrFetchResponse()
	resp.Version, resp.SessionID = 18, session
	t := kmsg.NewFetchResponseTopic()
	t.TopicID = topicID()
	for _, s := range parts {
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.Partition, rp.ErrorCode, rp.RecordBatches = s.n, s.code, []byte(s.records)
		rp.HighWatermark, rp.LogStartOffset = int64(s.hw), int64(s.start)
		if s.diverge != (model.OffsetAndEpoch{}) {
			rp.DivergingEpoch.Epoch, rp.DivergingEpoch.EndOffset = int32(s.diverge.Epoch), int64(s.diverge.Offset)
		}
		t.Partitions = append(t.Partitions, rp)
	}
	resp.Topics = append(resp.Topics, t)
	r.reply(resp, nil)
}

func (r *rig) fail(code int16) {
	r.t.Helper()
	resp := kmsg.NewPtrFetchResponse()
	resp.Version, resp.ErrorCode = 18, code
	r.reply(resp, nil)
}

// bounds answers a ListOffsets: partition, code, offset.
func (r *rig) bounds(parts ...[3]int64) {
	r.t.Helper()
	resp := kmsg.NewPtrListOffsetsResponse()
	resp.Version = 9
	t := kmsg.NewListOffsetsResponseTopic()
	t.Topic = "t"
	for _, p := range parts {
		rp := kmsg.NewListOffsetsResponseTopicPartition()
		rp.Partition, rp.ErrorCode, rp.Offset = int32(p[0]), int16(p[1]), p[2]
		t.Partitions = append(t.Partitions, rp)
	}
	resp.Topics = append(resp.Topics, t)
	r.reply(resp, nil)
}

func (r *rig) reply(resp kmsg.Response, err error) {
	r.t.Helper()
	if r.req == nil {
		r.t.Fatal("nothing is outstanding")
	}
	r.req = nil
	r.step(Input{Kind: KindAnswered, Answer: Answer{Msg: resp, Err: err}})
}

// done has a partition tell what it made of its answer.
func (r *rig) done(n int32, o partition.Outcome, offset model.Offset, last model.LeaderEpoch) {
	r.t.Helper()
	d, ok := r.deliveries[n]
	if !ok {
		r.t.Fatalf("partition %d has no answer", n)
	}
	delete(r.deliveries, n)
	if o == partition.OutcomeApplied {
		r.starts[n] = max(r.starts[n], d.LogStart)
	}
	r.step(Input{Kind: KindProgress, Progress: Progress{ID: id(n), Serial: d.Serial, Progress: partition.Progress{
		Outcome: o, Following: true, HighWatermark: min(d.HighWatermark, offset), LogStart: r.starts[n],
		Position: partition.Position{LeaderEpoch: d.Asked.LeaderEpoch, Offset: offset, LastEpoch: last},
	}}})
}

// wants compares the outstanding request, as asked prints it.
func (r *rig) wants(want string) {
	r.t.Helper()
	if got := asked(r.req); got != want {
		r.t.Fatalf("asks %q, want %q", got, want)
	}
}

// states compares the states of the partitions 0, 1, …
func (r *rig) states(want ...State) {
	r.t.Helper()
	for n, w := range want {
		if got, ok := r.f.StateOf(id(int32(n))); !ok || got != w {
			r.t.Fatalf("partition %d is %s, want %s", n, got, w)
		}
	}
}

// asked is a request as text: session, wait, partition:offset@last/epoch, and what
// is forgotten.
func asked(req kmsg.Request) string {
	var b strings.Builder
	switch q := req.(type) {
	case nil:
		return "nothing"
	case *kmsg.FetchRequest:
		fmt.Fprintf(&b, "fetch %d.%d wait=%d", q.SessionID, q.SessionEpoch, q.MaxWaitMillis)
		for _, t := range q.Topics {
			for _, p := range t.Partitions {
				fmt.Fprintf(&b, " %d:%d@%d/%d", p.Partition, p.FetchOffset, p.LastFetchedEpoch, p.CurrentLeaderEpoch)
				p.UnknownTags.Each(func(tag uint32, _ []byte) { fmt.Fprintf(&b, "!%d", tag) })
			}
		}
		for _, t := range q.ForgottenTopics {
			gone := slices.Clone(t.Partitions)
			slices.Sort(gone)
			fmt.Fprintf(&b, " forget=%v", gone)
		}
	case *kmsg.ListOffsetsRequest:
		b.WriteString("bounds")
		for _, t := range q.Topics {
			for _, p := range t.Partitions {
				fmt.Fprintf(&b, " %d:%d/%d", p.Partition, p.Timestamp, p.CurrentLeaderEpoch)
			}
		}
	}
	return b.String()
}
