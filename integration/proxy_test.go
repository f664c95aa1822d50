package integration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// everybodyElse stands for clients in the rules of a proxy.
const everybodyElse = -1

// way is one direction between two nodes, whoever opened the connection.
type way struct{ from, to int }

// rule is what happens to bytes on their way.
type rule struct {
	held  bool          // they wait until the rule is lifted, as packets that are sent again
	delay time.Duration // they arrive later
}

// proxyNet is every link between nodes: a listener before each listener of each
// node. It tells who connects by the client.id of the first request.
type proxyNet struct {
	t  *testing.T
	mu sync.Mutex
	// changed is closed and replaced when a rule changes.
	changed chan struct{}
	rules   map[way]rule
	fronts  []*front
	conns   map[*relay]bool
	seen    map[string]int // class → connections between nodes
	wg      sync.WaitGroup
}

func newProxyNet(t *testing.T) *proxyNet {
	p := &proxyNet{t: t, rules: map[way]rule{}, conns: map[*relay]bool{}, changed: make(chan struct{}), seen: map[string]int{}}
	t.Cleanup(p.close)
	return p
}

// front is the listener before one listener of one node.
type front struct {
	net     *proxyNet
	node    int
	addr    string // what others connect to
	backend string
	l       net.Listener
}

// before puts a listener on addr before a node's.
func (p *proxyNet) before(node int, addr, backend string) *front {
	f := &front{net: p, node: node, addr: addr, backend: backend}
	p.mu.Lock()
	p.fronts = append(p.fronts, f)
	p.mu.Unlock()
	return f
}

// up opens the listeners before a node, whose process is about to run; down
// closes them, so that connecting is refused as by the dead node itself.
func (p *proxyNet) up(node int) {
	p.t.Helper()
	for _, f := range p.fronts {
		if f.node != node || f.l != nil {
			continue
		}
		l, err := net.Listen("tcp", f.addr)
		if err != nil {
			p.t.Fatal(err)
		}
		f.l = l
		p.wg.Add(1)
		go f.accept(l)
	}
}

func (p *proxyNet) down(node int) {
	for _, f := range p.fronts {
		if f.node == node && f.l != nil {
			f.l.Close()
			f.l = nil
		}
	}
}

func (p *proxyNet) close() {
	for _, f := range p.fronts {
		p.down(f.node)
	}
	p.mu.Lock()
	for r := range p.conns {
		r.end()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// set makes a rule for a direction; the zero rule lifts it.
func (p *proxyNet) set(r rule, ways ...way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range ways {
		if r == (rule{}) {
			delete(p.rules, w)
		} else {
			p.rules[w] = r
		}
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// cut holds everything between two nodes, both ways.
func (p *proxyNet) cut(a, b int) { p.set(rule{held: true}, way{a, b}, way{b, a}) }

// isolate cuts a node from others.
func (p *proxyNet) isolate(node int, others ...int) {
	for _, o := range others {
		p.cut(node, o)
	}
}

// heal lifts every rule.
func (p *proxyNet) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.rules)
	close(p.changed)
	p.changed = make(chan struct{})
}

// reset closes the connections between two nodes as if each side had crashed.
func (p *proxyNet) reset(a, b int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.conns {
		if r.from == a && r.to == b || r.from == b && r.to == a {
			r.end()
		}
	}
}

func (p *proxyNet) rule(w way) (rule, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rules[w], p.changed
}

func (f *front) accept(l net.Listener) {
	defer f.net.wg.Done()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		r := &relay{net: f.net, from: everybodyElse, to: f.node, near: c, gone: make(chan struct{})}
		f.net.mu.Lock()
		f.net.conns[r] = true
		f.net.mu.Unlock()
		f.net.wg.Add(1)
		go r.run(f.backend)
	}
}

// relay is one connection through the proxy.
type relay struct {
	net       *proxyNet
	from, to  int // from: whoever opened it
	near, far net.Conn

	once sync.Once
	gone chan struct{}
}

// end closes both sides with a reset.
func (r *relay) end() {
	r.once.Do(func() {
		close(r.gone)
		for _, c := range []net.Conn{r.near, r.far} {
			if c != nil {
				if tcp, ok := c.(*net.TCPConn); ok {
					_ = tcp.SetLinger(0)
				}
				c.Close()
			}
		}
	})
}

func (r *relay) run(backend string) {
	defer r.net.wg.Done()
	defer func() {
		r.end()
		r.net.mu.Lock()
		delete(r.net.conns, r)
		r.net.mu.Unlock()
	}()
	first, from, class, err := firstRequest(r.near)
	if err != nil {
		return
	}
	far, err := net.Dial("tcp", backend)
	if err != nil {
		return
	}
	r.net.mu.Lock()
	r.from, r.far = from, far
	if from != everybodyElse {
		r.net.seen[class]++
	}
	r.net.mu.Unlock()
	select {
	case <-r.gone:
		far.Close()
		return
	default:
	}
	r.net.wg.Add(1)
	go func() {
		defer r.net.wg.Done()
		r.carry(r.far, r.near, way{r.to, r.from}, nil)
		r.end()
	}()
	r.carry(r.near, r.far, way{r.from, r.to}, first)
}

// carry takes bytes one way until either side ends.
func (r *relay) carry(src, dst net.Conn, w way, chunk []byte) {
	type late struct {
		at    time.Time
		bytes []byte
	}
	queue := make(chan late, 1024)
	r.net.wg.Add(1)
	go func() { // reads ahead, so that a delay does not slow the stream down
		defer r.net.wg.Done()
		defer close(queue)
		for {
			if chunk != nil {
				rule, _ := r.net.rule(w)
				select {
				case queue <- late{time.Now().Add(rule.delay), chunk}:
				case <-r.gone:
					return
				}
			}
			buf := make([]byte, 64<<10)
			n, err := src.Read(buf)
			if err != nil {
				return
			}
			chunk = buf[:n]
		}
	}()
	for x := range queue {
		if !r.due(x.at, w) {
			return
		}
		if _, err := dst.Write(x.bytes); err != nil {
			return
		}
	}
	// The end of the stream is a packet too.
	r.due(time.Now(), w)
}

// due waits until an instant has come and nothing is held. False: the connection
// ended meanwhile.
func (r *relay) due(at time.Time, w way) bool {
	if d := time.Until(at); d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.gone:
			return false
		}
	}
	for {
		rule, changed := r.net.rule(w)
		if !rule.held {
			return true
		}
		select {
		case <-changed:
		case <-r.gone:
			return false
		}
	}
}

