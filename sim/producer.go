package sim

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

// producer sends batches of records that nobody else sends. An idempotent one
// keeps to the rules of KIP-98: at most five batches of a partition in flight,
// the same sequence numbers when it sends again, a new epoch when the broker
// has lost track of it.
type producer struct {
	link
	name   string
	idem   bool
	acks   int16
	retry  bool // a plain one that sends again, and so may write twice
	ending bool

	pid    int64 // -1: not known yet
	epoch  int16
	asking bool // for an id
	lanes  []*lane
}

// lane is what a producer has under way to one partition.
type lane struct {
	to       target
	batches  []*batch // not resolved, in order of their sequences
	inFlight int
	nextSeq  int32
	known    bool // a batch of this producer and epoch was acknowledged
	resend   bool // send all again, once nothing is in flight
	era      int  // when its first batch was begun
	// passed are the first records of batches that were not acknowledged, but were
	// found in a log: nothing behind them was acknowledged since.
	passed []uint64
	// retaken: the batch that was acknowledged last was, see batch.retaken.
	retaken bool
	// end is behind the last offset that was acknowledged.
	end int64
	// takers are the incarnations that acknowledged batches of it: more than one
	// while a leader has not heard of the next.
	takers []*node
}

// took notes that an incarnation has acknowledged a batch.
func (l *lane) took(by *node) {
	if !slices.Contains(l.takers, by) {
		l.takers = append(l.takers, by)
	}
}

// whole reports whether what was acknowledged was so by one incarnation alone.
func (l *lane) whole(by *node) bool {
	return len(l.takers) == 0 || len(l.takers) == 1 && l.takers[0] == by
}

// batch is records that are sent together, until it is known what became of
// them.
type batch struct {
	recs    []outRecord
	seq     int32
	tries   int
	era     int  // how many processes had begun, or elections been held, when it was first sent
	settled bool // acknowledged or given up; still in lane.batches behind others
	// outdated: the last answer came from one that doesn't lead any more, or yet.
	outdated bool
	// lacking: who gave the last answer has a log without one of lane.passed, which a
	// new leader has cut: it was never committed.
	lacking bool
	// retaken: it was acknowledged at another place than where it had been before
	// DeleteRecords took it away: its leader knows no batch that came after it then.
	retaken bool
	// unheralded: it was acknowledged by a leader whose log begins behind all that was
	// acknowledged before it: one that has begun anew there knows nothing of the
	// producer, and takes any sequence.
	unheralded bool
}

// unresolvedMax is how many batches of one partition may be under way. Source:
// KIP-98, max.in.flight.requests.per.connection.
const unresolvedMax = 5

// quiet says what producers leave out for a while.
type quiet uint8

const (
	lively   quiet = iota
	settling       // they begin nothing new
	silent         // nor do they send again what was not answered
)

func newProducer(w *World, i int) *producer {
	r := w.clientRand
	p := &producer{name: fmt.Sprintf("producer %d", i), idem: i == 0 || r.IntN(2) == 0, acks: -1, pid: -1, retry: r.IntN(2) == 0}
	if !p.idem {
		p.acks = pick(r, []int16{-1, 1, 1, 0})
	} else if i > 0 && (r.IntN(4) == 0 || w.o.plain) {
		p.acks = 1
	}
	p.link = link{world: w, stale: true, hasty: true, lost: func(model.BrokerID) { p.asking = false }}
	return p
}

func (p *producer) finish() { p.ending = true }

func (p *producer) unfinished() string {
	for _, l := range p.lanes {
		if len(l.batches) > 0 {
			return fmt.Sprintf("%s (pid %d epoch %d idempotent %v acks %d) has %d batches for %s-%d, the first with sequence %d after %d tries, %d in flight",
				p.name, p.pid, p.epoch, p.idem, p.acks, len(l.batches), l.to.topic, l.to.partition, l.batches[0].seq, l.batches[0].tries, l.inFlight)
		}
	}
	return ""
}

