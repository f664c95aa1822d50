package broker

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/quorum"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/transport"
)

// controllerChannel brings commands to the active controller, which may be this
// node or another, and may move meanwhile: a node that is not it, or does not
// answer, is not asked twice in a row, and the search goes on until the command's
// time is up. A command may so be carried out twice, when the first answer was
// lost; what the controller is asked by brokers allows for it, and clients know it
// of Kafka: docs/decisions/2026-11-30-forwarded-commands-may-run-twice.md.
type controllerChannel struct {
	b *Broker
	// turn picks the controller to ask when none is known to lead.
	turn atomic.Uint32
}

// forever is a patience that does not end.
const forever time.Duration = 1 << 61

// Pauses between two tries.
const (
	tryAgainMin model.Instant = 10_000_000
	tryAgainMax model.Instant = 250_000_000
)

// submit has the active controller carry out a command and tells done. It looks
// for the controller as long as patience lasts.
func (c *controllerChannel) submit(cmd controller.Command, patience time.Duration, done quorum.Completion) {
	s := &submission{c: c, cmd: cmd, done: done, pause: tryAgainMin, refused: model.NoLeader}
	s.deadline = c.b.rt.Now().Mono + model.Instant(patience)
	if cmd.Deadline != 0 {
		s.deadline = min(s.deadline, cmd.Deadline)
	}
	s.try()
}

// submission is a command on its way. One thing at a time happens to it: it
// waits for an answer, or for its next try.
type submission struct {
	c        *controllerChannel
	cmd      controller.Command
	done     quorum.Completion
	deadline model.Instant
	pause    model.Instant
	// asked is the node of the present try; refused the last one that was of no
	// use.
	asked, refused model.BrokerID
}

// try asks whoever is most likely to be the active controller.
func (s *submission) try() {
	b := s.c.b
	s.asked = s.c.likely(s.refused)
	if b.voter != nil && s.asked == b.config.NodeID {
		b.voter.Submit(s.cmd, s)
		return
	}
	at, ok := b.controllerAddress(s.asked)
	left := s.deadline - b.rt.Now().Mono
	if !ok || left <= 0 {
		s.again(quorum.ErrNotActive)
		return
	}
	class, key := classOf(s.cmd.Request)
	p := b.peers.get(at, class)
	if p == nil {
		s.again(quorum.ErrNotActive)
		return
	}
	req := transport.Request{Key: key, Version: privateVersion, Timeout: time.Duration(left), Done: s}
	switch r := s.cmd.Request.(type) {
	case *kmsg.BrokerRegistrationRequest:
		req.Body = appendRegistration(nil, r, s.cmd.Registration)
	case nil:
		req.Body = appendDamage(nil, s.cmd.Damage)
	default:
		millis := int32(-1)
		if s.cmd.Deadline != 0 && s.cmd.Deadline != model.Never {
			millis = int32(min(max(left/nanosPerMilli, 1), 1<<30))
		}
		req.Body = appendCommand(nil, command{s.cmd, millis})
	}
	p.Send(req)
}

// classOf says over which connection a request goes and as what. What keeps the
// broker in the cluster does not stand behind what clients want.
func classOf(req kmsg.Request) (transport.Class, int16) {
	switch req.(type) {
	case *kmsg.BrokerRegistrationRequest:
		return transport.ClassController, keyRegister
	case *kmsg.BrokerHeartbeatRequest, *kmsg.AlterPartitionRequest:
		return transport.ClassController, keyCommand
	case nil:
		return transport.ClassController, keyDamage
	}
	return transport.ClassForward, keyCommand
}

// decided turns what a quorum says of a command without a request, for which there
// is no response, into no error.
func decided(cmd *controller.Command, err error) error {
	if cmd.Request == nil && errors.Is(err, quorum.ErrUnserved) {
		return nil
	}
	return err
}

// likely returns the node that leads the quorum as far as this node knows, unless
// it was just of no use; else each controller in turn.
func (c *controllerChannel) likely(refused model.BrokerID) model.BrokerID {
	if leader := c.b.quorum.Describe().Leader; leader != model.NoLeader && leader != refused {
		return leader
	}
	others := c.b.controllers()
	if len(others) == 0 {
		return c.b.config.NodeID
	}
	return others[int(c.turn.Add(1))%len(others)]
}

// Done implements quorum.Completion: this node itself was asked.
func (s *submission) Done(resp kmsg.Response, at model.OffsetAndEpoch, err error) {
	if errors.Is(err, quorum.ErrFull) {
		err = nil // the response says so
	}
	s.c.b.confirmed(resp, decided(&s.cmd, err), func(err error) {
		if errors.Is(err, quorum.ErrNotActive) {
			s.again(err)
			return
		}
		s.done.Done(resp, at, err)
	})
}

// Received implements transport.Receiver: another node was asked.
func (s *submission) Received(a transport.Answer) {
	if a.Err != nil {
		if errors.Is(a.Err, transport.ErrClosed) {
			s.fail(quorum.ErrStopped)
			return
		}
		s.again(errors.Join(quorum.ErrNotActive, a.Err))
		return
	}
	o, err := decodeOutcome(s.cmd.Request, a.Body)
	a.Release()
	switch {
	case err != nil:
		s.again(errors.Join(quorum.ErrNotActive, err))
	case o.code == protocol.CodeNone:
		s.done.Done(o.resp, o.at, nil)
	case o.code == protocol.CodeUnsupportedVersion:
		s.fail(quorum.ErrUnserved)
	case o.code == protocol.CodeRequestTimedOut:
		s.fail(quorum.ErrTimedOut)
	default:
		s.again(quorum.ErrNotActive)
	}
}

// again waits a little and tries again, or gives up when the time is up.
func (s *submission) again(err error) {
	b := s.c.b
	// The second of two nodes in a row that are of no use makes the first one
	// worth another try.
	if s.refused == s.asked || s.asked != b.quorum.Describe().Leader {
		s.refused = model.NoLeader
	} else {
		s.refused = s.asked
	}
	at := b.rt.Now().Mono + s.pause
	if at >= s.deadline || b.halting.Load() {
		s.fail(err)
		return
	}
	s.pause = min(2*s.pause, tryAgainMax)
	b.rt.SetDeadline(s, at)
}

// TickAt implements loop.Ticker: the pause is over.
func (s *submission) TickAt(model.Now) {
	if r, ok := s.cmd.Request.(*kmsg.AlterPartitionRequest); ok && mutant.On("part-alter-rereads-epoch") {
		s.c.b.rereadEpochs(r)
	}
	s.try()
}

// fail ends it with the response that says so.
func (s *submission) fail(err error) {
	code := protocol.CodeNotController
	switch {
	case errors.Is(err, quorum.ErrUnserved):
		s.done.Done(nil, model.OffsetAndEpoch{}, err)
		return
	case errors.Is(err, quorum.ErrTimedOut), errors.Is(err, quorum.ErrNotActive):
		code = protocol.CodeRequestTimedOut
	}
	s.done.Done(controller.ErrorReply(s.cmd.Request, code, "no active controller was found in time"), model.OffsetAndEpoch{}, err)
}
