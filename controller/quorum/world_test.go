package quorum

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fakeRuntime runs loops on the test's goroutine, in a fixed order.
type fakeRuntime struct {
	now       model.Now
	spares    []loop.Delivery
	tickers   []loop.Ticker
	deadlines []model.Instant
}

func newRuntime() *fakeRuntime {
	return &fakeRuntime{now: model.Now{Mono: 1e9, Wall: 1_700_000_000_000}}
}

func (r *fakeRuntime) Now() model.Now        { return r.now }
func (r *fakeRuntime) Spare(d loop.Delivery) { r.spares = append(r.spares, d) }
func (r *fakeRuntime) SetDeadline(t loop.Ticker, at model.Instant) {
	i := slices.Index(r.tickers, t)
	if i < 0 {
		r.tickers, r.deadlines = append(r.tickers, t), append(r.deadlines, at)
		return
	}
	r.deadlines[i] = at
}

// run does everything that is due now.
func (r *fakeRuntime) run() {
	for len(r.spares) > 0 {
		d := r.spares[0]
		r.spares = r.spares[1:]
		d.Deliver(r.now)
	}
}

// advance lets time pass, stopping at each deadline.
func (r *fakeRuntime) advance(d model.Instant) {
	for end := r.now.Mono + d; ; {
		r.run()
		next := slices.Min(append([]model.Instant{end}, r.deadlines...))
		if next = max(next, r.now.Mono); next > end {
			next = end
		}
		r.now.Wall += model.Timestamp((next - r.now.Mono) / 1e6)
		r.now.Mono = next
		fired := false
		for i, at := range r.deadlines {
			if at <= r.now.Mono {
				r.deadlines[i] = model.Never
				fired = true
				r.tickers[i].TickAt(r.now)
			}
		}
		r.run()
		if !fired && r.now.Mono == end {
			return
		}
	}
}

// outcome is what a Completion got.
type outcome struct {
	calls int
	resp  kmsg.Response
	at    model.OffsetAndEpoch
	err   error
}

func (o *outcome) Done(resp kmsg.Response, at model.OffsetAndEpoch, err error) {
	*o = outcome{o.calls + 1, resp, at, err}
}

// testNode is a node with what its tests need.
type testNode struct {
	*Node
	t        testing.TB
	rt       *fakeRuntime
	lives    int
	receipts []Receipt
	failures []error
	// images are all that were published, deltas what was told with them.
	images []*metadata.Image
	deltas []*metadata.Delta
}

// settings of a test node; the zero value is a fresh single voter.
type settings struct {
	fs       vfs.FS
	config   func(*Config)
	recovers []RecoveredTopic
}

func newTestNode(t testing.TB, s settings) *testNode {
	n := &testNode{t: t, rt: newRuntime()}
	ctl := controller.Defaults()
	ctl.Rules = controller.NewConfigRules(config.Defaults())
	ctl.Rand = rand.New(rand.NewPCG(5, 5))
	c := Config{
		FS: s.fs, Dir: "data", NodeID: 1, RT: n.rt, Controller: ctl, Rand: rand.New(rand.NewPCG(6, 6)),
		Features:  []metadata.Feature{{Name: "metadata.version", Level: 25}},
		Recovered: func(r Receipt) { n.receipts = append(n.receipts, r) },
		Failed:    func(err error) { n.failures = append(n.failures, err) },
	}
	if s.recovers != nil {
		c.Recover = func() []RecoveredTopic { return s.recovers }
	}
	if s.config != nil {
		s.config(&c)
	}
	n.Node = New(c)
	n.Subscribe(func(m *metadata.Image, d *metadata.Delta) {
		n.images, n.deltas = append(n.images, m), append(n.deltas, d)
	})
	return n
}

// startNode starts a node that must come up active.
func startNode(t testing.TB, s settings) *testNode {
	t.Helper()
	n := newTestNode(t, s)
	if err := n.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	if !n.Describe().Active {
		t.Fatalf("not active after Start: %+v", n.Describe())
	}
	return n
}

