package sim

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
)

// client is something that talks to the cluster.
type client interface {
	// act does the next thing and plans the one after.
	act()
	// finish: begin nothing new, end what was begun.
	finish()
	// unfinished says what there is still to do, "" if nothing.
	unfinished() string
}

// link keeps a client connected to the brokers, and knows who leads what, as
// they told it.
type link struct {
	world   *World
	conns   []*conn // by broker id; nil: none
	leaders map[model.TopicPartition]model.BrokerID
	stale   bool // the leaders are to be asked for
	asking  bool
	askAt   model.Instant // not before
	hasty   bool          // it has the seed's patience
	// lost is called when a connection broke, before a new one is made.
	lost func(b model.BrokerID)
}

// to returns the connection to a broker, a new one if need be and possible, else
// nil.
func (l *link) to(b model.BrokerID) *conn {
	m := l.world.machine(b)
	if m == nil {
		return nil
	}
	for int(b) >= len(l.conns) {
		l.conns = append(l.conns, nil)
	}
	if l.conns[b] == nil {
		l.conns[b] = l.world.connect(m, func() {
			l.conns[b] = nil
			l.stale = true
			l.lost(b)
		})
	}
	if c := l.conns[b]; c != nil && !c.dead {
		return c
	}
	l.stale = true
	return nil
}

// any returns a connection to some broker, nil if the first that it thinks of
// can't be reached.
func (l *link) any() *conn { return l.to(pick(l.world.clientRand, l.world.machines).id) }

// leader returns the connection to a partition's leader, nil if it isn't known
// or can't be reached; it is asked for then.
func (l *link) leader(t target) *conn {
	b := l.leaderOf(t)
	if b <= 0 {
		l.stale = true
		return nil
	}
	return l.to(b)
}

// leaderOf returns the leader that the client believes in, 0 if none.
func (l *link) leaderOf(t target) model.BrokerID {
	return l.leaders[model.TopicPartition{Topic: t.topic, Partition: t.partition}]
}

// refresh asks for the leaders if need be. It reports whether they are known.
func (l *link) refresh() bool {
	w := l.world
	if l.stale && !l.asking && w.sim.Now() >= l.askAt {
		l.askAt = w.sim.Now() + exp(w.clientRand, 20*millisecond)
		if c := l.any(); c != nil {
			l.ask(c)
		}
	}
	if !l.stale && w.clientRand.IntN(200) == 0 {
		l.stale = true
	}
	return l.leaders != nil
}

// ask asks a broker for the leaders.
func (l *link) ask(c *conn) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	l.asking = true
	answered := false
	l.watch(c, &answered)
	c.send(req, pick(l.world.clientRand, []int16{1, 5, 9, 12}), nil, func(resp kmsg.Response, err error) {
		answered, l.asking = true, false
		if err != nil {
			return
		}
		l.stale, l.leaders = false, make(map[model.TopicPartition]model.BrokerID)
		m := resp.(*kmsg.MetadataResponse)
		for i := range m.Topics {
			for j := range m.Topics[i].Partitions {
				p := &m.Topics[i].Partitions[j]
				l.leaders[model.TopicPartition{Topic: deref(m.Topics[i].Topic), Partition: p.Partition}] = model.BrokerID(p.Leader)
			}
		}
	})
}

// answerMax is how long a client waits for an answer before it gives up the
// connection, if it is not in a hurry.
const answerMax = 30 * second

// watch cuts the connection if a request is not answered before the client's
// patience is over.
func (l *link) watch(c *conn, done *bool) {
	patience := answerMax
	if l.world.phase == safety && l.hasty {
		patience = model.Instant(l.world.o.patience)
	}
	l.world.at(patience, func() {
		if !*done && !c.dead {
			l.world.trace.line("client     gives up a connection without answers")
			c.cut()
		}
	})
}

// think plans the client's next act. There is none once all have finished.
func (w *World) think(act func()) {
	if !w.final {
		w.at(exp(w.clientRand, model.Instant(w.o.think))+1, act)
	}
}

// target is one partition as clients name it.
type target struct {
	topic     string
	id        model.TopicID // NoTopicID: named, not told by id
	partition int32
}

// targets lists what can be produced to and read: steady topics by name, those
// that come and go by id.
func (w *World) targets() []target {
	if w.image() == nil {
		return nil
	}
	var ts []target
	for t := range w.image().Topics() {
		if t.Name == groupsTopic {
			continue
		}
		at := target{topic: t.Name}
		if isChurn(t.Name) || w.clientRand.IntN(2) == 0 {
			at.id = t.ID
		}
		for i := range t.Partitions {
			at.partition = int32(i)
			ts = append(ts, at)
		}
	}
	return ts
}

// isChurn reports whether a topic comes and goes, by its name.
func isChurn(topic string) bool { return topic[0] == 'x' }

// isFlush reports whether a topic has flush.messages=1 for good.
func isFlush(topic string) bool { return topic[0] == 'f' }

// isAppendTime reports whether a topic has LogAppendTime for good.
func isAppendTime(topic string) bool { return topic[0] == 't' }

// exists reports whether the topic of a target is there still.
func (w *World) exists(t target) bool {
	if t.id != model.NoTopicID {
		return w.image().TopicByID(t.id) != nil
	}
	return w.image().Topic(t.topic) != nil
}

// hurt reports whether so much of a target is honestly damaged that perhaps
// nothing can be done there any more: one replica, and no other leads with enough members.
func (w *World) hurt(t target) bool {
	for _, m := range w.machines {
		r := m.at(model.TopicPartition{Topic: t.topic, Partition: t.partition})
		if r == nil || !r.hurt && !r.part.maimed {
			continue
		}
		reg := w.registration(r.part)
		switch {
		case reg == nil, reg.Leader == model.NoLeader:
			return true
		case r.rotten && reg.Leader == m.id:
			return true
		case r.hurt && (reg.Leader == m.id || len(reg.ISR) < minISR(w.meta.img, t.topic)):
			return true
		}
	}
	return false
}

// partOf returns what is known of a target's partition, nil if there is none.
func (w *World) partOf(t target) *part {
	id := t.id
	if id == model.NoTopicID {
		topic := w.image().Topic(t.topic)
		if topic == nil {
			return nil
		}
		id = topic.ID
	}
	return w.h.parts[model.TopicIDPartition{TopicID: id, Partition: t.partition}]
}
