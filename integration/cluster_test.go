package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/compat/proc"
)

// cluster is several nodes that form one cluster, each a process on the
// loopback with a directory of its own. Node ids begin at 1.
type cluster struct {
	t       *testing.T
	members []*member
	net     *proxyNet // nil: nodes talk to each other directly
	asker   *kgo.Client
}

// member is one node. Ports stay the same over its lives.
type member struct {
	*node
	c     *cluster
	id    int
	roles string

	outer, inner, control string // where it listens: clients, brokers, controllers
	innerVia, controlVia  string // where the other nodes find it
}

// clusterSpec says what a cluster is made of.
type clusterSpec struct {
	roles   []string         // of each node; empty is three that are both
	proxied bool             // the links between nodes go through a proxy
	dirs    int              // log directories of each node; 0 is two
	set     []string         // "key=value" for all
	own     map[int][]string // the same for one node, by its id
	clients bool             // clients go through the proxy too
	base    string           // parent of the nodes' directories; else each has one of the test's
}

const (
	both           = "broker,controller"
	brokerOnly     = "broker"
	controllerOnly = "controller"
)

// newCluster prepares a cluster; nothing runs yet.
func newCluster(t *testing.T, spec clusterSpec) *cluster {
	t.Helper()
	c := &cluster{t: t}
	if spec.roles == nil {
		spec.roles = []string{both, both, both}
	}
	if spec.dirs == 0 {
		spec.dirs = 2
	}
	const each = 6
	port, err := proc.FreePorts(each * len(spec.roles))
	if err != nil {
		t.Fatal(err)
	}
	at := func(i, n int) string { return fmt.Sprintf("127.0.0.1:%d", port+each*i+n) }
	if spec.proxied {
		c.net = newProxyNet(t)
	}
	var voters []string
	for i, roles := range spec.roles {
		m := &member{c: c, id: i + 1, roles: roles, outer: at(i, 0), inner: at(i, 1), control: at(i, 2)}
		m.innerVia, m.controlVia = m.inner, m.control
		clientVia := m.outer
		if spec.proxied {
			m.innerVia, m.controlVia = at(i, 3), at(i, 4)
			c.net.before(m.id, m.innerVia, m.inner)
			c.net.before(m.id, m.controlVia, m.control)
			if spec.clients {
				clientVia = at(i, 5)
				c.net.before(m.id, clientVia, m.outer)
			}
		}
		if m.controller() {
			voters = append(voters, fmt.Sprintf("%d@%s", m.id, m.controlVia))
		}
		base := filepath.Join(t.TempDir(), "data")
		if spec.base != "" {
			base = filepath.Join(spec.base, fmt.Sprint(m.id))
		}
		m.node = &node{t: t, addr: clientVia, dir: base, num: int32(m.id)}
		m.args = m.arguments(spec, base, clientVia)
		c.members = append(c.members, m)
	}
	for _, m := range c.members {
		m.args = append(m.args, "--set", "controller.quorum.voters="+strings.Join(voters, ","))
	}
	t.Cleanup(c.end)
	return c
}

func (m *member) broker() bool     { return strings.Contains(m.roles, "broker") }
func (m *member) controller() bool { return strings.Contains(m.roles, "controller") }

// arguments are the node's settings, but for the voters.
func (m *member) arguments(spec clusterSpec, base, clientVia string) []string {
	var listeners, advertised []string
	if m.broker() {
		listeners = []string{"PLAINTEXT://" + m.outer, "INTERNAL://" + m.inner}
		advertised = []string{"PLAINTEXT://" + clientVia, "INTERNAL://" + m.innerVia}
	}
	if m.controller() {
		listeners = append(listeners, "CONTROLLER://"+m.control)
	}
	var dirs []string
	for i := range spec.dirs {
		dirs = append(dirs, filepath.Join(base, fmt.Sprintf("d%d", i)))
	}
	set := []string{
		"process.roles=" + m.roles, fmt.Sprintf("node.id=%d", m.id),
		"listeners=" + strings.Join(listeners, ","),
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"log.dirs=" + strings.Join(dirs, ","),
		"default.replication.factor=3", "min.insync.replicas=2",
	}
	if m.broker() {
		set = append(set, "advertised.listeners="+strings.Join(advertised, ","), "inter.broker.listener.name=INTERNAL")
	}
	args := []string{"--data-dir", base}
	for _, kv := range slices.Concat(set, spec.set, spec.own[m.id]) {
		args = append(args, "--set", kv)
	}
	return args
}

// startCluster is a cluster that serves.
func startCluster(t *testing.T, spec clusterSpec) *cluster {
	t.Helper()
	c := newCluster(t, spec)
	c.start()
	return c
}

