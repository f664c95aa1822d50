package integration

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// gate is a client's way to the network: it can be cut for good, as by kill -9,
// or stand still, as by SIGSTOP.
type gate struct {
	mu     sync.Mutex
	dead   bool
	frozen chan struct{} // closed when it moves again; nil while it moves
	conns  []net.Conn
}

var errCut = errors.New("the client is cut off")

func (g *gate) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	g.await()
	conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead {
		conn.Close()
		return nil, errCut
	}
	g.conns = append(g.conns, conn)
	return &gatedConn{conn, g}, nil
}

// await returns when the client may move.
func (g *gate) await() {
	g.mu.Lock()
	frozen := g.frozen
	g.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

// freeze stops all for a while.
func (g *gate) freeze(d time.Duration) {
	g.mu.Lock()
	frozen := make(chan struct{})
	g.frozen = frozen
	g.mu.Unlock()
	pause(d)
	g.mu.Lock()
	g.frozen = nil
	g.mu.Unlock()
	close(frozen)
}

// cut ends all connections and refuses others.
func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dead = true
	for _, c := range g.conns {
		c.Close()
	}
}

type gatedConn struct {
	net.Conn
	g *gate
}

// Read reads, and hands nothing over while the client stands still.
func (c *gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.g.await()
	return n, err
}

// Write waits while the client stands still.
func (c *gatedConn) Write(b []byte) (int, error) {
	c.g.await()
	return c.Conn.Write(b)
}

// groupMember is one member of a group for as long as it lives.
type groupMember struct {
	h      *groupHistory
	group  string
	name   string
	cl     *kgo.Client
	gate   gate
	ctx    context.Context
	cancel context.CancelFunc

	mu  sync.Mutex
	has map[tp]*spell
	// id is what the group called the member when it last told it what it has.
	id string
}

// joinGroup starts a member; opts say which protocol it uses.
func (c *cluster) joinGroup(h *groupHistory, group, name, topic string, opts ...kgo.Opt) *groupMember {
	m := &groupMember{h: h, group: group, name: name, has: map[tp]*spell{}}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.cl = c.client(append([]kgo.Opt{
		kgo.WithContext(m.ctx), kgo.Dialer(m.gate.dial), kgo.ClientID(name),
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.SessionTimeout(3 * time.Second), kgo.HeartbeatInterval(300 * time.Millisecond),
		kgo.RebalanceTimeout(10 * time.Second), kgo.FetchMaxWait(200 * time.Millisecond), kgo.RequestTimeoutOverhead(3 * time.Second),
		kgo.OnPartitionsAssigned(func(_ context.Context, cl *kgo.Client, given map[string][]int32) { m.assigned(cl, given) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, taken map[string][]int32) { m.taken(taken) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, taken map[string][]int32) { m.taken(taken) }),
		kgo.AdjustFetchOffsetsFn(m.found),
	}, opts...)...)
	return m
}

// assigned begins spells. The client calls it at the end of each rebalance, also if
// nothing is given.
func (m *groupMember) assigned(cl *kgo.Client, given map[string][]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id, _ = cl.GroupMetadata()
	for topic, parts := range given {
		for _, n := range parts {
			p := tp{topic, n}
			m.has[p] = m.h.assigned(m.group, m.name, p)
		}
	}
}

// taken ends spells: what was delivered in them is not committed any more.
func (m *groupMember) taken(parts map[string][]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for topic, ns := range parts {
		for _, n := range ns {
			delete(m.has, tp{topic, n})
		}
	}
}

func (m *groupMember) found(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	for topic, parts := range offsets {
		for n, o := range parts {
			if s := m.spell(tp{topic, n}); s != nil {
				m.h.found(s, o.EpochOffset().Offset)
			}
		}
	}
	return offsets, nil
}

func (m *groupMember) spell(p tp) *spell {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.has[p]
}

// run delivers and commits until the member is cut off or done is closed. Now and
// then it does not commit what it was delivered, which the next round does.
func (m *groupMember) run(done <-chan struct{}, rng *rand.Rand) {
	next := map[*spell]int64{}
	for m.ctx.Err() == nil {
		short, stop := context.WithTimeout(m.ctx, 300*time.Millisecond)
		fetches := m.cl.PollRecords(short, 1+rng.IntN(200))
		stop()
		m.gate.await()
		fetches.EachRecord(func(r *kgo.Record) { m.deliver(r, next) })
		last := false
		select {
		case <-done:
			last = true
		default:
		}
		if len(next) > 0 && (last || rng.IntN(4) > 0) {
			if m.commit(next) {
				clear(next)
			}
		}
		m.cl.AllowRebalance()
		if last {
			return
		}
	}
}

func (m *groupMember) deliver(r *kgo.Record, next map[*spell]int64) {
	p := tp{r.Topic, r.Partition}
	s := m.spell(p)
	if s == nil { // the client delivers what it was never given
		s = m.h.assigned(m.group, m.name, p)
	}
	x := poll{p: p, offset: r.Offset}
	var err error
	if x.s, err = stampOf(r.Value); err != nil {
		x.broken = err.Error()
	}
	m.h.delivered(s, x)
	next[s] = r.Offset + 1
}

// commit commits what was delivered of the spells that still last. It reports whether
// it did: not while the member does not know what it has.
func (m *groupMember) commit(next map[*spell]int64) bool {
	// The client sends it as the member that it is by then: a commit that waits for a
	// join would be one of the next generation, in which the partition may be
	// another's, and no broker could tell. So it is for one that the group had removed,
	// which joins anew under another id, and goes on with what it had until it is told
	// what it has now.
	id, generation := m.cl.GroupMetadata()
	m.mu.Lock()
	told := m.id == id
	m.mu.Unlock()
	if !told {
		return false
	}
	offsets := map[string]map[int32]kgo.EpochOffset{}
	under := map[tp]*promise{}
	for s, o := range next {
		if m.spell(s.p) != s {
			continue // the partition was taken from it meanwhile
		}
		if offsets[s.p.topic] == nil {
			offsets[s.p.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[s.p.topic][s.p.n] = kgo.EpochOffset{Epoch: -1, Offset: o}
		under[s.p] = m.h.committing(s, o)
	}
	if len(under) == 0 {
		return true
	}
	ctx := kgo.PreCommitFnContext(m.ctx, func(req *kmsg.OffsetCommitRequest) error {
		if req.MemberID != id || req.Generation != generation {
			return errOutlived
		}
		return nil
	})
	m.cl.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			return
		}
		for _, t := range resp.Topics {
			for _, x := range t.Partitions {
				if c := under[tp{t.Topic, x.Partition}]; c != nil && x.ErrorCode == 0 {
					m.h.committed(c)
				}
			}
		}
	})
	return true
}

// errOutlived: the member is another by now than the one that was given the records.
var errOutlived = errors.New("the generation is over")

// crash is kill -9: the broker hears nothing more of the member.
func (m *groupMember) crash() {
	m.gate.cut()
	m.cancel()
}

// close lets go of the client; of a member that did not crash it is a goodbye.
func (m *groupMember) close() {
	m.cl.CloseAllowingRebalance()
	m.cancel()
}

// fate is how a member ends.
type fate int

const (
	leaves fate = iota
	crashes
	stands // still for a while, then leaves
)

// life is a member from its start to its end.
func (m *groupMember) life(how fate, span, still time.Duration, rng *rand.Rand) {
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { m.run(done, rng) })
	pause(span)
	switch how {
	case crashes:
		m.crash()
	case stands:
		m.gate.freeze(still)
		pause(span / 2)
	}
	close(done)
	running.Wait()
	m.close()
}
