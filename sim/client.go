package sim

import (
	"github.com/tidemark/tidemark/internal/model"
)

// client is something that talks to the broker.
type client interface {
	// act does the next thing and plans the one after.
	act()
	// finish: begin nothing new, end what was begun.
	finish()
	// unfinished says what there is still to do, "" if nothing.
	unfinished() string
}

// link keeps a client connected.
type link struct {
	world *World
	conn  *conn
	// lost is called when a connection broke, before a new one is made.
	lost func()
}

// up returns the connection, a new one if need be and possible, else nil.
func (l *link) up() *conn {
	if l.conn == nil {
		l.conn = l.world.connect(func() {
			l.conn = nil
			l.lost()
		})
	}
	if l.conn == nil || l.conn.dead {
		return nil
	}
	return l.conn
}

// answerMax is how long a client waits for an answer before it gives up the
// connection.
const answerMax = 30 * second

// watch cuts the connection if a request is not answered in time.
func (l *link) watch(c *conn, done *bool) {
	l.world.at(answerMax, func() {
		if !*done && !c.dead {
			l.world.trace.line("client     gives up a connection without answers")
			c.cut()
		}
	})
}

// think plans the client's next act.
func (w *World) think(act func()) { w.at(exp(w.clientRand, model.Instant(w.o.think))+1, act) }

// target is one partition as clients name it.
type target struct {
	topic     string
	id        model.TopicID // NoTopicID: named, not told by id
	partition int32
}

// targets lists what can be produced to and read: steady topics by name, those
// that come and go by id.
func (w *World) targets() []target {
	if w.node == nil || !w.node.up {
		return nil
	}
	var ts []target
	for t := range w.node.broker.Image().Topics() {
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
	img := w.node.broker.Image()
	if t.id != model.NoTopicID {
		return img.TopicByID(t.id) != nil
	}
	return img.Topic(t.topic) != nil
}

// hurt reports whether a target is honestly damaged, so that nothing can be
// done there any more.
func (w *World) hurt(t target) bool {
	for _, p := range w.h.order {
		if p.hurt && !p.gone && p.tp.Topic == t.topic && p.tp.Partition == t.partition {
			return true
		}
	}
	return false
}
