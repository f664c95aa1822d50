package broker

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
)

// membership keeps this broker a member of the cluster: it registers, sends
// heartbeats, and says goodbye. Source: KIP-631.
//
// It registers again, under another broker epoch, if an administrator
// unregistered the broker; another process that registers under its number ends
// this one.
type membership struct {
	b        *Broker
	box      *loop.Box[memberMsg]
	interval model.Instant // between heartbeats, ns
	term     atomic.Int32  // of the newest image, to notice another controller

	// What follows belongs to the loop.

	epoch    model.BrokerEpoch
	next     model.Instant                       // when the next heartbeat is due; Never while none is
	out      bool                                // a request is on its way
	sentAt   model.Instant                       // when it was sent
	hurried  bool                                // the next one is due when this one is answered
	beats    int64                               // heartbeats sent
	counted  struct{ sent, failed atomic.Int64 } // for those who look from outside
	joining  *joining                            // the registration under way
	onMember func(error)                         // told once, when unfenced or refused
	onLeft   func()                              // told once, when the controller lets this broker go
	leaveBy  model.Instant                       // when it goes without
	damage   damageReporter
	stopped  bool
}

// joining is a registration that was not accepted yet.
type joining struct {
	facts    controller.RegistrationFacts
	patience time.Duration
}

// memberMsg is a message to membership: exactly one field is set.
type memberMsg struct {
	join       *joinMsg
	registered *kmsg.BrokerRegistrationResponse
	inForce    bool // the image with the registration is
	beat       *kmsg.BrokerHeartbeatResponse
	reported   *damageTold
	failed     error
	hurry      bool // the next heartbeat is due now
	leave      func()
	stop       bool
}

// joinMsg begins the membership; done is told when clients can be served.
type joinMsg struct {
	facts controller.RegistrationFacts
	done  func(error)
}

func newMembership(b *Broker) *membership {
	m := &membership{
		b: b, epoch: model.NoBrokerEpoch, next: model.Never, leaveBy: model.Never,
		interval: model.Instant(b.config.Quorum.BrokerHeartbeatInterval),
	}
	m.damage.b = b
	m.box = loop.NewBox[memberMsg](m, b.rt)
	return m
}

// join registers and sends the first heartbeat; done is called once the broker
// is unfenced, or can't be.
func (m *membership) join(facts controller.RegistrationFacts, done func(error)) {
	m.box.Post(memberMsg{join: &joinMsg{facts: facts, done: done}})
}

// leave asks the controller to move what this broker leads and tells done when
// that is done, or has taken too long.
func (m *membership) leave(done func()) { m.box.Post(memberMsg{leave: done}) }

// stop ends the heartbeats.
func (m *membership) stop() { m.box.Post(memberMsg{stop: true}) }

// image notices that another term began: the new controller hears of this broker
// at once, over a connection whose end it would notice. A quorum.Subscriber.
func (m *membership) image(img *metadata.Image, _ *metadata.Delta) {
	if term := int32(img.At().Epoch); term != m.term.Swap(term) {
		m.box.Post(memberMsg{hurry: true})
	}
}

// applied notices that another broker wants to stop: it waits until every broker
// has reported that it acts on that, so this one does so at once.
func (m *membership) applied(img *metadata.Image, d *metadata.Delta) {
	for _, id := range d.Brokers {
		if reg := img.Broker(id); reg != nil && reg.InShutdown && id != m.b.config.NodeID {
			m.b.publisher.await(img.At().Offset, &hurry{m})
			return
		}
	}
}

// hurry has the next heartbeat sent at once.
type hurry struct{ m *membership }

// Deliver implements loop.Delivery.
func (h *hurry) Deliver(model.Now) { h.m.box.Post(memberMsg{hurry: true}) }

