package quorum

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/loop/simtime"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

const ms = model.Instant(1_000_000)

// cluster is several nodes in one simulated world: one heap, one goroutine, a
// bus between them that delays, loses, reorders and cuts.
type cluster struct {
	t   testing.TB
	sim *simtime.Sim
	rng *rand.Rand
	all []*simNode
	// static lists the voters that every controller is configured with; join is
	// given to the others.
	static, join []metadata.Voter

	delayMax model.Instant
	lossPct  int
	cut      map[[2]model.BrokerID]bool // from, to
	// deaf: nobody is told of refused connections.
	deaf bool

	leaders map[uint64]model.BrokerID // by term
	hashes  map[model.OffsetAndEpoch]metadata.Hash
	offsets map[model.Offset]model.OffsetAndEpoch
	acked   map[model.BrokerID]model.Offset
	highest model.Offset // of all that was acknowledged
	nextID  model.BrokerID
	first   error // the first broken invariant
	trace   []string
	events  uint64
	elected int
	calm    bool                          // no more faults
	gone    map[metadata.DirectoryID]bool // identities that may never lead again
}

// simNode is a node over all its lives.
type simNode struct {
	c        *cluster
	id       model.BrokerID
	observer bool // a broker that is no controller
	adjust   func(*Config)
	disk     *memfs.FS
	used     bool                 // the log directories say that they are in use
	dirID    metadata.DirectoryID // what meta.properties says once it is written

	up      bool
	life    int
	pause   *pauser
	rt      *simtime.Runtime
	node    *Node
	obs     *Observer
	started bool
	failed  error
	begun   model.Offset // the highest that was acknowledged when this life began
	seen    model.Offset // the highest that was ever published from this disk
	shown   model.Offset // in this life
	probes  []model.BrokerID
	inject  *faultfs.Toggle
}

// delivered runs a function of the world.
type delivered func()

func (d delivered) Deliver(model.Now) { d() }

// pauser is the runtime of one life; while it is paused nothing runs, and
// everything that should have does when it goes on.
type pauser struct {
	*simtime.Runtime
	paused bool
	held   []loop.Delivery
}

func (p *pauser) Spare(d loop.Delivery) { p.Runtime.Spare(&gated{p, d}) }
func (p *pauser) SetDeadline(t loop.Ticker, at model.Instant) {
	p.Runtime.SetDeadline(gatedTicker{p, t}, at)
}

type gated struct {
	p *pauser
	d loop.Delivery
}

func (g *gated) Deliver(now model.Now) {
	if g.p.paused {
		g.p.held = append(g.p.held, g.d)
		return
	}
	g.d.Deliver(now)
}

type gatedTicker struct {
	p *pauser
	t loop.Ticker
}

func (g gatedTicker) TickAt(now model.Now) {
	if g.p.paused {
		g.p.held = append(g.p.held, tickLater{g.t})
		return
	}
	g.t.TickAt(now)
}

type tickLater struct{ t loop.Ticker }

func (l tickLater) Deliver(now model.Now) { l.t.TickAt(now) }

func newCluster(t testing.TB, seed uint64, voters int) *cluster {
	c := &cluster{
		t: t, sim: simtime.New(seed), rng: rand.New(rand.NewPCG(seed, 77)), delayMax: 2 * ms,
		cut: map[[2]model.BrokerID]bool{}, leaders: map[uint64]model.BrokerID{},
		hashes: map[model.OffsetAndEpoch]metadata.Hash{}, offsets: map[model.Offset]model.OffsetAndEpoch{},
		acked: map[model.BrokerID]model.Offset{}, nextID: 1000, gone: map[metadata.DirectoryID]bool{},
	}
	for i := 1; i <= voters; i++ {
		c.static = append(c.static, voterAt(model.BrokerID(i)))
	}
	for i := 1; i <= voters; i++ {
		c.add(model.BrokerID(i))
	}
	return c
}

func voterAt(id model.BrokerID) metadata.Voter {
	return metadata.Voter{Node: id, Listeners: []metadata.Listener{{Name: "CONTROLLER", Host: fmt.Sprintf("h%d", id), Port: 9093}}}
}