// act implements client.
func (p *producer) act() {
	w := p.world
	w.think(p.act)
	switch {
	case !p.refresh(), w.image() == nil:
		return
	case p.idem && p.pid < 0:
		p.askID()
		return
	case p.asking:
		return
	}
	for _, l := range slices.Clone(p.lanes) {
		if l.resend && l.inFlight == 0 && w.quiet < silent {
			p.sendAgain(l)
		}
	}
	if p.ending || w.quiet > lively {
		return
	}
	if p.idem && w.o.on[KindInit] && w.clientRand.IntN(400) == 0 {
		p.askID()
		return
	}
	n := 1
	if w.clientRand.IntN(6) == 0 {
		n = 2
	}
	for range n {
		p.begin()
	}
}

// begin makes a new batch and sends it.
func (p *producer) begin() {
	w := p.world
	ts := w.targets()
	if len(ts) == 0 {
		return
	}
	to := pick(w.clientRand, ts)
	c := p.leader(to)
	if c == nil {
		return
	}
	l := p.lane(to)
	if l.resend || len(l.batches) >= unresolvedMax {
		return
	}
	if p.idem && !l.known && len(l.batches) > 0 {
		// The broker takes any sequence from a producer it knows nothing of, so
		// nothing may overtake the first.
		return
	}
	b := &batch{era: w.era, seq: l.nextSeq, recs: make([]outRecord, 1+w.clientRand.IntN(w.o.batchMax))}
	for i := range b.recs {
		b.recs[i] = outRecord{
			id: w.h.newPayload(l.to.topic, l.to.partition, p.idem), size: w.clientRand.IntN(w.o.padMax),
			ts: 1_700_000_000_000 + int64(w.sim.Now()/millisecond) + w.clientRand.Int64N(20),
		}
	}
	l.nextSeq += int32(len(b.recs))
	l.batches = append(l.batches, b)
	p.send(c, l, b)
}

func (p *producer) lane(to target) *lane {
	for _, l := range p.lanes {
		// One lane for a partition, however it is named: sequences are its own.
		if l.to.topic == to.topic && l.to.partition == to.partition && (!isChurn(to.topic) || l.to.id == to.id) {
			return l
		}
	}
	l := &lane{to: to, era: p.world.era}
	p.lanes = append(p.lanes, l)
	return l
}

// send sends one batch in a request of its own.
func (p *producer) send(c *conn, l *lane, b *batch) {
	w := p.world
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = p.acks, pick(w.clientRand, []int32{10_000, 10_000, 300})
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = l.to.topic, l.to.id
	q := kmsg.NewProduceRequestTopicPartition()
	q.Partition = l.to.partition
	if p.idem {
		q.Records = appendBatch(nil, b.recs, p.pid, p.epoch, b.seq)
	} else {
		q.Records = appendBatch(nil, b.recs, -1, -1, -1)
	}
	t.Partitions = append(t.Partitions, q)
	req.Topics = append(req.Topics, t)
	version := pick(w.clientRand, []int16{3, 7, 8, 9, 10, 12})
	if l.to.id != model.NoTopicID {
		version = 13
	}
	b.tries++
	if p.acks == 0 {
		c.send(req, version, nil, nil)
		p.settle(l, b)
		return
	}
	l.inFlight++
	answered := false
	pid, epoch := p.pid, p.epoch
	under := c.node.epochOf(l.to)
	p.watch(c, &answered)
	c.send(req, version,
		func(resp kmsg.Response) {
			c.node.acknowledged(l.to, b, p.acks, under, onlyPart(resp))
			b.unheralded = c.node.partOf(l.to.topic, l.to.id, l.to.partition).unheralded(l, onlyPart(resp))
			b.lacking = onlyPart(resp).ErrorCode == protocol.CodeOutOfOrderSequenceNumber && c.node.lacks(l)
		},
		func(resp kmsg.Response, err error) {
			answered = true
			l.inFlight--
			if p.idem && (p.epoch != epoch || p.pid != pid) {
				return // of an epoch that was given up
			}
			if err != nil {
				p.again(l, b)
				return
			}
			p.answer(l, b, c.node, onlyPart(resp))
		})
}

// onlyPart returns the one partition of a response to our one-partition request.
func onlyPart(resp kmsg.Response) *kmsg.ProduceResponseTopicPartition {
	return &resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}