// firstRequest reads one request and says who sent it.
func firstRequest(c net.Conn) (bytes []byte, from int, class string, err error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, 0, "", err
	}
	n := binary.BigEndian.Uint32(head)
	if n < 10 || n > 1<<20 {
		return nil, 0, "", fmt.Errorf("a first request of %d bytes", n)
	}
	bytes = append(head, make([]byte, n)...)
	if _, err := io.ReadFull(c, bytes[4:]); err != nil {
		return nil, 0, "", err
	}
	from, class = sender(bytes[4:])
	return bytes, from, class, nil
}

// sender tells a node by its client.id, tidemark-broker-<id>-<class>.
func sender(request []byte) (from int, class string) {
	size := int(int16(binary.BigEndian.Uint16(request[8:])))
	if size < 0 || size > len(request)-10 {
		return everybodyElse, ""
	}
	rest, ours := strings.CutPrefix(string(request[10:10+size]), "tidemark-broker-")
	id, class, _ := strings.Cut(rest, "-")
	n, err := strconv.Atoi(id)
	if !ours || err != nil {
		return everybodyElse, ""
	}
	return n, class
}

// TestProxy: what is held waits and is not lost, each way by itself; a delay
// delays; a reset is a reset; a dead node refuses.
func TestProxy(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go io.Copy(c, c)
		}
	}()
	p := newProxyNet(t)
	f := p.before(2, "127.0.0.1:0", l.Addr().String())
	p.up(2)
	addr := f.l.Addr().String()
	dial := func(clientID string) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		b := binary.BigEndian.AppendUint32(nil, uint32(10+len(clientID)))
		b = append(b, 0, 18, 0, 3, 0, 0, 0, 1)
		b = binary.BigEndian.AppendUint16(b, uint16(len(clientID)))
		if _, err := c.Write(append(b, clientID...)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, len(b)+len(clientID))); err != nil {
			t.Fatal(err)
		}
		return c
	}
	say := func(c net.Conn) { c.Write([]byte("x")) }
	hears := func(c net.Conn, within time.Duration) error {
		c.SetReadDeadline(time.Now().Add(within))
		_, err := c.Read(make([]byte, 1))
		return err
	}
	node, client := dial("tidemark-broker-1-fetch"), dial("somebody")
	for _, w := range []way{{1, 2}, {2, 1}} {
		p.set(rule{held: true}, w)
		say(node)
		say(client)
		if err := hears(client, 5*time.Second); err != nil {
			t.Errorf("%v: a client is held up: %v", w, err)
		}
		if hears(node, 50*time.Millisecond) == nil {
			t.Errorf("%v: nothing was held", w)
		}
		p.heal()
		if err := hears(node, 5*time.Second); err != nil {
			t.Errorf("%v: what was held is lost: %v", w, err)
		}
	}
	p.set(rule{delay: 60 * time.Millisecond}, way{1, 2}, way{2, 1})
	before := time.Now()
	say(node)
	if err := hears(node, 5*time.Second); err != nil || time.Since(before) < 120*time.Millisecond {
		t.Errorf("a round trip took %s, %v", time.Since(before), err)
	}
	p.heal()
	p.reset(1, 2)
	if err := hears(node, 5*time.Second); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("after a reset: %v", err)
	}
	say(client)
	if err := hears(client, 5*time.Second); err != nil {
		t.Errorf("a client was reset too: %v", err)
	}
	p.down(2)
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Error("a dead node accepts")
	}
}