// add makes a node that is down.
func (c *cluster) add(id model.BrokerID) *simNode {
	n := &simNode{c: c, id: id, disk: newDisk(), seen: model.NoOffset}
	c.all = append(c.all, n)
	return n
}

func (c *cluster) addObserver(id model.BrokerID) *simNode {
	n := c.add(id)
	n.observer = true
	return n
}

func (c *cluster) at(id model.BrokerID) *simNode {
	for _, n := range c.all {
		if n.id == id {
			return n
		}
	}
	return nil
}

func (c *cluster) after(d model.Instant, do func()) { c.sim.At(c.sim.Now()+d, delivered(do)) }

func (c *cluster) delay() model.Instant { return ms/5 + model.Instant(c.rng.Int64N(int64(c.delayMax))) }

func (c *cluster) lost(from, to model.BrokerID) bool {
	return c.cut[[2]model.BrokerID{from, to}] || c.rng.IntN(100) < c.lossPct
}

func (c *cluster) note(format string, args ...any) {
	c.trace = append(c.trace, fmt.Sprintf("%7.3f ", float64(c.sim.Now())/1e9)+fmt.Sprintf(format, args...))
}

// broken notes the first broken invariant.
func (c *cluster) broken(format string, args ...any) {
	if c.first == nil {
		c.first = fmt.Errorf(format, args...)
		c.note("BROKEN %v", c.first)
	}
}

// bus is the network as one life of a node sees it.
type bus struct {
	n    *simNode
	life int
}

func (b *bus) alive() bool { return b.n.up && b.n.life == b.life }

func (b *bus) Send(to metadata.Voter, body []byte) {
	c := b.n.c
	if c.lost(b.n.id, to.Node) {
		return
	}
	c.after(c.delay(), func() {
		if t := c.at(to.Node); t != nil && t.up && t.node != nil {
			t.node.AnswerPrivate(KeyRaft, body, func([]byte) {})
		}
	})
}

var errNet = errors.New("no answer")

func (b *bus) Ask(to metadata.Voter, key int16, body []byte, done func([]byte, error)) {
	c, id := b.n.c, to.Node
	if id == model.NoLeader { // an address only
		for _, n := range c.all {
			if len(to.Listeners) > 0 && to.Listeners[0].Host == fmt.Sprintf("h%d", n.id) {
				id = n.id
			}
		}
	}
	answered := false
	answer := func(d model.Instant, body []byte, err error) {
		c.after(d, func() {
			if !answered && b.alive() {
				answered = true
				done(body, err)
			}
		})
	}
	if c.lost(b.n.id, id) {
		answer(1000*ms, nil, errNet)
		return
	}
	c.after(c.delay(), func() {
		t := c.at(id)
		if t == nil || !t.up || t.node == nil {
			answer(c.delay(), nil, errNet)
			return
		}
		answer(2000*ms, nil, errNet)
		t.node.AnswerPrivate(key, body, func(body []byte) {
			if !c.lost(id, b.n.id) {
				answer(c.delay(), body, nil)
			}
		})
	})
}

// start begins a life.
func (n *simNode) start() {
	c := n.c
	n.life++
	n.up, n.started, n.failed, n.shown, n.begun = true, false, nil, model.NoOffset, c.highest
	life := n.life
	rng := rand.New(rand.NewPCG(c.rng.Uint64(), 1))
	n.rt = c.sim.Runtime(simtime.Clocks{Wall: 1_700_000_000_000, DriftPPM: c.rng.Int64N(200) - 100, Started: model.Instant(c.rng.Int64N(1e12))}, ms/10)
	n.pause = &pauser{Runtime: n.rt}
	b := &bus{n, life}
	ctl := controller.Defaults()
	ctl.Rules, ctl.Rand = controller.NewConfigRules(config.Defaults()), rng
	var fs vfs.FS = n.disk
	if n.inject != nil {
		fs = faultfs.Wrap(n.disk, n.inject)
	}
	o := Config{
		FS: fs, Dir: "data", NodeID: n.id, Used: n.used, DirectoryID: n.dirID, RT: n.pause, Controller: ctl, Rand: rng, Peers: b, Ask: b.Ask, Logger: zap.NewNop(),
		Features:  []metadata.Feature{{Name: "metadata.version", Level: 25}},
		Listeners: voterAt(n.id).Listeners, Voters: c.static, Join: c.join,
		Started: func(err error) { n.onStarted(life, err) },
		Failed:  func(err error) { n.failed = err; c.note("%d failed: %v", n.id, err) },
		Probe:   func(b model.BrokerID) { n.probes = append(n.probes, b) },
	}
	if n.adjust != nil {
		n.adjust(&o)
	}
	if !n.used {
		// As a broker does: its directory has a new id until meta.properties is written.
		o.DirectoryID = newUUID(rng)
		n.dirID = o.DirectoryID
	}
	c.note("%d starts life %d used=%v", n.id, life, n.used)
	var err error
	n.node, n.obs = nil, nil
	if n.observer {
		n.obs = NewObserver(o)
		n.obs.Subscribe(n.published)
		err = n.obs.Start()
	} else {
		n.node = New(o)
		n.node.Subscribe(n.published)
		err = n.node.Start()
	}
	if err != nil {
		n.failed = err
		c.note("%d does not start: %v", n.id, err)
	}
}