// epochOf is the epoch in which a node leads a target or follows another, as it knows.
func (n *node) epochOf(to target) model.LeaderEpoch {
	r := n.partOf(to.topic, to.id, to.partition)
	if r == nil || r.state == nil {
		return model.NoEpoch
	}
	return r.state.LeaderEpoch
}

// acknowledged checks an acknowledgement at the moment it is given. That may be later
// than the broker decided on it, since answers keep the order of the requests; one for
// acks=1 may be gone again by then, if another has led meanwhile. under is the epoch in
// which the request was sent.
func (n *node) acknowledged(to target, b *batch, acks int16, under model.LeaderEpoch, q *kmsg.ProduceResponseTopicPartition) {
	w := n.world
	b.outdated = n.outdated(to)
	n.m.line("produced   %s-%d record %d sequence %d acks %d: code %d offset %d", to.topic, to.partition, b.recs[0].id, b.seq, acks, q.ErrorCode, q.BaseOffset)
	if q.ErrorCode != protocol.CodeNone {
		w.counts.refused++
		return
	}
	r := n.partOf(to.topic, to.id, to.partition)
	if r == nil {
		return // deleted meanwhile
	}
	b.retaken = w.h.retaken(r.part, b.recs[0].id, q.BaseOffset)
	end := q.BaseOffset + int64(len(b.recs))
	if q.BaseOffset < 0 {
		w.fail(15, "%v: an acknowledgement at offset %d", r.tp, q.BaseOffset)
	}
	s := r.host.State()
	leads := s.View != nil && r.leads() && (acks != 1 || r.state.LeaderEpoch == under)
	if leads {
		switch {
		case end > r.end:
			w.fail(15, "%v: offsets %d to %d acknowledged, the log ends at %d", r.tp, q.BaseOffset, end-1, r.end)
		case acks == -1 && end > int64(s.HighWatermark):
			w.fail(8, "%v: offsets %d to %d acknowledged by all, the high watermark is %d", r.tp, q.BaseOffset, end-1, s.HighWatermark)
		case isFlush(to.topic) && end > r.floor:
			w.fail(15, "%v: offsets %d to %d acknowledged, only %d is durable", r.tp, q.BaseOffset, end-1, r.floor)
		}
	}
	for i := range b.recs {
		ts, offset := b.recs[i].ts, q.BaseOffset+int64(i)
		if q.LogAppendTime >= 0 {
			ts = noTS // the broker's clock, or that of the batch that this one repeats
		}
		epoch := int32(-1)
		if leads {
			if epoch = int32(s.EpochFor(model.Offset(offset))); epoch >= 0 {
				w.h.holds(r, epoch, offset, b.recs[i].id, ts, "an acknowledgement")
			}
		}
		if acks == -1 && !r.surpassed(epoch, offset) {
			w.h.shown(r.part, epoch, offset, b.recs[i].id, ts, "an acknowledgement by all")
		}
	}
	if acks == -1 {
		r.part.stale = true
	}
	w.counts.acks += len(b.recs)
	w.lastAck = w.sim.Now()
}

// lacks reports whether a node's log of a lane's partition is without one of the
// batches that were passed over.
func (n *node) lacks(l *lane) bool {
	r := n.partOf(l.to.topic, l.to.id, l.to.partition)
	return r != nil && r.state != nil && r.state.View != nil && r.without(l.passed, int64(r.state.LogStart))
}

// unheralded reports whether a batch that a replica acknowledges stands in a log
// without anything that was acknowledged to its lane before.
func (r *replica) unheralded(l *lane, q *kmsg.ProduceResponseTopicPartition) bool {
	return q.ErrorCode == protocol.CodeNone && r != nil && r.state != nil && r.state.View != nil && int64(r.state.LogStart) >= l.end
}

// overtaken reports whether the first batch of a lane was overtaken by one that its
// leader could not tell from a producer's first: the first was refused, as it may be
// for want of replicas, and the other, which was sent at once, was not.
func (l *lane) overtaken() bool {
	return len(l.batches) > 0 && !l.batches[0].settled && slices.ContainsFunc(l.batches[1:], func(b *batch) bool { return b.unheralded })
}

