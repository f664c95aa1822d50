package sim

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

// consumer reads partitions from some offset on, checks that it gets every
// record in order, and begins anew with others from time to time.
type consumer struct {
	link
	name   string
	ending bool
	last   bool // it reads everything to its end, after the world was healed

	// What it is about, until it begins anew.
	reads     []*reading
	version   int16
	committed bool // read_committed
	sessions  bool
	broker    model.BrokerID                  // whom it reads from
	node      *node                           // the incarnation that it found its positions with
	done      map[model.TopicIDPartition]bool // what it has read to the end since the world was healed
	reached   map[model.TopicPartition]int64  // how far it has got since
	sessionID int32
	epoch     int32 // of the session
	waiting   bool
	left      int // fetches until it begins anew
}

// reading is one partition and the position in it.
type reading struct {
	to       target
	position int64 // -1: to be asked for
	sent     bool  // the session knows the position
}

func newConsumer(w *World, i int) *consumer {
	c := &consumer{name: fmt.Sprintf("consumer %d", i)}
	c.link = link{world: w, stale: true, lost: c.reset}
	return c
}

// reset is called when a connection broke.
func (c *consumer) reset(b model.BrokerID) {
	if b == c.broker {
		c.waiting, c.sessionID, c.epoch, c.left = false, 0, 0, 0
	}
}

func (c *consumer) finish() {
	c.ending, c.left, c.stale = true, 0, true
	c.done, c.reached = make(map[model.TopicIDPartition]bool), make(map[model.TopicPartition]int64)
}

func (c *consumer) unfinished() string {
	if !c.last {
		return c.name + " has not begun to read to the end"
	}
	for _, t := range c.world.targets() {
		if p := c.world.partOf(t); p != nil && !c.done[p.id] && !c.world.hurt(t) && (c.version >= 13 || !isChurn(t.topic)) {
			return fmt.Sprintf("%s has not read %s-%d to its end; it reads from broker %d, %d partitions", c.name, t.topic, t.partition, c.broker, len(c.reads))
		}
	}
	return ""
}

// act implements client.
func (c *consumer) act() {
	w := c.world
	w.think(c.act)
	if !c.refresh() || c.waiting || w.image() == nil {
		return
	}
	if m := w.machine(c.broker); c.left <= 0 || m == nil || m.node != c.node {
		c.begin()
	}
	if len(c.reads) == 0 {
		c.left = 0
		return
	}
	conn := c.to(c.broker)
	if conn == nil {
		c.left = 0
		return
	}
	for _, r := range c.reads {
		if r.position < 0 {
			c.askOffset(conn, r)
			return
		}
	}
	c.left--
	c.fetch(conn)
}

// begin chooses what to read, and how.
func (c *consumer) begin() {
	w := c.world
	r := w.clientRand
	c.last = c.ending
	c.reads, c.left = nil, 20+r.IntN(200)
	c.version = pick(r, []int16{4, 6, 7, 11, 12, 13, 15, 16, 17})
	if c.ending {
		c.left, c.version = 1<<30, pick(r, []int16{13, 17})
	}
	c.committed, c.sessions = r.IntN(3) == 0, c.version >= 7 && r.IntN(2) == 0
	c.sessionID, c.epoch = 0, 0
	m := pick(r, w.machines)
	c.broker, c.node = m.id, m.node
	for _, to := range w.targets() {
		p := w.partOf(to)
		if c.leaderOf(to) != c.broker || !c.ending && r.IntN(3) > 0 || w.hurt(to) && (c.ending || !w.leftOver(to)) || c.ending && p != nil && c.done[p.id] {
			continue
		}
		to.id = model.NoTopicID
		if t := w.image().Topic(to.topic); t != nil && c.version >= 13 {
			to.id = t.ID
		} else if isChurn(to.topic) {
			continue // a name may soon be another topic's
		}
		r := &reading{to: to, position: -1}
		if at, known := c.reached[model.TopicPartition{Topic: to.topic, Partition: to.partition}]; known && c.ending {
			r.position = at
		}
		c.reads = append(c.reads, r)
	}
}

// askOffset asks where to begin.
func (c *consumer) askOffset(conn *conn, r *reading) {
	w := c.world
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = r.to.topic
	q := kmsg.NewListOffsetsRequestTopicPartition()
	q.Partition = r.to.partition
	q.Timestamp = pick(w.clientRand, []int64{-2, -2, -1, 1_700_000_000_000 + int64(w.sim.Now()/millisecond) - w.clientRand.Int64N(2000)})
	if c.ending {
		q.Timestamp = -2
	}
	t.Partitions = append(t.Partitions, q)
	req.Topics = append(req.Topics, t)
	c.waiting = true
	answered := false
	c.watch(conn, &answered)
	conn.send(req, pick(w.clientRand, []int16{1, 2, 4, 5, 6, 7, 8}),
		func(resp kmsg.Response) { conn.node.listed(r.to, q.Timestamp, onlyOffset(resp)) },
		func(resp kmsg.Response, err error) {
			answered, c.waiting = true, false
			if err != nil {
				return
			}
			switch o := onlyOffset(resp); {
			case o.ErrorCode != protocol.CodeNone:
				c.left, c.stale = 0, true // other partitions
			case o.Offset < 0:
				r.position = 0 // nothing is that young; begin somewhere
			default:
				r.position = o.Offset
			}
		})
}

