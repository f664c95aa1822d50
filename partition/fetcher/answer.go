package fetcher

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
)

// Codes that decide what a follower does.
const (
	codeUnknownTopicID      partition.Code = 100
	codeInconsistentTopicID partition.Code = 103
	codeSessionNotFound     partition.Code = 70
	codeSessionEpoch        partition.Code = 71
	codeSessionTopicID      partition.Code = 106
)

// pump sends the next request, if there is something to ask and nothing to wait
// for. Bounds are asked for first: those partitions have waited longest.
func (f *Fetcher) pump(now model.Instant, out *Output) {
	if f.outstanding != nil || now < f.pausedUntil {
		return
	}
	f.pausedUntil = 0
	switch {
	case f.counts[Truncating] > 0:
		f.outstanding = f.locate()
	case f.counts[Fetching] == 0:
		return
	case f.counts[Applying] > 0 && now < f.heldUntil:
		return
	default:
		f.outstanding = f.fetch()
	}
	f.heldUntil = 0
	f.sentAt, f.abortAt = now, model.Never
	f.requests++
	out.Request = f.outstanding
	out.Reconnect, f.reconnect = f.reconnect, false
}

// hurry has a fetch that is parked with the leader given up soon, so that the
// next can carry a partition that was just added.
func (f *Fetcher) hurry(now model.Instant) {
	if _, ok := f.outstanding.(*kmsg.FetchRequest); ok && f.abortAt == model.Never && now-f.sentAt >= abortAfter {
		f.abortAt = max(now+abortAfter, f.abortedAt+abortEvery)
	}
}

// abort gives the outstanding fetch up when that is due: its connection is closed,
// and what may still come for it counts for nothing. The leader's session may or
// may not have seen it, so that another begins.
func (f *Fetcher) abort(now model.Instant) {
	if now < f.abortAt {
		return
	}
	f.outstanding, f.abortAt, f.abortedAt = nil, model.Never, now
	f.session.reset(true)
	f.reconnect = true
}

// answered takes the answer to the outstanding request.
func (f *Fetcher) answered(now model.Instant, a *Answer, out *Output) {
	req := f.outstanding
	if req == nil {
		return
	}
	f.outstanding, f.abortAt = nil, model.Never
	switch resp := a.Msg.(type) {
	case *kmsg.FetchResponse:
		if _, ok := req.(*kmsg.FetchRequest); ok && a.Err == nil {
			f.fetchAnswered(now, resp, out)
			return
		}
	case *kmsg.ListOffsetsResponse:
		if _, ok := req.(*kmsg.ListOffsetsRequest); ok && a.Err == nil {
			f.worked(out)
			f.located(now, resp, out)
			return
		}
	}
	if a.Err == nil {
		a.Err = fmt.Errorf("%T for %T", a.Msg, req)
	}
	f.session.reset(true)
	f.failed(now, 1, Event{Kind: EventFailing, Err: a.Err}, out)
}

// failed counts a failed request and makes a pause, unless it is the first in a
// row and free of charge.
func (f *Fetcher) failed(now model.Instant, free int, e Event, out *Output) {
	f.failures++
	if f.failures == 1 {
		out.Events = append(out.Events, e)
	}
	if f.failures >= free {
		f.pausedUntil = now + f.pause(f.failures)
	}
	for _, p := range f.order {
		p.locating = false
	}
}

func (f *Fetcher) worked(out *Output) {
	if f.failures > 0 {
		out.Events = append(out.Events, Event{Kind: EventWorking})
	}
	f.failures = 0
}

// fetchAnswered takes the answer to a fetch.
func (f *Fetcher) fetchAnswered(now model.Instant, resp *kmsg.FetchResponse, out *Output) {
	if c := resp.ErrorCode; c != partition.CodeNone {
		f.session.reset(c != codeSessionNotFound)
		free := 1
		if c == codeSessionNotFound || c == codeSessionEpoch || c == codeSessionTopicID {
			free = 2 // asking in full is the cure
		}
		f.failed(now, free, Event{Kind: EventFailing, Code: c}, out)
		return
	}
	f.worked(out)
	byName := f.names(resp.Version)
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			rp := &t.Partitions[j]
			p := f.parts[ID{TopicID: t.TopicID, Partition: rp.Partition}]
			if byName != nil {
				p = byName[model.TopicPartition{Topic: t.Topic, Partition: rp.Partition}]
			}
			if p != nil && p.asking() {
				p.answeredIn = f.requests
				f.partAnswered(now, p, rp, out)
			}
		}
	}
	if f.session.full {
		f.missing(now)
	}
	f.session.answered(resp.SessionID)
	if len(out.Deliveries) > 0 {
		f.heldUntil = now + holdMax
	}
}

// asking says whether the outstanding request asked what would be asked now.
func (p *part) asking() bool { return p.state == Fetching && p.sent && p.asked == p.question() }

// names finds partitions by topic name, nil for versions that use topic ids.
func (f *Fetcher) names(version int16) map[model.TopicPartition]*part {
	if version >= 13 {
		return nil
	}
	byName := make(map[model.TopicPartition]*part, len(f.parts))
	for _, p := range f.parts { // order-free: a copy
		byName[model.TopicPartition{Topic: p.topic, Partition: p.id.Partition}] = p
	}
	return byName
}

// missing delays what a full answer should have listed and didn't.
func (f *Fetcher) missing(now model.Instant) {
	for _, p := range f.order {
		if !p.gone && p.asking() && p.answeredIn != f.requests {
			p.failures++
			f.delay(now, p, f.pause(p.failures))
		}
	}
}