// without reports whether one of some records is not in a replica's files from an
// offset on, and was not shown to anybody either.
func (r *replica) without(ids []uint64, from int64) bool {
	left := slices.DeleteFunc(slices.Clone(ids), func(id uint64) bool { return r.m.world.h.payload(id).part == r.part })
	if len(left) == 0 {
		return false
	}
	_, _ = r.scan(r.m.disk, from, func(b *fileBatch) error {
		return b.each(func(g gotRecord) error {
			left = slices.DeleteFunc(left, func(id uint64) bool { return id == g.id })
			return nil
		})
	})
	return len(left) > 0
}

// outdated reports whether a node leads a target in another epoch than the newest
// metadata says, or not at all.
func (n *node) outdated(to target) bool {
	r := n.partOf(to.topic, to.id, to.partition)
	if r == nil {
		return true
	}
	reg := n.world.registration(r.part)
	return reg == nil || reg.Leader != n.m.id || reg.LeaderEpoch != r.state.LeaderEpoch
}

// surpassed reports whether an election since has lost a record, so that what
// this replica knows of it counts for nothing: of all that it knows of a reign
// before, and of what a follower has not cut yet. epoch is the record's, -1 if it
// isn't known.
func (r *replica) surpassed(epoch int32, offset int64) bool {
	p := r.part
	return int32(r.state.LeaderEpoch) < p.uncleanEpoch || p.pending ||
		!r.leads() && p.lost && offset >= p.lostFrom && epoch < p.uncleanEpoch
}

