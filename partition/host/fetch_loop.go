package host

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/partition/fetcher"
)

// fetchLoops are the loops that fetch from leaders, made when first needed and
// kept: there are few, and an idle one has no connection.
type fetchLoops struct {
	m *ReplicaManager

	mu    sync.Mutex
	loops map[fetchKey]*fetchLoop
}

// fetchKey names one fetcher towards one leader.
type fetchKey struct {
	leader model.BrokerID
	index  int
}

// of returns the loop that fetches a partition from a leader, nil if this node
// never follows.
func (s *fetchLoops) of(leader model.BrokerID, tp model.TopicPartition) *fetchLoop {
	if s.m.deps.Leaders == nil {
		return nil
	}
	key := fetchKey{leader, fetcherOf(tp, int(s.m.deps.Broker.Replication.Fetchers))}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.loops[key]
	if l == nil {
		l = newFetchLoop(s.m, key)
		s.loops[key] = l
	}
	return l
}

// all returns the loops, by leader: the order in which they stop is the order in
// which connections close, and a simulated stop is to repeat itself.
func (s *fetchLoops) all() []*fetchLoop {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.loops), func(a, b *fetchLoop) int {
		return cmp.Or(cmp.Compare(a.key.leader, b.key.leader), cmp.Compare(a.key.index, b.key.index))
	})
}

// fetcherOf spreads partitions over n fetchers, as Kafka does.
func fetcherOf(tp model.TopicPartition, n int) int {
	var h int32
	for _, c := range tp.Topic {
		h = 31*h + int32(c)
	}
	h = 31*h + tp.Partition
	return int(uint32(h)&0x7fffffff) % max(n, 1)
}

// fetchMessage is what a fetchLoop's mailbox holds.
type fetchMessage interface {
	// fetch is called by the owner of the loop.
	fetch(l *fetchLoop, now model.Now, out *loop.Outbox)
}

// fetchLoop is a fetcher.Fetcher, the loop around it and its connection.
type fetchLoop struct {
	m   *ReplicaManager
	key fetchKey
	box *loop.Box[fetchMessage]

	// What follows belongs to the loop.

	core   *fetcher.Fetcher
	in     fetcher.Input
	out    fetcher.Output
	hosted map[fetcher.ID]*Hosted
	link   LeaderLink // nil while there is nothing to fetch
	asking *linkSend  // the outstanding request
	closed bool
}

func newFetchLoop(m *ReplicaManager, key fetchKey) *fetchLoop {
	r := &m.deps.Broker.Replication
	l := &fetchLoop{m: m, key: key, hosted: make(map[fetcher.ID]*Hosted)}
	l.core = fetcher.New(fetcher.Config{
		Self: m.deps.Self, MinBytes: r.FetchMinBytes, MaxBytes: r.FetchMaxBytes, ResponseBytes: r.FetchResponseMaxBytes,
		Wait: model.Instant(r.FetchWaitMax), Backoff: model.Instant(r.FetchBackoff),
	})
	l.box = loop.NewBox[fetchMessage](l, m.deps.RT)
	return l
}

// Handle takes one message. For the Box only.
func (l *fetchLoop) Handle(now model.Now, msg fetchMessage, out *loop.Outbox) { msg.fetch(l, now, out) }

// NextDeadline is the core's. For the Box only.
func (l *fetchLoop) NextDeadline() model.Instant {
	if l.closed {
		return model.Never
	}
	return l.core.NextDeadline()
}

// Tick passes a deadline to the core. For the Box only.
func (l *fetchLoop) Tick(now model.Now, out *loop.Outbox) {
	l.in = fetcher.Input{Kind: fetcher.KindTick}
	l.step(now, nil, out)
}

// step gives l.in to the core and carries out what it leaves. hold holds the
// bytes that deliveries alias.
func (l *fetchLoop) step(now model.Now, hold Frame, out *loop.Outbox) {
	if l.closed {
		return
	}
	l.in.BrokerEpoch = model.BrokerEpoch(l.m.registeredAt.Load())
	l.core.Step(now, &l.in, &l.out)
	for i := range l.out.Events {
		l.observe(&l.out.Events[i])
	}
	for i := range l.out.Deliveries {
		d := &l.out.Deliveries[i]
		out.AddRelay(newFetchedOp(l, l.hosted[d.ID], d, hold))
	}
	if l.out.Request != nil {
		l.send(out)
	}
	l.out.Reset()
	if l.core.Len() == 0 && l.asking == nil {
		l.disconnect(out)
	}
}