// partAnswered takes one partition's answer.
func (f *Fetcher) partAnswered(now model.Instant, p *part, rp *kmsg.FetchResponseTopicPartition, out *Output) {
	switch c := rp.ErrorCode; c {
	case partition.CodeNone:
	case partition.CodeOffsetOutOfRange:
		f.outOfRange(now, p, out)
		return
	default:
		f.refused(now, p, c, out)
		return
	}
	d := Delivery{
		ID: p.id, Asked: p.pos, HighWatermark: model.Offset(rp.HighWatermark), LogStart: model.Offset(rp.LogStartOffset),
	}
	switch {
	case rp.DivergingEpoch.Epoch >= 0:
		d.Kind = partition.AnswerDiverging
		d.Diverging = model.OffsetAndEpoch{
			Offset: model.Offset(rp.DivergingEpoch.EndOffset), Epoch: model.LeaderEpoch(rp.DivergingEpoch.Epoch),
		}
	case len(rp.RecordBatches) > 0:
		d.Records = rp.RecordBatches
	case min(d.HighWatermark, p.pos.Offset) > p.highWatermark, d.LogStart > p.logStart:
	default:
		p.failures, p.code = 0, 0 // nothing new
		return
	}
	f.deliver(p, d, out)
}

// deliver hands an answer to the partition.
func (f *Fetcher) deliver(p *part, d Delivery, out *Output) {
	f.serial++
	p.serial, d.Serial = f.serial, f.serial
	p.bounds, p.diverging = d.Kind == partition.AnswerBounds, d.Kind == partition.AnswerDiverging
	f.enter(p, Applying)
	out.Deliveries = append(out.Deliveries, d)
}

// refused takes an error code of one partition. A leader that doesn't know of
// its leadership yet will soon; one that knows of a later epoch sends us back to
// the metadata.
func (f *Fetcher) refused(now model.Instant, p *part, c partition.Code, out *Output) {
	if c == partition.CodeFencedLeaderEpoch {
		out.Events = append(out.Events, Event{Kind: EventFenced, ID: p.id, Code: c, Position: p.pos})
		f.enter(p, Failed)
		return
	}
	p.failures++
	if p.code != c {
		p.code = c
		out.Events = append(out.Events, Event{Kind: EventRefused, ID: p.id, Code: c, Position: p.pos})
	}
	switch c {
	case partition.CodeUnknownLeaderEpoch, partition.CodeNotLeaderOrFollower, partition.CodeUnknownTopicOrPartition,
		codeUnknownTopicID, codeInconsistentTopicID:
		f.delay(now, p, f.pause(p.failures))
	default:
		f.delay(now, p, f.cfg.Backoff)
	}
}

// outOfRange has the leader's bounds asked for, at once the first time.
func (f *Fetcher) outOfRange(now model.Instant, p *part, out *Output) {
	if p.code != partition.CodeOffsetOutOfRange {
		p.code, p.failures = partition.CodeOffsetOutOfRange, 0
		out.Events = append(out.Events, Event{Kind: EventOutOfRange, ID: p.id, Position: p.pos})
	}
	p.leaderEnd = model.NoOffset
	if p.failures++; p.failures > 2 {
		f.delay(now, p, f.pause(p.failures))
		p.next = Truncating
		return
	}
	f.enter(p, Truncating)
}

// What ListOffsets calls the ends of a log.
const (
	latestOffset   = -1
	earliestOffset = -2
)

// locate builds the request for the bounds of the leader's log: first its end,
// and its start where that isn't below ours. Source: Kafka's
// fetchOffsetAndTruncate.
func (f *Fetcher) locate() *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = int32(f.cfg.Self)
	topics := topicIndex{}
	for _, p := range f.order {
		if p.gone || p.state != Truncating {
			continue
		}
		i, ok := topics[p.id.TopicID]
		if !ok {
			i = len(req.Topics)
			topics[p.id.TopicID] = i
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = p.topic
			req.Topics = append(req.Topics, t)
		}
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.CurrentLeaderEpoch = p.id.Partition, int32(p.pos.LeaderEpoch)
		rp.Timestamp = latestOffset
		if p.leaderEnd != model.NoOffset {
			rp.Timestamp = earliestOffset
		}
		p.locating = true
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, rp)
	}
	return req
}

// located takes the answer to locate.
func (f *Fetcher) located(now model.Instant, resp *kmsg.ListOffsetsResponse, out *Output) {
	byName := f.names(0)
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			p := byName[model.TopicPartition{Topic: t.Topic, Partition: t.Partitions[j].Partition}]
			if p != nil && p.locating {
				p.locating = false
				f.bound(now, p, &t.Partitions[j], out)
			}
		}
	}
	for _, p := range f.order {
		if p.locating && !p.gone { // the answer lacks it
			p.locating = false
			p.failures++
			f.delay(now, p, f.pause(p.failures))
		}
	}
}

// bound takes one end of the leader's log.
func (f *Fetcher) bound(now model.Instant, p *part, rp *kmsg.ListOffsetsResponseTopicPartition, out *Output) {
	assert.That(p.state == Truncating, "%s is %s while its leader's bounds are asked for", p.id, p.state)
	at := model.Offset(rp.Offset)
	d := Delivery{ID: p.id, Kind: partition.AnswerBounds, Asked: p.pos, LeaderStart: model.NoOffset}
	switch {
	case rp.ErrorCode != partition.CodeNone:
		f.refused(now, p, rp.ErrorCode, out)
	case at < 0:
		p.failures++
		f.delay(now, p, f.pause(p.failures))
	case p.leaderEnd != model.NoOffset:
		d.LeaderStart, d.LeaderEnd = at, p.leaderEnd
		f.deliver(p, d, out)
	case at < p.pos.Offset:
		d.LeaderEnd = at
		f.deliver(p, d, out)
	default:
		p.leaderEnd = at
	}
}
