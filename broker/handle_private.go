package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/quorum"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// What controller listeners serve: the private APIs, and those of Kafka's that
// only controllers answer.

// handlePrivate answers a request with a key of Tidemark's own. Those of the
// quorum (raft messages, image pulls, voter probes) are its own to answer.
func (b *Broker) handlePrivate(r *server.Request) {
	switch r.Header.Key {
	case keyRegister:
		cmd, err := decodeRegistration(r.Body)
		b.handleCommand(r, command{cmd: cmd, millis: -1}, err)
	case keyCommand:
		c, err := decodeCommand(r.Body)
		b.handleCommand(r, c, err)
	case keyDamage:
		cmd, err := decodeDamage(r.Body)
		b.handleCommand(r, command{cmd: cmd, millis: -1}, err)
	default:
		b.answerQuorum(r)
	}
}

// handleCommand carries out a command that another node sent, if this is the
// active controller.
func (b *Broker) handleCommand(r *server.Request, c command, err error) {
	if err != nil || r.Header.Version != privateVersion {
		r.CloseConn("private request can't be read")
		return
	}
	if c.millis >= 0 {
		c.cmd.Deadline = r.Received.Mono + model.Instant(c.millis)*nanosPerMilli
	}
	if b.voter == nil {
		r.ReplyRaw(appendOutcome(nil, outcome{code: protocol.CodeNotController}))
		return
	}
	b.watchBroker(r, c.cmd.Request)
	b.voter.Submit(c.cmd, &remoteCommand{b, r, c.cmd})
}

// remoteCommand is a command under way for another node.
type remoteCommand struct {
	b   *Broker
	r   *server.Request
	cmd controller.Command
}

// Done implements quorum.Completion.
func (c *remoteCommand) Done(resp kmsg.Response, at model.OffsetAndEpoch, err error) {
	c.b.confirmed(resp, decided(&c.cmd, err), func(err error) { c.reply(resp, at, err) })
}

func (c *remoteCommand) reply(resp kmsg.Response, at model.OffsetAndEpoch, err error) {
	o := outcome{code: codeOf(err), at: at, resp: resp}
	if o.resp != nil {
		o.resp.SetVersion(c.cmd.Request.GetVersion())
	}
	c.r.ReplyRaw(appendOutcome(nil, o))
}

// codeOf turns what a quorum says of an attempt into a code.
func codeOf(err error) protocol.Code {
	switch {
	case err == nil, errors.Is(err, quorum.ErrFull): // the response says that
		return protocol.CodeNone
	case errors.Is(err, quorum.ErrTimedOut):
		return protocol.CodeRequestTimedOut
	case errors.Is(err, quorum.ErrUnserved):
		return protocol.CodeUnsupportedVersion
	case errors.Is(err, quorum.ErrNotActive), errors.Is(err, quorum.ErrStopped):
		return protocol.CodeNotController
	}
	return protocol.CodeUnknownServerError
}

// handleController serves those APIs of Kafka's that brokers send to controllers:
// AlterPartition (56), BrokerRegistration (62), BrokerHeartbeat (63),
// AllocateProducerIds (67). This project's own brokers wrap them in private ones,
// which say more.
func (b *Broker) handleController(r *server.Request) {
	b.handleAsController(r, controller.Command{Request: r.Msg})
}

// handleAsController has the controller of this node decide.
func (b *Broker) handleAsController(r *server.Request, cmd controller.Command) {
	if b.voter == nil {
		replyOrClose(r, controller.ErrorReply(cmd.Request, protocol.CodeNotController, "this node has no vote"))
		return
	}
	b.watchBroker(r, cmd.Request)
	b.voter.Submit(cmd, completion(func(resp kmsg.Response, _ model.OffsetAndEpoch, _ error) { replyOrClose(r, resp) }))
}

// watchBroker notes that a connection is a broker's own, by the first heartbeat
// on it: if it breaks the broker may be gone, and is looked after at once.
func (b *Broker) watchBroker(r *server.Request, req kmsg.Request) {
	beat, ok := req.(*kmsg.BrokerHeartbeatRequest)
	if !ok || r.Conn.Session != nil {
		return
	}
	id := model.BrokerID(beat.BrokerID)
	r.Conn.Session = id
	r.Conn.OnClose(func() { b.prober.brokerLost(id) })
}

// confirmed has the acceptance of a heartbeat confirmed by the other voters before
// it is passed on: it is what lets a leader go on that has lost its followers.
func (b *Broker) confirmed(resp kmsg.Response, err error, done func(error)) {
	beat, ok := resp.(*kmsg.BrokerHeartbeatResponse)
	if !ok || err != nil || beat.ErrorCode != protocol.CodeNone {
		done(err)
		return
	}
	b.confirm(func(ok bool) {
		if ok {
			done(nil)
		} else {
			done(quorum.ErrNotActive)
		}
	})
}