// answer is the client's side of an answer of some incarnation.
func (p *producer) answer(l *lane, b *batch, by *node, q *kmsg.ProduceResponseTopicPartition) {
	w := p.world
	switch q.ErrorCode {
	case protocol.CodeNone, protocol.CodeDuplicateSequenceNumber:
		l.known, l.passed, l.retaken = true, nil, b.retaken
		l.end = max(l.end, q.BaseOffset+int64(len(b.recs)))
		l.took(by)
		p.settle(l, b)
	case protocol.CodeOutOfOrderSequenceNumber:
		if len(l.batches) > 0 && l.batches[0] != b || !p.idem || b.outdated {
			p.again(l, b) // one before it did not get there
			return
		}
		part := w.partOf(l.to)
		switch {
		case part != nil && b.era != w.era && w.h.has(part, b.recs[0].id):
			// It is there, and what a start remembers of a producer is its last
			// batch only.
			w.counts.duplicates++
			l.passed = append(l.passed, b.recs[0].id)
			p.settle(l, b)
			return
		case part != nil && b.era != w.era && w.h.unseen(part):
			// It may have been there, and another behind it.
		case b.lacking: // one before it, which was not acknowledged either
		case l.retaken: // and one that was acknowledged before that is not sent again
		case l.overtaken():
		case part != nil && !part.lost && !w.anyHit(part) && (p.acks == -1 || l.era == w.era && l.whole(by)):
			w.fail(7, "%v: producer %d epoch %d sequence %d is out of order, and nothing was lost", part.tp, p.pid, p.epoch, b.seq)
		}
		p.newEpoch()
	case protocol.CodeUnknownProducerID, protocol.CodeInvalidProducerEpoch, protocol.CodeInvalidTimestamp, protocol.CodeMessageTooLarge:
		if !p.idem {
			p.settle(l, b)
			return
		}
		p.newEpoch()
	case protocol.CodeUnknownTopicOrPartition, protocol.CodeUnknownTopicID:
		p.stale = true
		if !w.exists(l.to) {
			p.drop(l)
			return
		}
		p.again(l, b)
	case protocol.CodeNotLeaderOrFollower, protocol.CodeRequestTimedOut, protocol.CodeKafkaStorageError,
		protocol.CodeNotEnoughReplicas, protocol.CodeNotEnoughReplicasAfterAppend, protocol.CodeLeaderNotAvailable:
		p.stale = true
		if w.hurt(l.to) {
			p.giveUp(l)
			return
		}
		p.again(l, b)
	default:
		w.fail(15, "producing to %s-%d: unexpected error code %d: %v", l.to.topic, l.to.partition, q.ErrorCode, deref(q.ErrorMessage))
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// anyHit reports whether a disk error touched a replica of a partition.
func (w *World) anyHit(p *part) bool {
	for _, m := range w.machines {
		if r := m.find(p); r != nil && (r.hit || r.drop) {
			return true
		}
	}
	return false
}

// settle ends a batch.
func (p *producer) settle(l *lane, b *batch) {
	b.settled = true
	for len(l.batches) > 0 && l.batches[0].settled {
		l.batches = l.batches[1:]
	}
	if !p.idem { // no order to keep
		for i, o := range l.batches {
			if o == b {
				l.batches = append(l.batches[:i:i], l.batches[i+1:]...)
				break
			}
		}
	}
}

// again has a batch sent again, or given up if this producer doesn't.
func (p *producer) again(l *lane, b *batch) {
	if b.settled {
		return
	}
	if !p.idem && (!p.retry || b.tries > 5) {
		p.world.counts.abandoned++
		p.settle(l, b)
		return
	}
	l.resend = true
}

// sendAgain sends everything of a lane that is not settled, in order.
func (p *producer) sendAgain(l *lane) {
	w := p.world
	switch {
	case w.hurt(l.to):
		p.giveUp(l)
		return
	case !w.exists(l.to):
		p.drop(l)
		return
	}
	c := p.leader(l.to)
	if c == nil {
		return
	}
	l.resend = false
	for _, b := range l.batches {
		if !b.settled {
			p.send(c, l, b)
		}
	}
}

// drop forgets a lane whose partition is gone for good.
func (p *producer) drop(l *lane) {
	p.world.counts.abandoned += len(l.batches)
	for i, o := range p.lanes {
		if o == l {
			p.lanes = append(p.lanes[:i:i], p.lanes[i+1:]...)
			break
		}
	}
	l.batches = nil
}

// giveUp forgets a lane whose partition is damaged. It may come back, so the
// sequences there can't begin anew under the same id.
func (p *producer) giveUp(l *lane) {
	p.drop(l)
	if p.idem {
		p.newEpoch()
	}
}

// newEpoch gives up everything under way and goes on under the next epoch
// (KIP-360), or under a new id.
func (p *producer) newEpoch() {
	p.abandonAll()
	if p.world.clientRand.IntN(2) == 0 && p.epoch < 1<<15-1 {
		p.epoch++
	} else {
		p.pid, p.epoch = -1, 0
	}
}

// askID asks for a producer id.
func (p *producer) askID() {
	w, c := p.world, p.any()
	if p.asking || c == nil {
		return
	}
	p.asking = true
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionTimeoutMillis = 60_000
	version := pick(w.clientRand, []int16{0, 1, 2, 3, 4})
	if version >= 3 && p.pid >= 0 {
		req.ProducerID, req.ProducerEpoch = p.pid, p.epoch // they say nothing without a transactional id
	}
	answered := false
	p.watch(c, &answered)
	c.send(req, version,
		func(resp kmsg.Response) { w.givenID(resp.(*kmsg.InitProducerIDResponse)) },
		func(resp kmsg.Response, err error) {
			answered, p.asking = true, false
			if err != nil {
				return
			}
			r := resp.(*kmsg.InitProducerIDResponse)
			if r.ErrorCode != protocol.CodeNone {
				return // it will ask again
			}
			p.abandonAll()
			p.pid, p.epoch = r.ProducerID, r.ProducerEpoch
			w.loose[p.pid] = p.acks == 1 && len(w.machines) > 1
		})
}

// abandonAll gives up what is under way: its outcome stays unknown.
func (p *producer) abandonAll() {
	for _, l := range p.lanes {
		p.world.counts.abandoned += len(l.batches)
		l.batches, l.resend = nil, false
	}
	p.lanes = nil
}

// givenID checks that a producer id and epoch are given out once.
func (w *World) givenID(r *kmsg.InitProducerIDResponse) {
	if r.ErrorCode != protocol.CodeNone {
		return
	}
	if w.h.pids == nil {
		w.h.pids = make(map[[2]int64]bool)
	}
	key := [2]int64{r.ProducerID, int64(r.ProducerEpoch)}
	if w.h.pids[key] {
		w.fail(7, "producer id %d epoch %d given out twice", r.ProducerID, r.ProducerEpoch)
	}
	w.h.pids[key] = true
}