// Handle implements loop.Handler.
func (m *membership) Handle(now model.Now, msg memberMsg, out *loop.Outbox) {
	switch {
	case msg.stop:
		m.stopped, m.next, m.leaveBy = true, model.Never, model.Never
		m.left(out)
	case m.stopped:
		if msg.leave != nil {
			out.Add(&goodbye{msg.leave})
		}
	case msg.join != nil:
		m.onMember = msg.join.done
		m.register(out, msg.join.facts, m.b.config.Quorum.RegistrationTimeout)
	case msg.registered != nil:
		m.registered(now, msg.registered, out)
	case msg.inForce:
		m.next = now.Mono
	case msg.beat != nil:
		m.answered(now, msg.beat, out)
	case msg.reported != nil:
		m.damage.accepted(msg.reported)
	case msg.failed != nil:
		m.failed(now, msg.failed, out)
	case msg.hurry:
		m.hurried = m.out
		if m.epoch != model.NoBrokerEpoch {
			m.next = now.Mono
		}
	case msg.leave != nil:
		m.onLeft = msg.leave
		m.leaveBy = now.Mono + leaveMax
		if m.epoch == model.NoBrokerEpoch || m.alone() {
			m.left(out)
			return
		}
		if !m.out {
			m.next = now.Mono
		}
	}
}

// leaveMax bounds how long a stop waits for its leaderships to be taken over: with
// drainMax it is less than what supervisors wait before they kill.
const leaveMax = model.Instant(5 * time.Second)

// alone reports whether there is nobody to hand anything to.
func (m *membership) alone() bool {
	if !m.b.config.Quorum.ControlledShutdown {
		return true
	}
	for _, reg := range m.b.quorum.Image().Brokers() {
		if reg.ID != m.b.config.NodeID && reg.Active() {
			return false
		}
	}
	return true
}

func (m *membership) register(out *loop.Outbox, facts controller.RegistrationFacts, patience time.Duration) {
	m.out, m.next, m.joining = true, model.Never, &joining{facts, patience}
	out.Add(&memberRequest{m.b, controller.Command{Request: m.registration(), Registration: &facts}, patience, m.box})
}