func onlyOffset(resp kmsg.Response) *kmsg.ListOffsetsResponseTopicPartition {
	return &resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
}

// listed checks an answer of ListOffsets against what is known of the log.
func (n *node) listed(to target, at int64, o *kmsg.ListOffsetsResponseTopicPartition) {
	w, r := n.world, n.partOf(to.topic, to.id, to.partition)
	if o.ErrorCode != protocol.CodeNone || r == nil || r.state.View == nil || !r.leads() {
		return
	}
	s := r.state
	switch {
	case at == -2 && o.Offset != int64(s.LogStart):
		w.fail(13, "%v: earliest offset %d, the log of broker %d starts at %d", r.tp, o.Offset, n.m.id, s.LogStart)
	case at == -1 && o.Offset != int64(s.HighWatermark):
		w.fail(13, "%v: latest offset %d, the high watermark of broker %d is %d", r.tp, o.Offset, n.m.id, s.HighWatermark)
	case at >= 0 && o.Offset >= 0:
		for i := int64(s.LogStart); i < o.Offset && i < int64(len(r.recs)); i++ {
			if ts := r.recs[i].ts; ts != noTS && ts >= at {
				w.fail(13, "%v: the first record since %d is said to be %d, %d is of %d", r.tp, at, o.Offset, i, ts)
			}
		}
		if o.Offset < int64(len(r.recs)) && r.recs[o.Offset].ts != noTS && r.recs[o.Offset].ts != o.Timestamp {
			w.fail(13, "%v: offset %d has timestamp %d, ListOffsets says %d", r.tp, o.Offset, r.recs[o.Offset].ts, o.Timestamp)
		}
	}
}

// fetch sends one Fetch.
func (c *consumer) fetch(conn *conn) {
	w := c.world
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = -1
	req.MaxWaitMillis, req.MinBytes = int32(w.clientRand.IntN(500)), pick(w.clientRand, []int32{0, 1, 1, 500})
	req.MaxBytes = pick(w.clientRand, []int32{1, 300, 2000, 50_000, 1 << 20})
	if c.ending {
		req.MaxBytes = 1 << 20
	}
	if c.committed {
		req.IsolationLevel = 1
	}
	req.SessionEpoch = -1
	if c.sessions {
		req.SessionID, req.SessionEpoch = c.sessionID, c.epoch
	}
	positions := make(map[*reading]int64, len(c.reads))
	for _, r := range c.reads {
		positions[r] = r.position
		if c.sessions && c.epoch > 0 && r.sent {
			continue
		}
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = r.to.topic, r.to.id
		q := kmsg.NewFetchRequestTopicPartition()
		q.Partition, q.FetchOffset, q.CurrentLeaderEpoch = r.to.partition, r.position, -1
		q.PartitionMaxBytes = pick(w.clientRand, []int32{1, 200, 1000, 100_000})
		if c.ending {
			q.PartitionMaxBytes = 1 << 20
		}
		t.Partitions = append(t.Partitions, q)
		req.Topics = append(req.Topics, t)
		r.sent = true
	}
	c.waiting = true
	answered := false
	c.watch(conn, &answered)
	conn.send(req, c.version,
		func(resp kmsg.Response) { c.check(conn.node, resp.(*kmsg.FetchResponse), positions) },
		func(resp kmsg.Response, err error) {
			answered, c.waiting = true, false
			if err == nil {
				c.answer(resp.(*kmsg.FetchResponse))
			}
		})
}

// find returns the reading that a part of an answer is about.
func (c *consumer) find(topic string, id model.TopicID, partition int32) *reading {
	for _, r := range c.reads {
		if r.to.partition == partition && (c.version >= 13 && r.to.id == id || c.version < 13 && r.to.topic == topic) {
			return r
		}
	}
	return nil
}

// check looks at an answer at the moment it is given.
func (c *consumer) check(n *node, resp *kmsg.FetchResponse, positions map[*reading]int64) {
	w := c.world
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			q := &t.Partitions[j]
			r := c.find(t.Topic, t.TopicID, q.Partition)
			if r == nil {
				w.fail(15, "%s got partition %d of topic %q %v, which it did not ask for", c.name, q.Partition, t.Topic, t.TopicID)
			}
			rep := n.partOf(t.Topic, t.TopicID, q.Partition)
			if rep == nil || rep.holed || rep.state.Reader() == nil {
				continue
			}
			c.checkPart(rep, q, positions[r])
		}
	}
}