// start starts every node and waits until all serve.
func (c *cluster) start() {
	c.t.Helper()
	for _, m := range c.members {
		m.launch()
	}
	for _, m := range c.members {
		m.awaitReady()
	}
}

// end kills what runs; after a failed test it shows what the nodes said.
func (c *cluster) end() {
	if c.asker != nil {
		c.asker.Close()
	}
	for _, m := range c.members {
		if m.p != nil {
			_ = m.p.Signal(syscall.SIGCONT)
			m.p.Kill()
		}
	}
	if !c.t.Failed() && os.Getenv("TIDEMARK_TEST_LOGS") == "" {
		return
	}
	for _, m := range c.members {
		if m.p != nil {
			c.t.Logf("node %d said:\n%s", m.id, proc.Tail(m.p.Stderr.String(), 40))
		}
	}
}

// launch starts a node's process and does not wait for it.
func (m *member) launch() {
	m.t.Helper()
	if m.c.net != nil {
		m.c.net.up(m.id)
	}
	m.node.launch()
}

// start starts a node and waits until it serves.
func (m *member) start() {
	m.t.Helper()
	m.launch()
	m.awaitReady()
}

// kill is kill -9. The proxy refuses connections from then on, as the kernel
// does for a dead process.
func (m *member) kill() {
	if m.c.net != nil {
		m.c.net.down(m.id)
	}
	m.p.Kill()
}

// stop is SIGTERM; the node must end with exit code 0.
func (m *member) stop() {
	m.t.Helper()
	m.node.stop()
	if m.c.net != nil {
		m.c.net.down(m.id)
	}
}

// halt stops a node, hard or in order.
func (m *member) halt(hard bool) {
	m.t.Helper()
	if hard {
		m.kill()
	} else {
		m.stop()
	}
}

// running reports whether the node has a process that was not ended.
func (m *member) running() bool { return m.p != nil && !m.p.Ended() }

func (c *cluster) member(id int32) *member {
	c.t.Helper()
	if id < 1 || int(id) > len(c.members) {
		c.t.Fatalf("no node %d", id)
	}
	return c.members[id-1]
}

// others are the ids of all nodes but some.
func (c *cluster) others(but ...int) (ids []int) {
	for _, m := range c.members {
		if !slices.Contains(but, m.id) {
			ids = append(ids, m.id)
		}
	}
	return ids
}

// client returns a client of the cluster that never gives a record up. The
// caller closes it.
func (c *cluster) client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	var seeds []string
	for _, m := range c.members {
		if m.broker() {
			seeds = append(seeds, m.addr)
		}
	}
	return c.members[0].client(append([]kgo.Opt{kgo.SeedBrokers(seeds...)}, opts...)...)
}

// ask sends one request to any node that answers. It is tried again for a while
// at most.
func (c *cluster) ask(req kmsg.Request) (kmsg.Response, error) {
	if c.asker == nil {
		c.asker = c.client(kgo.RetryTimeout(5*time.Second), kgo.RequestTimeoutOverhead(3*time.Second))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return c.asker.Request(ctx, req)
}

// state is a partition as the cluster's metadata has it.
type state struct {
	leader, epoch int32
	isr, replicas []int32
}

// state asks for a partition; an error is in the answer or on the way.
func (c *cluster) state(p tp) (state, error) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &p.topic
	req.Topics = append(req.Topics, rt)
	resp, err := c.ask(req)
	if err != nil {
		return state{}, err
	}
	for _, t := range resp.(*kmsg.MetadataResponse).Topics {
		if t.ErrorCode != 0 {
			return state{}, fmt.Errorf("metadata of %v: code %d", p, t.ErrorCode)
		}
		for _, x := range t.Partitions {
			if x.Partition == p.n {
				return state{x.Leader, x.LeaderEpoch, x.ISR, x.Replicas}, nil
			}
		}
	}
	return state{}, fmt.Errorf("metadata without %v", p)
}

// await polls a partition until it is as wanted, and returns it.
func (c *cluster) await(p tp, patience time.Duration, what string, so func(s state) bool) (s state) {
	c.t.Helper()
	var err error
	ended := time.NewTimer(patience)
	defer ended.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if s, err = c.state(p); err == nil && so(s) {
			return s
		}
		select {
		case <-ended.C:
			c.t.Fatalf("%v: not within %s: %s; it is %+v, %v", p, patience, what, s, err)
		case <-tick.C:
		}
	}
}

// awaitLeader waits until a partition has a leader other than some.
func (c *cluster) awaitLeader(p tp, not ...int32) state {
	c.t.Helper()
	return c.await(p, 60*time.Second, fmt.Sprintf("a leader other than %v", not), func(s state) bool {
		return s.leader > 0 && !slices.Contains(not, s.leader) && c.member(s.leader).running()
	})
}