func (n *simNode) onStarted(life int, err error) {
	if !n.up || life != n.life {
		return
	}
	n.c.note("%d started: %v at %s", n.id, err, n.image().At())
	if n.started {
		n.c.broken("node %d was told twice that it started", n.id)
	}
	n.started = err == nil
	n.failed = err
	if err == nil {
		n.used = true
		if at := n.image().At().Offset; at < n.begun {
			n.c.broken("node %d started with an image at %d, acknowledged before was %d", n.id, at, n.begun)
		} else if at < n.seen {
			n.c.broken("node %d started with an image at %d, an earlier life showed %d", n.id, at, n.seen)
		}
	}
}

func (n *simNode) image() *metadata.Image {
	if n.obs != nil {
		return n.obs.Image()
	}
	return n.node.Image()
}

// published checks each image against all others.
func (n *simNode) published(m *metadata.Image, d *metadata.Delta) {
	c, at := n.c, m.At()
	if at.Offset <= n.shown {
		c.broken("node %d shows offset %d after %d", n.id, at.Offset, n.shown)
	}
	if n.observer && at.Offset < n.seen {
		c.broken("observer %d shows offset %d, an earlier life showed %d", n.id, at.Offset, n.seen)
	}
	n.shown = at.Offset
	n.seen = max(n.seen, at.Offset)
	if h, known := c.hashes[at]; known && h != m.Hash() {
		c.broken("node %d has another image at %s", n.id, at)
	}
	if other, known := c.offsets[at.Offset]; known && other != at {
		c.broken("node %d has %s committed, another node %s", n.id, at, other)
	}
	c.hashes[at], c.offsets[at.Offset] = m.Hash(), at
	if d.To != at {
		c.broken("node %d: delta to %s with the image at %s", n.id, d.To, at)
	}
}

// look checks what must hold after every event.
func (c *cluster) look() {
	for _, n := range c.all {
		if n.up && n.shown != model.NoOffset && n.image().At().Offset != n.shown {
			c.broken("node %d has an image at %s that it did not publish after %d", n.id, n.image().At(), n.shown)
		}
		if !n.up || n.node == nil || n.node.raft == nil || !n.node.leading {
			continue
		}
		term := n.node.term
		if n.node.ctl.Active() && uint64(n.image().At().Epoch) != term {
			c.broken("node %d is active in term %d with an image at %s", n.id, term, n.image().At())
		}
		if c.gone[n.node.id] {
			c.broken("node %d leads under the name %s, whose memory is gone", n.id, n.node.id)
		}
		if id, known := c.leaders[term]; known && id != n.id {
			c.broken("nodes %d and %d both lead term %d", id, n.id, term)
		} else if !known {
			c.leaders[term] = n.id
			c.elected++
			c.note("%d leads term %d", n.id, term)
		}
	}
}

// run lets time pass.
func (c *cluster) run(d model.Instant) {
	for end := c.sim.Now() + d; c.sim.Next() <= end && c.first == nil; {
		c.sim.Step()
		c.events++
		c.look()
	}
	if c.first == nil {
		c.sim.RunUntil(c.sim.Now()) // nothing is due; the clock is moved by the next
	}
}

