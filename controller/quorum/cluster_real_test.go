package quorum

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/loop/realtime"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// realBus carries bodies between nodes of one process, on real goroutines.
type realBus struct {
	mu    sync.Mutex
	nodes map[model.BrokerID]*Node
	rt    *realtime.Runtime
}

func (b *realBus) at(id model.BrokerID) *Node {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.nodes[id]
}

func (b *realBus) set(id model.BrokerID, n *Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes[id] = n
}

func (b *realBus) Send(to metadata.Voter, body []byte) {
	b.rt.Spare(delivered(func() {
		if n := b.at(to.Node); n != nil {
			n.AnswerPrivate(KeyRaft, body, func([]byte) {})
		}
	}))
}

func (b *realBus) ask(to metadata.Voter, key int16, body []byte, done func([]byte, error)) {
	b.rt.Spare(delivered(func() {
		n := b.at(to.Node)
		if n == nil {
			done(nil, errNet)
			return
		}
		n.AnswerPrivate(key, body, func(body []byte) { done(body, nil) })
	}))
}

// TestRealTimeCluster runs three voters and an observer on goroutines, the
// clock and the disk of this machine: they bootstrap, commit, and replace a
// leader that stops.
func TestRealTimeCluster(t *testing.T) {
	var group lifecycle.Group
	rt := realtime.New(&group)
	bus := &realBus{nodes: map[model.BrokerID]*Node{}, rt: rt}
	var voters []metadata.Voter
	for id := model.BrokerID(1); id <= 3; id++ {
		voters = append(voters, voterAt(id))
	}
	started := make(chan error, 4)
	settings := func(id model.BrokerID) Config {
		ctl := controller.Defaults()
		ctl.Rules, ctl.Rand = controller.NewConfigRules(config.Defaults()), rand.New(rand.NewPCG(uint64(id), 5))
		return Config{
			FS: osfs.New(), Dir: t.TempDir(), NodeID: id, RT: rt, Controller: ctl, Rand: rand.New(rand.NewPCG(uint64(id), 6)),
			Voters: voters, Peers: bus, Ask: bus.ask, Started: func(err error) { started <- err },
		}
	}
	seen := make(chan model.Offset, 10_000)
	o := NewObserver(settings(10))
	o.Subscribe(func(m *metadata.Image, _ *metadata.Delta) { seen <- m.At().Offset })
	var nodes []*Node
	for id := model.BrokerID(1); id <= 3; id++ {
		n := New(settings(id))
		nodes = append(nodes, n)
		bus.set(id, n)
	}
	for _, n := range nodes {
		must(t, n.Start())
	}
	must(t, o.Start())
	for range 4 {
		must(t, <-started)
	}
	gone := map[*Node]bool{}
	commit := func(i int) model.Offset {
		for begun := time.Now(); time.Since(begun) < 20*time.Second; {
			for _, n := range nodes {
				if gone[n] {
					continue
				}
				result := make(chan model.Offset, 1)
				req := kmsg.NewPtrBrokerRegistrationRequest()
				req.BrokerID, req.ClusterID, req.PreviousBrokerEpoch = int32(100+i), n.Image().ClusterID(), -1
				req.IncarnationID[0] = byte(i + 1)
				n.Submit(controller.Command{Request: req}, completed(func(_ kmsg.Response, at model.OffsetAndEpoch, err error) {
					if err != nil {
						at.Offset = model.NoOffset
					}
					result <- at.Offset
				}))
				if at := <-result; at != model.NoOffset {
					return at
				}
			}
		}
		t.Fatal("no active controller")
		return 0
	}
	last := model.Offset(0)
	for i := range 40 {
		last = commit(i)
		if i != 20 {
			continue
		}
		for k, n := range nodes {
			if n.Describe().Active {
				resigned := make(chan struct{})
				n.Resign(func() { close(resigned) })
				<-resigned
				bus.set(model.BrokerID(k+1), nil)
				n.Stop(true)
				gone[n] = true
				break
			}
		}
		for k, n := range nodes {
			if !gone[n] {
				n.PeerLost(model.BrokerID(k+1)%3+1, false)
			}
		}
	}
	for at := range seen {
		if at >= last {
			break
		}
	}
	yes := make(chan bool, 3)
	for _, n := range nodes {
		n.Confirm(func(ok bool) { yes <- ok })
	}
	confirmed := 0
	for range nodes {
		if <-yes {
			confirmed++
		}
	}
	if confirmed != 1 || len(gone) != 1 || o.Image().Broker(139) == nil {
		t.Errorf("%d confirm that they are active, %d are gone, image at %s", confirmed, len(gone), o.Image().At())
	}
	o.Stop(true)
	for _, n := range nodes {
		n.Stop(true)
	}
	rt.Stop()
	group.Wait()
	t.Log(fmt.Sprint("observer at ", o.Image().At()))
}
