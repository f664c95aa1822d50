package broker

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark/tidemark/broker/inspect"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/transport"
)

// peers are this node's connections to other nodes, one for each address and
// class, made when they are first used and closed with the node. Those of
// fetchers are the fetchers' own.
type peers struct {
	b *Broker

	mu   sync.Mutex
	rand *rand.Rand
	all  []*peerEntry // in the order in which they were made
	// counts are those of all connections to a node, by class, those of fetchers
	// included. Nodes are few.
	counts map[peerKey]*transport.Counts
	closed bool
}

type peerEntry struct {
	at    transport.Address
	class transport.Class
	peer  *transport.Peer
}

// peerKey is what connections are counted by.
type peerKey struct {
	node  model.BrokerID
	class transport.Class
}

// countsOf returns the counts of a node's connections. Called with mu held.
func (p *peers) countsOf(node model.BrokerID, class transport.Class) *transport.Counts {
	k := peerKey{node, class}
	if p.counts == nil {
		p.counts = make(map[peerKey]*transport.Counts)
	}
	if p.counts[k] == nil {
		p.counts[k] = new(transport.Counts)
	}
	return p.counts[k]
}

// traffic returns the counts of all connections.
func (p *peers) traffic() []inspect.PeerTraffic {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]inspect.PeerTraffic, 0, len(p.counts))
	for k, c := range p.counts { // order-free: the page sorts
		out = append(out, inspect.PeerTraffic{Node: k.node, Class: string(k.class), Counts: c})
	}
	return out
}

// get returns the connection to a controller, nil once the node stops or if it
// is alone in its world.
func (p *peers) get(at transport.Address, class transport.Class) *transport.Peer {
	if p.b.world.Net == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	for _, e := range p.all {
		if e.class == class && e.at == at {
			return e.peer
		}
	}
	c := p.config(class)
	c.Counts = p.countsOf(at.Node, class)
	c.Address = func() (transport.Address, bool) { return at, true }
	if class == transport.ClassRaft {
		c.Lost = func(err error) { p.b.prober.voterLost(at, err) }
	}
	e := &peerEntry{at: at, class: class, peer: transport.NewPeer(c)}
	p.all = append(p.all, e)
	return e.peer
}

// config returns what connections of a class have in common. Called with mu
// held, or by who owns rand.
func (p *peers) config(class transport.Class) transport.PeerConfig {
	q := &p.b.config.Quorum
	c := transport.PeerConfig{
		RT: p.b.rt, Dialer: p.b.world.Net, Rand: rand.New(rand.NewPCG(p.rand.Uint64(), p.rand.Uint64())),
		Class: class, ClientID: transport.ClientID(p.b.config.NodeID, class),
		BackoffMin: 20 * time.Millisecond, BackoffMax: 500 * time.Millisecond, ConnectTimeout: 2 * time.Second,
	}
	switch class {
	case transport.ClassRaft:
		c.InFlightMax, c.QueueMax, c.Timeout = 256, 1024, q.RequestTimeout
	case transport.ClassController, transport.ClassForward:
		c.InFlightMax, c.QueueMax, c.Timeout = 64, 1024, p.b.config.Server.RequestTimeout
	case transport.ClassImage:
		c.InFlightMax, c.QueueMax, c.Timeout = 1, 4, 2*q.RequestTimeout
	case transport.ClassFetch:
		c.InFlightMax, c.QueueMax, c.Timeout = 1, 1, p.b.config.Replication.SocketTimeout
	}
	return c
}

// fetching returns a connection of its own for one fetcher, which follows its
// leader to another address.
func (p *peers) fetching(leader model.BrokerID) *transport.Peer {
	p.mu.Lock()
	c := p.config(transport.ClassFetch)
	c.Counts = p.countsOf(leader, transport.ClassFetch)
	p.mu.Unlock()
	c.Address = func() (transport.Address, bool) { return p.b.brokerAddress(leader) }
	return transport.NewPeer(c)
}

// close closes all connections; there are none afterwards.
func (p *peers) close() {
	p.mu.Lock()
	all := p.all
	p.all, p.closed = nil, true
	p.mu.Unlock()
	for _, e := range all {
		e.peer.Close()
	}
}

// bootstrapNode is the first of the numbers by which controllers are called whose
// own number is not known yet: those of controller.quorum.bootstrap.servers.
const bootstrapNode model.BrokerID = -2

// controllerAddress returns where a controller is reached: what the configuration
// says, else what the voter set says.
func (b *Broker) controllerAddress(node model.BrokerID) (transport.Address, bool) {
	if i := int(bootstrapNode - node); i >= 0 {
		if i >= len(b.config.Quorum.BootstrapServers) {
			return transport.Address{}, false
		}
		return parseAddress(node, b.config.Quorum.BootstrapServers[i])
	}
	for _, v := range b.config.Quorum.Voters {
		if v.ID == node {
			return transport.Address{Node: node, Host: v.Host, Port: uint16(v.Port)}, true
		}
	}
	for _, v := range b.quorum.Image().Voters() {
		if v.Node == node && len(v.Listeners) > 0 {
			return transport.Address{Node: node, Host: v.Listeners[0].Host, Port: v.Listeners[0].Port}, true
		}
	}
	return transport.Address{}, false
}

func parseAddress(node model.BrokerID, hostPort string) (transport.Address, bool) {
	i := strings.LastIndexByte(hostPort, ':')
	port, err := strconv.ParseUint(hostPort[i+1:], 10, 16)
	if i < 0 || err != nil {
		return transport.Address{}, false
	}
	return transport.Address{Node: node, Host: strings.Trim(hostPort[:i], "[]"), Port: uint16(port)}, true
}

// controllers lists every other controller that is known of.
func (b *Broker) controllers() []model.BrokerID {
	var all []model.BrokerID
	for _, v := range b.config.Quorum.Voters {
		if v.ID != b.config.NodeID {
			all = append(all, v.ID)
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, v := range b.quorum.Image().Voters() {
		if v.Node != b.config.NodeID {
			all = append(all, v.Node)
		}
	}
	for i := range b.config.Quorum.BootstrapServers {
		all = append(all, bootstrapNode-model.BrokerID(i))
	}
	return all
}

// brokerAddress returns where other brokers reach a broker.
func (b *Broker) brokerAddress(id model.BrokerID) (transport.Address, bool) {
	reg := b.quorum.Image().Broker(id)
	if reg == nil || len(reg.Listeners) == 0 {
		return transport.Address{}, false
	}
	return addressOf(reg, b.config.InterBrokerListener), true
}

// addressOf returns the address of a registered broker under the brokers'
// listener; a node that doesn't know its name takes the first one.
func addressOf(reg *metadata.BrokerRegistration, listener string) transport.Address {
	l, ok := reg.Listener(listener)
	if !ok {
		l = reg.Listeners[0]
	}
	return transport.Address{Node: reg.ID, Host: l.Host, Port: l.Port}
}