// until lets time pass until cond holds, at most d.
func (c *cluster) until(d model.Instant, cond func() bool) bool {
	for end := c.sim.Now() + d; !cond(); {
		if c.first != nil || c.sim.Next() > end {
			return false
		}
		c.sim.Step()
		c.events++
		c.look()
	}
	return true
}

// crash ends a life: by the loss of power, or by a kill.
func (n *simNode) crash(power bool) {
	if !n.up {
		return
	}
	c := n.c
	c.note("%d crashes power=%v", n.id, power)
	n.up = false
	n.rt.Stop()
	rng := rand.New(rand.NewPCG(c.rng.Uint64(), 2))
	if power {
		n.disk = n.disk.CrashClone(memfs.Crash{UnsyncedPct: rng.IntN(101), Torn: rng.IntN(2) == 0, Rand: rng})
	} else {
		n.disk = n.disk.KillClone(memfs.Kill{Cut: memfs.CutAnywhere(rng)})
	}
	n.node, n.obs = nil, nil
	c.refused(n.id)
}

// stop ends a life in good order.
func (n *simNode) stop() {
	if !n.up {
		return
	}
	n.c.note("%d stops", n.id)
	if n.obs != nil {
		n.obs.Stop(true)
	} else {
		n.node.Stop(true)
	}
	n.up = false
	n.rt.Stop()
	n.disk = n.disk.KillClone(memfs.Kill{})
	n.node, n.obs = nil, nil
	n.c.refused(n.id)
}

// refused tells the others that nobody listens there any more.
func (c *cluster) refused(id model.BrokerID) {
	for _, n := range c.all {
		if c.deaf || !n.up || n.node == nil || c.cut[[2]model.BrokerID{n.id, id}] || c.cut[[2]model.BrokerID{id, n.id}] {
			continue
		}
		life := n.life
		c.after(c.delay(), func() {
			if n.up && n.life == life && !c.at(id).up {
				n.node.PeerLost(id, true)
			}
		})
	}
}

// leader is the active controller of the highest term, or nil.
func (c *cluster) leader() (best *simNode) {
	for _, n := range c.all {
		if n.up && n.node != nil && n.node.Describe().Active && (best == nil || n.node.term > best.node.term) {
			best = n
		}
	}
	return best
}

// register submits the registration of a broker that nobody else registers, to
// one node. It is acknowledged into c.acked.
func (c *cluster) register(n *simNode) *outcome {
	c.nextID++
	id, o := c.nextID, &outcome{}
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.BrokerID, req.PreviousBrokerEpoch = int32(id), -1
	req.IncarnationID[0], req.IncarnationID[1] = byte(id), byte(id>>8)
	req.ClusterID = n.image().ClusterID()
	n.node.Submit(controller.Command{Request: req}, completed(func(resp kmsg.Response, at model.OffsetAndEpoch, err error) {
		o.Done(resp, at, err)
		if err == nil && resp.(*kmsg.BrokerRegistrationResponse).ErrorCode == 0 {
			c.acked[id], c.highest = at.Offset, max(c.highest, at.Offset)
			if known, ok := c.offsets[at.Offset]; ok && known != at {
				c.broken("broker %d was acknowledged at %s, another node has %s", id, at, known)
			}
		}
	}))
	return o
}

// confirm asks a node whether it is the active controller. A yes means that it
// has seen everything that was acknowledged before the question.
func (c *cluster) confirm(n *simNode, yes func()) {
	life, floor := n.life, c.highest
	n.node.Confirm(func(ok bool) {
		if !ok || !n.up || n.life != life {
			return
		}
		yes()
		if at := n.image().At().Offset; at < floor {
			c.broken("node %d confirms itself at %d, acknowledged before was %d", n.id, at, floor)
		}
	})
}

type completed func(resp kmsg.Response, at model.OffsetAndEpoch, err error)

func (c completed) Done(resp kmsg.Response, at model.OffsetAndEpoch, err error) { c(resp, at, err) }

