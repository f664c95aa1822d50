package quorum

import (
	"time"

	"github.com/tidemark/tidemark/internal/metrics"
	"github.com/tidemark/tidemark/internal/model"
)

// Backlog returns how many messages wait for the node.
func (n *Node) Backlog() int { return n.box.Len() }

// Backlog returns how many messages wait for the observer.
func (o *Observer) Backlog() int { return o.box.Len() }

// Touch has done called once the node has got to it, after all that waits now: it
// shows that the loop does not hang, in a write to the disk for one.
func (n *Node) Touch(done func()) { n.box.Post(message{kind: kindTouch, done: done}) }

// touched calls a function after the loop was released.
type touched struct{ done func() }

// Deliver implements loop.Delivery.
func (t *touched) Deliver(model.Now) { t.done() }

// Flushes returns how long the flushes of the metadata log took.
func (n *Node) Flushes() metrics.Reading { return n.config.flushes.Read() }

// timed runs a flush and counts how long it took.
func (s *storage) timed(flush func() error) error {
	if s.flushes == nil {
		return flush()
	}
	from := s.rt.Now().Mono
	err := flush()
	s.flushes.Observe(time.Duration(s.rt.Now().Mono - from))
	return err
}