// send has the core's request sent after the release.
func (l *fetchLoop) send(out *loop.Outbox) {
	if l.out.Reconnect {
		l.disconnect(out)
	}
	if l.link == nil {
		l.link = l.m.deps.Leaders.Open(l.key.leader, l.key.index)
	}
	l.asking = &linkSend{l, l.link, l.out.Request}
	l.m.followed.requests.Add(1)
	out.Add(l.asking)
}

func (l *fetchLoop) disconnect(out *loop.Outbox) {
	if l.link != nil {
		out.Add(&linkClose{l.link})
		l.link = nil
	}
}

// observe logs and counts what the core tells.
func (l *fetchLoop) observe(e *fetcher.Event) {
	logger := l.m.logger.With(zap.Int32("leader", int32(l.key.leader)), zap.Int("fetcher", l.key.index))
	if h := l.hosted[e.ID]; h != nil {
		logger = logger.With(name(h), zap.Int32("epoch", int32(e.Position.LeaderEpoch)),
			zap.Int64("offset", int64(e.Position.Offset)))
	}
	switch e.Kind {
	case fetcher.EventFailing:
		l.m.followed.failures.Add(1)
		logger.Warn("fetching fails", zap.Int16("code", e.Code), zap.Error(e.Err))
	case fetcher.EventWorking:
		logger.Info("fetching works again")
	case fetcher.EventFenced:
		logger.Info("the leader says that the epoch is over")
	case fetcher.EventOutOfRange:
		l.m.followed.outOfRange.Add(1)
		logger.Warn("out of the leader's range")
	case fetcher.EventRefused:
		logger.Info("the leader refuses the partition", zap.Int16("code", e.Code))
	case fetcher.EventDamaged:
		logger.Error("the leader's records are damaged, over two connections; it is told", zap.Error(e.Err))
	}
}

// linkSend sends a request after the loop's release, and is told the answer.
type linkSend struct {
	l    *fetchLoop
	link LeaderLink
	req  kmsg.Request
}

// Deliver sends.
func (s *linkSend) Deliver(model.Now) { s.link.Send(s.req, s) }

// LinkAnswered enters the loop with the answer.
func (s *linkSend) LinkAnswered(a LinkAnswer) { s.l.box.Enter(&linkAnswered{s, a}) }

// linkClose closes a connection after the loop's release.
type linkClose struct{ link LeaderLink }

// Deliver closes.
func (c *linkClose) Deliver(model.Now) { c.link.Close() }

// linkAnswered brings the answer to a request, which may have been given up.
type linkAnswered struct {
	to *linkSend
	a  LinkAnswer
}

func (m *linkAnswered) fetch(l *fetchLoop, now model.Now, out *loop.Outbox) {
	if m.to == l.asking {
		l.asking = nil
		l.in = fetcher.Input{Kind: fetcher.KindAnswered, Answer: fetcher.Answer{Msg: m.a.Msg, Err: m.a.Err}}
		l.step(now, m.a.Hold, out)
	}
	if m.a.Hold != nil {
		m.a.Hold.Release()
	}
}

// followMsg has a partition fetched from now on.
type followMsg struct {
	h  *Hosted
	at partition.Follow
}

func (m *followMsg) fetch(l *fetchLoop, now model.Now, out *loop.Outbox) {
	l.hosted[m.h.id] = m.h
	l.in = fetcher.Input{Kind: fetcher.KindAdd, Add: fetcher.Add{ID: m.h.id, Topic: m.h.tp.Topic, Follow: m.at}}
	l.step(now, nil, out)
}

// unfollowMsg ends that, unless another Hosted has taken the partition's place.
type unfollowMsg struct{ h *Hosted }

func (m *unfollowMsg) fetch(l *fetchLoop, now model.Now, out *loop.Outbox) {
	if l.hosted[m.h.id] != m.h {
		return
	}
	delete(l.hosted, m.h.id)
	l.in = fetcher.Input{Kind: fetcher.KindRemove, ID: m.h.id}
	l.step(now, nil, out)
}

// abandonMsg tells that a partition is stuck in a write to its disk.
type abandonMsg struct{ h *Hosted }

func (m *abandonMsg) fetch(l *fetchLoop, now model.Now, out *loop.Outbox) {
	if l.hosted[m.h.id] != m.h {
		return
	}
	l.asking = nil
	l.in = fetcher.Input{Kind: fetcher.KindAbandon, ID: m.h.id}
	l.step(now, nil, out)
}

// stopMsg ends a loop for good.
type stopMsg struct{}

func (*stopMsg) fetch(l *fetchLoop, _ model.Now, out *loop.Outbox) {
	l.closed = true
	l.disconnect(out)
}
