package broker

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/server"
)

// completion adapts a function to quorum.Completion.
type completion func(resp kmsg.Response, at model.OffsetAndEpoch, err error)

// Done implements quorum.Completion.
func (c completion) Done(resp kmsg.Response, at model.OffsetAndEpoch, err error) { c(resp, at, err) }

// submit hands a command to the active controller.
func (b *Broker) submit(cmd controller.Command, done completion) {
	b.controller.submit(cmd, b.config.Server.RequestTimeout, done)
}

// handleForward passes an admin request to the controller and answers with what
// it says. The response says of itself what went wrong, so an error needs no
// word of ours. Serves CreateTopics (19), DeleteTopics (20), AlterConfigs (33),
// CreatePartitions (37), ElectLeaders (43), IncrementalAlterConfigs (44), AlterClientQuotas (49),
// AlterPartitionReassignments (45), UpdateFeatures (57), UnregisterBroker (64),
// AddRaftVoter (80) and RemoveRaftVoter (81), whose rules stand in package
// controller.
//
// Every broker takes them and asks the active controller on the client's behalf
// (KIP-590). A controller that is asked itself and is not the active one says so.
func (b *Broker) handleForward(r *server.Request) {
	cmd := controller.Command{Request: r.Msg, Deadline: b.deadline(r, timeoutOf(r.Msg))}
	if b.config.IsController(r.Listener) {
		b.handleAsController(r, cmd)
		return
	}
	b.submitApplied(cmd, func(resp kmsg.Response, _ model.OffsetAndEpoch, _ error) { replyOrClose(r, resp) })
}

// replyOrClose answers, unless the controller did not know the request at all.
func replyOrClose(r *server.Request, resp kmsg.Response) {
	if resp == nil {
		r.CloseConn("the controller does not serve this request")
		return
	}
	r.Reply(resp)
}

// submitApplied is submit, but done is told only once this broker itself acts on
// what was decided: a client that was told of a new topic can produce to it
// here at once. A broker that is cut off from the metadata answers at the
// command's deadline all the same.
func (b *Broker) submitApplied(cmd controller.Command, done completion) {
	b.submit(cmd, func(resp kmsg.Response, at model.OffsetAndEpoch, err error) {
		if err != nil {
			done(resp, at, err)
			return
		}
		a := &appliedReply{b: b, done: done, resp: resp, at: at}
		until := b.rt.Now().Mono + model.Instant(b.config.Server.RequestTimeout)
		if cmd.Deadline != 0 {
			until = min(until, cmd.Deadline)
		}
		b.rt.SetDeadline(a, until)
		b.publisher.await(at.Offset, a)
	})
}

// appliedReply is the answer to a command, held until the command is in force or
// its time is up.
type appliedReply struct {
	b    *Broker
	done completion
	resp kmsg.Response
	at   model.OffsetAndEpoch
	told atomic.Bool
}

// Deliver implements loop.Delivery: it is in force.
func (a *appliedReply) Deliver(model.Now) {
	if !a.told.Swap(true) {
		a.b.rt.SetDeadline(a, model.Never)
		a.done(a.resp, a.at, nil)
	}
}

// TickAt implements loop.Ticker: the time is up.
func (a *appliedReply) TickAt(model.Now) {
	if !a.told.Swap(true) {
		a.done(a.resp, a.at, nil)
	}
}

// deadline returns when a request that may take so long has taken too long.
func (b *Broker) deadline(r *server.Request, millis int32) model.Instant {
	if millis <= 0 {
		return model.Never
	}
	return r.Received.Mono + model.Instant(millis)*nanosPerMilli
}

const nanosPerMilli = 1_000_000

// timeoutOf returns the timeout that an admin request carries, in milliseconds.
func timeoutOf(m kmsg.Request) int32 {
	if t, ok := m.(kmsg.TimeoutRequest); ok {
		return t.Timeout()
	}
	return 0
}

// controllerHeard tells the partitions that an active controller has confirmed
// its term after an instant.
func (b *Broker) controllerHeard(at model.Instant) { b.replicas.ControllerHeard(at) }
