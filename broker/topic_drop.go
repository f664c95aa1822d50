package broker

import (
	"slices"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
)

// Pauses and bounds of a topicDrop.
const (
	// dropPause is the time before the next try.
	dropPause = model.Instant(200e6)
	// dropTries bounds the tries: a coordinator that is not there after a minute of
	// them has another trouble, which is told of elsewhere.
	dropTries = 300
)

// topicDrop has one partition's groups forget the offsets of topics that were
// deleted. While the coordinator loads them, or its write can't be replicated, it
// is tried again, as long as this broker leads the partition: a topic made anew
// under the name is to be read from its start.
type topicDrop struct {
	g      *groups
	h      *host.Hosted
	topics []string
	since  model.Timestamp // when they were gone here
	tries  atomic.Int32
}

func (g *groups) drop(h *host.Hosted, topics []string) {
	(&topicDrop{g: g, h: h, topics: topics, since: g.b.rt.Now().Wall}).Deliver(model.Now{})
}

// Deliver sends the call.
func (d *topicDrop) Deliver(model.Now) {
	if d.g.closed.Load() || !slices.Contains(d.g.led(), d.h) {
		return
	}
	d.tries.Add(1)
	d.g.send(d.h, &groupCall{Call: coordinator.Call{Request: &group.DropTopics{Topics: d.topics, Since: d.since}, Waiter: d}})
}

// Answered implements coordinator.Waiter.
func (d *topicDrop) Answered(c *coordinator.Call) {
	switch {
	case c.Code != protocol.CodeCoordinatorLoadInProgress && c.Code != protocol.CodeCoordinatorNotAvailable:
		return
	case d.tries.Load() >= dropTries:
		d.g.b.logger.Error("offsets of topics that were deleted could not be dropped; a topic made anew under such a name may be read from them",
			zap.Stringer("partition", d.h.TopicPartition()), zap.Strings("topics", d.topics))
		return
	}
	d.g.b.rt.SetDeadline(d, d.g.b.rt.Now().Mono+dropPause)
}

// TickAt is called on the timers' goroutine, which must not wait.
func (d *topicDrop) TickAt(model.Now) { d.g.b.rt.Spare(d) }

var (
	_ loop.Ticker   = (*topicDrop)(nil)
	_ loop.Delivery = (*topicDrop)(nil)
)
