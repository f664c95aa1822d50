package broker

import (
	crand "crypto/rand"
	"net"
	"sync"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/broker/telemetry"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// telemetryInstancesMax bounds the clients that are remembered, as in Kafka.
const telemetryInstancesMax = 16384

// clientTelemetry is what this broker knows of its clients' own metrics.
type clientTelemetry struct {
	b  *Broker
	mu sync.Mutex
	// registry, and knowledge.instance of every connection, are guarded by mu.
	registry *telemetry.Registry
}

func newClientTelemetry(b *Broker) *clientTelemetry {
	return &clientTelemetry{b: b, registry: telemetry.New(telemetry.Config{
		BytesMax: int(b.config.Telemetry.BytesMax), InstancesMax: telemetryInstancesMax,
		// Not drawn from the node's chance: a request would change the fate of a
		// simulated world.
		NewID: func() (id telemetry.InstanceID) { crand.Read(id[:]); return id }, // never fails
	})}
}

// applied takes the subscriptions of an image over, if they have changed; a nil
// delta says that they may have.
func (t *clientTelemetry) applied(img *metadata.Image, d *metadata.Delta) {
	changed := d == nil || d.Snapshot
	if d != nil {
		for _, res := range d.Configs {
			changed = changed || res.Type == metadata.ClientMetricsResource
		}
	}
	if !changed {
		return
	}
	subs := map[string]config.ClientMetrics{}
	for res, settings := range img.ConfigResources() {
		if res.Type != metadata.ClientMetricsResource {
			continue
		}
		s, err := config.ParseClientMetrics(settings)
		if err != nil { // only a later version may have let it in
			t.b.logger.Warn("a subscription to clients' metrics is not followed", zap.String("name", res.Name), zap.Error(err))
			continue
		}
		subs[res.Name] = s
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.registry.Subscribe(subs)
}

// counts returns what has been seen.
func (t *clientTelemetry) counts() telemetry.Counts {
	now := t.b.rt.Now().Mono
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.registry.Counts(now)
}

// get handles a GetTelemetrySubscriptions.
func (t *clientTelemetry) get(r *server.Request, id telemetry.InstanceID) (telemetry.Subscription, protocol.Code) {
	c, k := telemetryClient(r), t.follow(r.Conn)
	t.mu.Lock()
	defer t.mu.Unlock()
	s, code := t.registry.Get(r.Received.Mono, id, &c)
	if code == protocol.CodeNone {
		id = s.Instance
	}
	k.instance = id
	return s, code
}

// push handles a PushTelemetry.
func (t *clientTelemetry) push(r *server.Request, p telemetry.Push) protocol.Code {
	c, k := telemetryClient(r), t.follow(r.Conn)
	t.mu.Lock()
	defer t.mu.Unlock()
	code := t.registry.Push(r.Received.Mono, p, &c)
	k.instance = p.Instance
	return code
}

// follow has the instance that is heard of last on a connection forgotten with it.
// The lock is not held: the connection may be closed already.
func (t *clientTelemetry) follow(c *server.Conn) *knowledge {
	k := told(c)
	if !k.followed {
		k.followed = true
		c.OnClose(func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.registry.Closed(k.instance)
		})
	}
	return k
}

// knowledge is what a connection from a client is known by; Conn.Session holds it.
type knowledge struct {
	software software
	followed bool                 // instance is forgotten when the connection ends
	instance telemetry.InstanceID // heard of last; guarded by clientTelemetry.mu
}

// software is what a client says that it is. Source: KIP-511.
type software struct {
	name, version string
	known         bool
}

// told returns what is known of a connection on a listener for clients.
func told(c *server.Conn) *knowledge {
	k, _ := c.Session.(*knowledge)
	if k == nil {
		k = &knowledge{}
		c.Session = k
	}
	return k
}

// short is the part of a text that is kept for each connection.
func short(s string) string { return s[:min(len(s), 255)] }

// telemetryClient returns what rules may ask of who sent r.
func telemetryClient(r *server.Request) (c telemetry.Client) {
	if id := r.Header.ClientID; !r.Header.NoClientID {
		c[config.ClientID] = &id
	}
	if k := told(r.Conn); k.software.known {
		c[config.ClientSoftwareName], c[config.ClientSoftwareVersion] = &k.software.name, &k.software.version
	}
	if host, port, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		c[config.ClientSourceAddress], c[config.ClientSourcePort] = &host, &port
	}
	return c
}