// submit posts a command; the outcome is filled by run.
func (n *testNode) submit(req kmsg.Request) *outcome {
	o := &outcome{}
	n.Submit(controller.Command{Request: req}, o)
	return o
}

func (n *testNode) do(req kmsg.Request) *outcome {
	n.t.Helper()
	o := n.submit(req)
	n.rt.run()
	if o.calls != 1 {
		n.t.Fatalf("%T was answered %d times", req, o.calls)
	}
	return o
}

// join registers broker 1 and unfences it.
func (n *testNode) join() {
	n.t.Helper()
	o := n.do(n.registerRequest())
	resp := o.resp.(*kmsg.BrokerRegistrationResponse)
	if o.err != nil || resp.ErrorCode != 0 || resp.BrokerEpoch != int64(o.at.Offset) {
		n.t.Fatalf("registration: %v %+v at %s", o.err, resp, o.at)
	}
	n.heartbeat()
	if !n.Image().Broker(1).Active() {
		n.t.Fatal("broker is not active")
	}
}

// registerRequest registers a new incarnation of broker 1.
func (n *testNode) registerRequest() *kmsg.BrokerRegistrationRequest {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.BrokerID, req.ClusterID, req.PreviousBrokerEpoch = 1, n.Image().ClusterID(), -1
	n.lives++
	req.IncarnationID[0], req.IncarnationID[1] = byte(n.lives), byte(n.Image().At().Offset)
	return req
}

func (n *testNode) heartbeat() *outcome { return n.do(n.heartbeatRequest()) }

func (n *testNode) heartbeatRequest() *kmsg.BrokerHeartbeatRequest {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID, req.BrokerEpoch, req.CurrentMetadataOffset = 1, int64(n.Image().Broker(1).Epoch), int64(n.Image().At().Offset)
	return req
}

func createRequest(name string, partitions int32) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	req.Topics = append(req.Topics, t)
	return req
}

// created returns the error of a create, nil if the topic was made.
func (o *outcome) created() error {
	if o.err != nil {
		return o.err
	}
	t := o.resp.(*kmsg.CreateTopicsResponse).Topics[0]
	if t.ErrorCode != 0 {
		return fmt.Errorf("code %d: %s", t.ErrorCode, *t.ErrorMessage)
	}
	return nil
}

// mustCreate creates a topic.
func (n *testNode) mustCreate(name string, partitions int32) {
	n.t.Helper()
	if err := n.do(createRequest(name, partitions)).created(); err != nil {
		n.t.Fatalf("create %s: %v", name, err)
	}
	if n.Image().Topic(name) == nil {
		n.t.Fatalf("%s was acknowledged before the image had it", name)
	}
}

// followed checks what was published: offsets rise, deltas fit together.
func (n *testNode) followed() {
	n.t.Helper()
	for i := 1; i < len(n.images); i++ {
		d := n.deltas[i]
		if n.images[i].At().Offset <= n.images[i-1].At().Offset || d.From != n.images[i-1].At() || d.To != n.images[i].At() {
			n.t.Fatalf("publication %d goes from %s to %s after %s", i, d.From, d.To, n.images[i-1].At())
		}
	}
	if last := n.images[len(n.images)-1]; last != n.Image() {
		n.t.Fatalf("published %s last, the image is at %s", last.At(), n.Image().At())
	}
}

func topicNames(m *metadata.Image) (names []string) {
	for t := range m.Topics() {
		names = append(names, t.Name)
	}
	return names
}

var errTest = errors.New("test")

// newDisk returns a disk with the directory that a node is given.
func newDisk() *memfs.FS {
	fs := memfs.New()
	if err := errors.Join(fs.MkdirAll("data", 0o755), fs.SyncDir(".")); err != nil {
		panic(err)
	}
	return fs
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// flip changes one byte, back bytes before the end of a file.
func flip(t testing.TB, fs vfs.FS, name string, back int64) {
	t.Helper()
	b, err := vfs.ReadFile(fs, name)
	must(t, err)
	b[int64(len(b))-back] ^= 0x20
	must(t, vfs.WriteFileAtomic(fs, name, b))
}