func (m *membership) registration() *kmsg.BrokerRegistrationRequest {
	c := m.b.config
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version = registrationVersion
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

func (m *membership) registered(now model.Now, resp *kmsg.BrokerRegistrationResponse, out *loop.Outbox) {
	m.out = false
	switch resp.ErrorCode {
	case protocol.CodeKafkaStorageError:
		m.b.logger.Warn("the controller has no room for a registration; it is asked again")
		m.next = now.Mono + m.interval
		return
	case protocol.CodeNotController:
		// It was when it was asked: it has stepped down with the answer.
		m.next = now.Mono + m.interval
		return
	}
	if m.joining = nil; resp.ErrorCode != protocol.CodeNone {
		m.failed(now, fmt.Errorf("the controller refused to register broker %d: error code %d", m.b.config.NodeID, resp.ErrorCode), out)
		return
	}
	m.epoch = model.BrokerEpoch(resp.BrokerEpoch)
	m.b.brokerEpoch.Store(int64(m.epoch))
	m.b.replicas.Registered(m.epoch)
	// The first heartbeat waits for the image that holds the registration: before
	// that the controller would not let this broker in.
	out.Add(&registrationInForce{m})
}

// registrationInForce waits for the image with the registration.
type registrationInForce struct{ m *membership }

// Deliver implements loop.Delivery, twice: after the loop, and when the image is
// in force.
func (r *registrationInForce) Deliver(model.Now) {
	r.m.b.publisher.await(model.Offset(r.m.b.epoch()), (*registrationApplied)(r))
}

type registrationApplied registrationInForce

// Deliver implements loop.Delivery.
func (r *registrationApplied) Deliver(model.Now) { r.m.box.Post(memberMsg{inForce: true}) }

func (m *membership) answered(now model.Now, resp *kmsg.BrokerHeartbeatResponse, out *loop.Outbox) {
	m.out = false
	m.next = now.Mono + m.interval
	if m.hurried {
		m.hurried, m.next = false, now.Mono
	}
	switch {
	case resp.ErrorCode == protocol.CodeBrokerIDNotRegistered:
		m.b.logger.Warn("this broker was unregistered and registers again", zap.Int64("broker_epoch", int64(m.epoch)))
		facts := m.b.registrationFacts()
		facts.Stop = metadata.StopProcess // what it holds it has held all the time
		m.register(out, facts, forever)
	case resp.ErrorCode == protocol.CodeStaleBrokerEpoch:
		err := fmt.Errorf("another process registered as broker %d", m.b.config.NodeID)
		m.member(err)
		m.b.fail(err)
	case resp.ErrorCode != protocol.CodeNone:
		m.b.logger.Warn("heartbeat refused", zap.Int16("code", resp.ErrorCode), zap.Int64("broker_epoch", int64(m.epoch)))
	default:
		m.heard(now, resp, out)
	}
}

// heard takes the word of a controller that has confirmed that it is the active
// one.
func (m *membership) heard(now model.Now, resp *kmsg.BrokerHeartbeatResponse, out *loop.Outbox) {
	m.b.controllerHeard(m.sentAt)
	switch {
	case m.onLeft != nil && resp.ShouldShutdown:
		m.left(out)
	case m.onLeft != nil:
		m.next = now.Mono + leavingInterval
	case !resp.IsFenced:
		out.Add(&heartbeatNote{m.b.dirs, m.beats})
		m.member(nil)
	default:
		// Fenced still: the controller waits for this broker's image. The next
		// heartbeat is not kept waiting for the full interval.
		m.next = now.Mono + m.interval/100
	}
}

// leavingInterval is how often a broker that wants to stop asks whether it may.
const leavingInterval model.Instant = 50_000_000

// left tells whoever waits that the broker may go.
func (m *membership) left(out *loop.Outbox) {
	if m.onLeft != nil {
		out.Add(&goodbye{m.onLeft})
	}
	m.onLeft, m.leaveBy, m.next, m.stopped = nil, model.Never, model.Never, true
}

// goodbye calls a function after the loop was released.
type goodbye struct{ done func() }

// Deliver implements loop.Delivery.
func (g *goodbye) Deliver(model.Now) { g.done() }

// failed is told that no controller answered, or that it refused.
func (m *membership) failed(now model.Now, err error, out *loop.Outbox) {
	m.out = false
	m.counted.failed.Add(1)
	switch {
	case m.epoch == model.NoBrokerEpoch:
		m.member(err)
		return
	case m.onLeft != nil:
		// It was tried for as long as a heartbeat may take. When a whole cluster
		// stops, those that go last have nobody to hand anything to.
		m.b.logger.Warn("no controller takes over what this broker leads", zap.Error(err))
		m.left(out)
		return
	}
	m.b.logger.Warn("no answer to a heartbeat", zap.Error(err))
	m.next = now.Mono + m.interval/10
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
func (m *membership) NextDeadline() model.Instant {
	if m.out {
		return m.leaveBy
	}
	return min(m.next, m.leaveBy)
}

// Tick implements loop.Handler: a heartbeat is due.
func (m *membership) Tick(now model.Now, out *loop.Outbox) {
	if now.Mono >= m.leaveBy {
		m.b.logger.Warn("the controller did not take over all leaderships in time")
		m.left(out)
		return
	}
	if m.out || now.Mono < m.next {
		return
	}
	if m.joining != nil {
		m.register(out, m.joining.facts, m.joining.patience)
		return
	}
	m.out, m.next, m.sentAt = true, model.Never, now.Mono
	m.beats++
	m.counted.sent.Add(1)
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.Version = 1
	req.BrokerID, req.BrokerEpoch = int32(m.b.config.NodeID), int64(m.epoch)
	req.CurrentMetadataOffset = int64(m.b.publisher.inForce())
	req.WantShutdown = m.onLeft != nil
	for _, d := range m.b.dirs.All() {
		if !d.Online() {
			req.OfflineLogDirs = append(req.OfflineLogDirs, d.ID())
		}
	}
	out.Add(&memberRequest{m.b, controller.Command{Request: req}, time.Duration(m.interval), m.box})
	if r := m.damage.due(m.epoch); r != nil {
		out.Add(&damageRequest{m, r})
	}
}

// memberRequest hands a command to the controller after the loop was released
// and brings the answer back as a message.
type memberRequest struct {
	b        *Broker
	cmd      controller.Command
	patience time.Duration
	box      *loop.Box[memberMsg]
}

// Deliver implements loop.Delivery.
func (s *memberRequest) Deliver(model.Now) {
	s.b.controller.submit(s.cmd, s.patience, completion(func(resp kmsg.Response, _ model.OffsetAndEpoch, err error) {
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
	}))
}

// supportedFeatures are the features that this node can run at.
var supportedFeatures = []metadata.FeatureRange{
	{Name: metadataFeature, Min: 1, Max: 1},
	{Name: groupFeature, Min: 0, Max: 1},
}