// awaitISR waits until a partition has n replicas in sync.
func (c *cluster) awaitISR(p tp, n int) state {
	c.t.Helper()
	return c.await(p, 90*time.Second, fmt.Sprintf("%d replicas in sync", n), func(s state) bool { return len(s.isr) == n && s.leader > 0 })
}

// activeController returns the node that leads the metadata quorum.
func (c *cluster) activeController() (int32, error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	rt := kmsg.NewDescribeQuorumRequestTopic()
	rt.Topic = "__cluster_metadata"
	rt.Partitions = append(rt.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, rt)
	resp, err := c.ask(req)
	if err != nil {
		return 0, err
	}
	got := resp.(*kmsg.DescribeQuorumResponse)
	if got.ErrorCode != 0 || len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("describe quorum: code %d", got.ErrorCode)
	}
	if x := got.Topics[0].Partitions[0]; x.ErrorCode != 0 || x.LeaderID < 1 {
		return 0, fmt.Errorf("describe quorum: code %d, leader %d", x.ErrorCode, x.LeaderID)
	}
	return got.Topics[0].Partitions[0].LeaderID, nil
}

// awaitController waits until the quorum is led by a running node other than
// some.
func (c *cluster) awaitController(not ...int32) *member {
	c.t.Helper()
	var m *member
	eventually(c.t, 60*time.Second, fmt.Sprintf("an active controller other than %v", not), func() bool {
		id, err := c.activeController()
		if err != nil || slices.Contains(not, id) {
			return false
		}
		m = c.member(id)
		return m.running()
	})
	return m
}

// create creates a topic; replicas is the assignment of every partition, nil
// leaves it to the controller with a replication factor of three.
func (c *cluster) create(name string, partitions int32, replicas []int32, configs ...string) []tp {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 20_000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, 3
	if replicas != nil {
		rt.NumPartitions, rt.ReplicationFactor = -1, -1
		for i := range partitions {
			ra := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			ra.Partition, ra.Replicas = i, replicas
			rt.ReplicaAssignment = append(rt.ReplicaAssignment, ra)
		}
	}
	for _, kv := range configs {
		k, v, _ := strings.Cut(kv, "=")
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = k, &v
		rt.Configs = append(rt.Configs, rc)
	}
	req.Topics = append(req.Topics, rt)
	eventually(c.t, 30*time.Second, "topic "+name+" is created", func() bool {
		resp, err := c.ask(req)
		if err != nil {
			return false
		}
		code := resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode
		if code != 0 && code != 36 && code != 38 { // exists by now; too few brokers yet
			c.t.Logf("create topic %s: code %d", name, code)
		}
		return code == 0 || code == 36
	})
	var parts []tp
	for i := range partitions {
		p := tp{name, i}
		parts = append(parts, p)
		c.awaitLeader(p)
	}
	return parts
}

// replicaDir is where a node has a partition, in whichever log directory.
func (m *member) replicaDir(p tp) (string, error) {
	found, err := filepath.Glob(filepath.Join(m.dir, "*", fmt.Sprintf("%s-%d", p.topic, p.n)))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("node %d: %v is in %v, %v", m.id, p, found, err)
	}
	return found[0], nil
}

// compare stops all nodes in order and holds their copies of each partition
// against each other, byte by byte.
func (c *cluster) compare(parts []tp) {
	c.t.Helper()
	c.compareBy(parts, compareReplicas)
}

// compareBy is compare with another measure.
func (c *cluster) compareBy(parts []tp, differ func(copies []*replica) error) {
	c.t.Helper()
	var wg sync.WaitGroup
	for _, m := range c.members {
		if m.running() && m.broker() {
			wg.Add(1)
			go func() {
				defer wg.Done()
				if err := m.p.Stop(60 * time.Second); err != nil {
					c.t.Errorf("node %d: %v", m.id, err)
				}
			}()
		}
	}
	wg.Wait()
	for _, p := range parts {
		var copies []*replica
		for _, m := range c.members {
			dir, err := m.replicaDir(p)
			if err != nil {
				continue // not every node has every partition
			}
			r, err := readReplica(fmt.Sprintf("node %d", m.id), dir)
			if err != nil {
				c.t.Errorf("%v: %v", p, err)
				continue
			}
			if err := r.checkEpochs(); err != nil {
				c.t.Errorf("%v: %v", p, err)
			}
			copies = append(copies, r)
		}
		if len(copies) < 2 {
			c.t.Errorf("%v: %d copies to compare", p, len(copies))
			continue
		}
		if err := differ(copies); err != nil {
			c.t.Errorf("%v: %v", p, err)
		}
	}
}