// holds checks that an image has everything that was acknowledged up to it.
func (c *cluster) holds(n *simNode) {
	m := n.image()
	for id, at := range c.acked {
		if b := m.Broker(id); at <= m.At().Offset && (b == nil || model.Offset(b.Epoch) != at) {
			c.broken("node %d at %s lacks broker %d, acknowledged at %d", n.id, m.At(), id, at)
		}
	}
}

// settle heals everything and waits until all nodes agree and work.
func (c *cluster) settle() {
	c.lossPct, c.deaf, c.calm = 0, false, true
	clear(c.cut)
	for _, n := range c.all {
		n.disk.SetCapacity(0)
		if n.inject != nil {
			n.inject.Off()
			n.inject = nil
		}
		if n.up && n.failed != nil {
			n.crash(false)
		}
		if !n.up {
			n.start()
		}
		n.resume()
	}
	if !c.until(30_000*ms, func() bool { return c.leader() != nil }) {
		c.broken("no leader within 30 s of calm")
		return
	}
	o := c.register(c.leader())
	c.until(60_000*ms, func() bool { return o.calls > 0 })
	for try := 0; o.err != nil && try < 10; try++ {
		c.run(500 * ms)
		if l := c.leader(); l != nil {
			o = c.register(l)
			c.until(60_000*ms, func() bool { return o.calls > 0 })
		}
	}
	if o.calls != 1 || o.err != nil {
		c.broken("no command goes through in calm: %d calls, %v", o.calls, o.err)
		return
	}
	equal := func() bool {
		for _, n := range c.all {
			if n.image().At().Offset < o.at.Offset || !n.started {
				return false
			}
		}
		return true
	}
	if !c.until(30_000*ms, equal) {
		for _, n := range c.all {
			c.note("%d at %s started=%v failed=%v", n.id, n.image().At(), n.started, n.failed)
			if n.node != nil {
				c.note("%d is in phase %d, term %d, follows %+v", n.id, n.node.phase, n.node.term, n.node.Describe())
			}
		}
		c.broken("not all nodes reach %s within 30 s of calm", o.at)
		return
	}
	for _, n := range c.all {
		c.holds(n)
		if n.node == nil || n.node.phase != phaseMember {
			continue
		}
		if got, want := n.node.conf.GetVoters(), raftIDs(n.image().Voters()); !sameSet(got, want) {
			c.broken("node %d: voters %x, the image has %x", n.id, got, want)
		}
	}
}

func sameSet(a, b []uint64) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

func (n *simNode) stall() {
	if n.up {
		n.c.note("%d pauses", n.id)
		n.pause.paused = true
	}
}

func (n *simNode) resume() {
	if !n.up || !n.pause.paused {
		return
	}
	n.c.note("%d goes on", n.id)
	n.pause.paused = false
	held := n.pause.held
	n.pause.held = nil
	for _, d := range held {
		n.rt.Spare(d)
	}
}

// check fails the test with the trace if an invariant was broken.
func (c *cluster) check() {
	c.t.Helper()
	if c.first == nil {
		return
	}
	if os.Getenv("TRACE") != "" || len(c.trace) < 200 {
		for _, l := range c.trace {
			c.t.Log(l)
		}
	} else {
		for _, l := range c.trace[len(c.trace)-100:] {
			c.t.Log(l)
		}
	}
	c.t.Fatal(c.first)
}

// startAll starts every node and waits for a leader.
func (c *cluster) startAll() {
	for _, n := range c.all {
		n.start()
	}
	if !c.until(10_000*ms, func() bool {
		return c.leader() != nil && !slices.ContainsFunc(c.all, func(n *simNode) bool { return !n.started })
	}) {
		c.broken("did not start")
	}
}

func millis(d model.Instant) time.Duration { return time.Duration(d) }

// failingSync lets every fsync of a log segment fail while it is on.
func failingSync() *faultfs.Toggle {
	return faultfs.NewToggle(faultfs.When(faultfs.And(faultfs.OpIn(faultfs.OpSync, faultfs.OpSyncData), faultfs.PathMatch("*.log")), faultfs.FsyncFails()))
}

// raftHeartbeat is a message to n as a leader of a far term would send it.
func (n *Node) raftHeartbeat(from *Node) *raftpb.Message {
	return &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(from.raftID()), To: new(n.raftID()), Term: new(uint64(99))}
}