func (c *consumer) checkPart(r *replica, q *kmsg.FetchResponseTopicPartition, from int64) {
	w, s := c.world, r.state
	if s.Remnant != nil {
		checkLeftOver(r, q, from)
	}
	switch q.ErrorCode {
	case protocol.CodeNone:
	case protocol.CodeOffsetOutOfRange:
		if from >= int64(s.LogStart) && from <= int64(s.LogEnd) && r.leads() {
			w.fail(5, "%v: offset %d is out of range, the log of broker %d is %d to %d", r.tp, from, r.m.id, s.LogStart, s.LogEnd)
		}
		return
	default:
		return
	}
	if q.HighWatermark > int64(s.HighWatermark) && r.leads() {
		w.fail(5, "%v: a fetch says high watermark %d, it is %d", r.tp, q.HighWatermark, s.HighWatermark)
	}
	if c.version >= 4 && q.LastStableOffset > q.HighWatermark {
		w.fail(10, "%v: a fetch says last stable offset %d, high watermark %d", r.tp, q.LastStableOffset, q.HighWatermark)
	}
	next := from
	first := true
	n, err := eachBatch(q.RecordBatches, func(h *batchHead, raw []byte) error {
		if h.base > next || first && h.last < next || h.last >= q.HighWatermark {
			w.fail(5, "%v: a fetch from %d got a batch %d to %d when %d was next, high watermark %d", r.tp, from, h.base, h.last, next, q.HighWatermark)
		}
		first, next = false, h.last+1
		return eachRecord(h, raw, func(g gotRecord) error {
			if g.offset >= from {
				if !r.surpassed(h.epoch, g.offset) {
					w.h.shown(r.part, h.epoch, g.offset, g.id, g.ts, c.name)
				}
				w.counts.fetched++
			}
			return nil
		})
	})
	// A client sees by the CRC what is no record, and tells.
	if err != nil && !r.rotten {
		w.fail(5, "%v: a fetch from %d of broker %d got %v behind %d batches", r.tp, from, r.m.id, err, n)
	}
}

// checkLeftOver checks an answer from below the damage of a log: at the damage is an
// error, of which no client thinks that it is at the end, or at the wrong place.
func checkLeftOver(r *replica, q *kmsg.FetchResponseTopicPartition, from int64) {
	w, rem := r.m.world, r.state.Remnant
	switch {
	case q.ErrorCode == protocol.CodeNone && from >= int64(rem.End),
		q.ErrorCode == protocol.CodeOffsetOutOfRange && from >= int64(rem.Start):
		w.fail(5, "%v: a fetch from %d of a log that can be read from %d to %d gets code %d", r.tp, from, rem.Start, rem.End, q.ErrorCode)
	}
}

// leftOver reports whether a damaged target is read below its damage.
func (w *World) leftOver(to target) bool {
	for _, m := range w.machines {
		r := m.at(model.TopicPartition{Topic: to.topic, Partition: to.partition})
		if r != nil && r.state != nil && r.state.Remnant != nil && m.up() {
			return true
		}
	}
	return false
}

// answer is the client's side of an answer.
func (c *consumer) answer(resp *kmsg.FetchResponse) {
	if resp.ErrorCode != protocol.CodeNone {
		c.sessionID, c.epoch = 0, 0
		for _, r := range c.reads {
			r.sent = false
		}
		return
	}
	if c.sessions {
		if c.epoch == 0 {
			c.sessionID = resp.SessionID
		}
		if c.epoch++; c.sessionID == 0 {
			c.epoch = 0 // the broker keeps no session
		}
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			if r := c.find(t.Topic, t.TopicID, t.Partitions[j].Partition); r != nil {
				c.advance(r, &t.Partitions[j])
			}
		}
	}
}

func (c *consumer) advance(r *reading, q *kmsg.FetchResponseTopicPartition) {
	w := c.world
	switch q.ErrorCode {
	case protocol.CodeNone:
	case protocol.CodeOffsetOutOfRange:
		r.position, r.sent = -1, false
		delete(c.reached, model.TopicPartition{Topic: r.to.topic, Partition: r.to.partition})
		return
	default:
		c.left, c.stale = 0, true
		return
	}
	next := r.position
	n, err := eachBatch(q.RecordBatches, func(h *batchHead, _ []byte) error {
		next = h.last + 1
		return nil
	})
	if err != nil {
		c.left, c.stale = 0, true // bytes that are no record
		return
	}
	if n > 0 {
		r.position, r.sent = next, false
		if c.last {
			c.reached[model.TopicPartition{Topic: r.to.topic, Partition: r.to.partition}] = next
		}
	}
	if r.position >= q.HighWatermark {
		if p := w.partOf(r.to); c.last && p != nil {
			c.done[p.id] = true
			c.reads = slices.DeleteFunc(c.reads, func(o *reading) bool { return o == r })
			c.sessionID, c.epoch = 0, 0
		}
	} else if c.sessions && n == 0 {
		r.sent = r.sent && len(q.RecordBatches) == 0
	}
}
