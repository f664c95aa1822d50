package broker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
)

// membership keeps this broker a member of the cluster: it registers once and
// then sends heartbeats until it is stopped. Source: KIP-631.
type membership struct {
	b        *Broker
	box      *loop.Box[memberMsg]
	interval model.Instant // between heartbeats, ns

	// What follows belongs to the loop.

	epoch    model.BrokerEpoch
	next     model.Instant // when the next heartbeat is due; Never while one is out
	beats    int64         // heartbeats sent
	onMember func(error)   // told once, when unfenced or refused
	stopped  bool
}

// memberMsg is a message to membership: exactly one field is set.
type memberMsg struct {
	join       *joinMsg
	registered *kmsg.BrokerRegistrationResponse
	beat       *kmsg.BrokerHeartbeatResponse
	failed     error
	stop       bool
}

// joinMsg begins the membership; done is told when clients can be served.
type joinMsg struct {
	facts controller.RegistrationFacts
	done  func(error)
}

func newMembership(b *Broker) *membership {
	m := &membership{
		b: b, epoch: model.NoBrokerEpoch, next: model.Never,
		interval: model.Instant(b.config.Quorum.BrokerHeartbeatInterval),
	}
	m.box = loop.NewBox[memberMsg](m, b.rt)
	return m
}

// join registers and sends the first heartbeat; done is called once the broker
// is unfenced, or can't be.
func (m *membership) join(facts controller.RegistrationFacts, done func(error)) {
	m.box.Post(memberMsg{join: &joinMsg{facts: facts, done: done}})
}

// stop ends the heartbeats.
func (m *membership) stop() { m.box.Post(memberMsg{stop: true}) }

// Handle implements loop.Handler.
func (m *membership) Handle(now model.Now, msg memberMsg, out *loop.Outbox) {
	switch {
	case msg.join != nil:
		m.onMember = msg.join.done
		out.Add(&submission{m.b, controller.Command{Request: m.registration(), Registration: &msg.join.facts}, m.box})
	case msg.registered != nil:
		m.registered(now, msg.registered)
	case msg.beat != nil:
		m.answered(now, msg.beat, out)
	case msg.failed != nil:
		m.member(msg.failed)
		m.next = now.Mono + m.interval
	case msg.stop:
		m.stopped, m.next = true, model.Never
	}
}

func (m *membership) registration() *kmsg.BrokerRegistrationRequest {
	c := m.b.config
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version = 4
	req.BrokerID, req.ClusterID, req.IncarnationID = int32(c.NodeID), m.b.quorum.Image().ClusterID(), m.b.incarnation
	if c.Rack != "" {
		req.Rack = &c.Rack
	}
	for _, l := range m.b.advertised {
		rl := kmsg.NewBrokerRegistrationRequestListener()
		rl.Name, rl.Host, rl.Port, rl.SecurityProtocol = l.Name, l.Host, l.Port, l.Protocol
		req.Listeners = append(req.Listeners, rl)
	}
	for _, f := range supportedFeatures {
		rf := kmsg.NewBrokerRegistrationRequestFeature()
		rf.Name, rf.MinSupportedVersion, rf.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, rf)
	}
	for _, d := range m.b.dirs.All() {
		if d.Online() {
			req.LogDirs = append(req.LogDirs, d.ID())
		}
	}
	return req
}

func (m *membership) registered(now model.Now, resp *kmsg.BrokerRegistrationResponse) {
	if resp.ErrorCode != protocol.CodeNone {
		m.member(fmt.Errorf("the controller refused to register broker %d: error code %d", m.b.config.NodeID, resp.ErrorCode))
		return
	}
	m.epoch = model.BrokerEpoch(resp.BrokerEpoch)
	m.b.brokerEpoch.Store(int64(m.epoch))
	m.b.replicas.Registered(m.epoch)
	m.next = now.Mono
}

func (m *membership) answered(now model.Now, resp *kmsg.BrokerHeartbeatResponse, out *loop.Outbox) {
	if m.stopped {
		return
	}
	m.next = now.Mono + m.interval
	switch {
	case resp.ErrorCode != protocol.CodeNone:
		m.b.logger.Warn("heartbeat refused", zap.Int16("code", resp.ErrorCode), zap.Int64("broker_epoch", int64(m.epoch)))
		if resp.ErrorCode == protocol.CodeStaleBrokerEpoch || resp.ErrorCode == protocol.CodeBrokerIDNotRegistered {
			err := fmt.Errorf("another process registered as broker %d", m.b.config.NodeID)
			m.member(err)
			m.b.fail(err)
		}
	case !resp.IsFenced:
		out.Add(&heartbeatNote{m.b.dirs, m.beats})
		m.member(nil)
	default:
		// Fenced still: the controller waits for this broker's image. The next
		// heartbeat is not kept waiting for the full interval.
		m.next = now.Mono + m.interval/100
	}
}

// heartbeatNote writes down that a heartbeat was acknowledged, after the loop was
// released: a disk that hangs must not hold the next heartbeats up.
type heartbeatNote struct {
	dirs *host.Dirs
	n    int64
}

// Deliver waits for the disks.
func (h *heartbeatNote) Deliver(model.Now) { h.dirs.Heartbeat(h.n) }

// member tells once how joining went.
func (m *membership) member(err error) {
	if m.onMember != nil {
		m.onMember(err)
		m.onMember = nil
	}
}

// NextDeadline implements loop.Handler.
func (m *membership) NextDeadline() model.Instant { return m.next }

// Tick implements loop.Handler: a heartbeat is due.
func (m *membership) Tick(_ model.Now, out *loop.Outbox) {
	m.next = model.Never
	m.beats++
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.Version = 1
	req.BrokerID, req.BrokerEpoch = int32(m.b.config.NodeID), int64(m.epoch)
	req.CurrentMetadataOffset = int64(m.b.quorum.Image().At().Offset)
	for _, d := range m.b.dirs.All() {
		if !d.Online() {
			req.OfflineLogDirs = append(req.OfflineLogDirs, d.ID())
		}
	}
	out.Add(&submission{m.b, controller.Command{Request: req}, m.box})
}

// submission hands a command to the controller after the loop was released and
// brings the answer back as a message.
type submission struct {
	b   *Broker
	cmd controller.Command
	box *loop.Box[memberMsg]
}

// Deliver implements loop.Delivery.
func (s *submission) Deliver(model.Now) {
	s.b.submit(s.cmd, func(resp kmsg.Response, _ model.OffsetAndEpoch, err error) {
		if err != nil {
			s.box.Post(memberMsg{failed: err})
			return
		}
		switch r := resp.(type) {
		case *kmsg.BrokerRegistrationResponse:
			s.box.Post(memberMsg{registered: r})
		case *kmsg.BrokerHeartbeatResponse:
			s.box.Post(memberMsg{beat: r})
		}
	})
}

// supportedFeatures are the features that this node can run at.
var supportedFeatures = []metadata.FeatureRange{
	{Name: metadataFeature, Min: 1, Max: 1},
}
