package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
)

// alterSender carries AlterPartition proposals to the active controller: one
// request at a time, with whatever has gathered meanwhile. A proposal is sent
// until the controller has answered it; what a partition proposes later takes the
// place of what it proposed before. It is a host.AlterSender.
type alterSender struct {
	b   *Broker
	box *loop.Box[alterMsg]

	// What follows belongs to the loop.

	waiting []alterProposal // in the order in which they came, one a partition
	sent    []alterProposal // of the request under way
	out     bool            // a request is under way
	next    model.Instant   // when waiting ones are sent again; Never: at once
	pause   model.Instant
}

type alterProposal struct {
	h *host.Hosted
	a *partition.AlterPartition
}

// alterMsg is a message to alterSender: a proposal, or the answer to the request
// under way.
type alterMsg struct {
	proposal alterProposal
	answered bool
	resp     *kmsg.AlterPartitionResponse // nil: no answer came
}

func newAlterSender(b *Broker) *alterSender {
	s := &alterSender{b: b, next: model.Never, pause: tryAgainMin}
	s.box = loop.NewBox[alterMsg](s, b.rt)
	return s
}

// SendAlter implements host.AlterSender.
func (s *alterSender) SendAlter(h *host.Hosted, a *partition.AlterPartition) {
	s.box.Post(alterMsg{proposal: alterProposal{h, a}})
}

// Handle implements loop.Handler.
func (s *alterSender) Handle(now model.Now, msg alterMsg, out *loop.Outbox) {
	if msg.answered {
		s.out = false
		s.answered(now, msg.resp, out)
	} else {
		s.wait(msg.proposal, true)
	}
	if !s.out && s.next == model.Never {
		s.send(out)
	}
}

// wait adds a proposal. A newer one of the same partition stays or takes its
// place.
func (s *alterSender) wait(p alterProposal, newer bool) {
	for i := range s.waiting {
		if s.waiting[i].h == p.h {
			if newer {
				s.waiting[i] = p
			}
			return
		}
	}
	s.waiting = append(s.waiting, p)
}

// NextDeadline implements loop.Handler.
func (s *alterSender) NextDeadline() model.Instant { return s.next }

// Tick implements loop.Handler: the pause after a failure is over.
func (s *alterSender) Tick(_ model.Now, out *loop.Outbox) {
	s.next = model.Never
	if !s.out {
		s.send(out)
	}
}

func (s *alterSender) send(out *loop.Outbox) {
	if len(s.waiting) == 0 {
		return
	}
	s.sent, s.waiting, s.out = s.waiting, nil, true
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version = 3
	req.BrokerID, req.BrokerEpoch = int32(s.b.config.NodeID), int64(s.b.epoch())
	topics := make(map[model.TopicID]int)
	for _, p := range s.sent {
		id := p.h.ID()
		at, ok := topics[id.TopicID]
		if !ok {
			at = len(req.Topics)
			topics[id.TopicID] = at
			rt := kmsg.NewAlterPartitionRequestTopic()
			rt.TopicID = id.TopicID
			req.Topics = append(req.Topics, rt)
		}
		req.Topics[at].Partitions = append(req.Topics[at].Partitions, alterPartition(id.Partition, p.a))
	}
	out.Add(&alterRequest{s, req})
}

func alterPartition(n int32, a *partition.AlterPartition) kmsg.AlterPartitionRequestTopicPartition {
	rp := kmsg.NewAlterPartitionRequestTopicPartition()
	rp.Partition, rp.LeaderEpoch, rp.PartitionEpoch = n, int32(a.LeaderEpoch), int32(a.PartitionEpoch)
	for _, m := range a.ISR {
		ri := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		ri.BrokerID, ri.BrokerEpoch = int32(m.ID), int64(m.Epoch)
		rp.NewEpochISR = append(rp.NewEpochISR, ri)
	}
	return rp
}

// alterPatience is how long one request looks for the controller before the
// proposals are gathered anew.
const alterPatience = 5 * time.Second

// alterRequest hands a request to the controller after the loop was released.
type alterRequest struct {
	s   *alterSender
	req *kmsg.AlterPartitionRequest
}

// Deliver implements loop.Delivery.
func (r *alterRequest) Deliver(model.Now) {
	r.s.b.controller.submit(controller.Command{Request: r.req}, alterPatience, completion(func(resp kmsg.Response, _ model.OffsetAndEpoch, err error) {
		msg := alterMsg{answered: true}
		if err == nil {
			msg.resp, _ = resp.(*kmsg.AlterPartitionResponse)
		}
		r.s.box.Post(msg)
	}))
}

// answered tells each partition its answer; what was not decided is sent again
// after a pause.
func (s *alterSender) answered(now model.Now, resp *kmsg.AlterPartitionResponse, out *loop.Outbox) {
	sent := s.sent
	s.sent = nil
	undecided := resp == nil || resp.ErrorCode != protocol.CodeNone
	if undecided && resp != nil {
		s.b.logger.Warn("proposals of in-sync sets refused", zap.Int16("code", resp.ErrorCode), zap.Int("partitions", len(sent)))
	}
	codes := make(map[model.TopicIDPartition]protocol.Code)
	if !undecided {
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				rp := &resp.Topics[i].Partitions[j]
				codes[model.TopicIDPartition{TopicID: resp.Topics[i].TopidID, Partition: rp.Partition}] = rp.ErrorCode
			}
		}
	}
	for _, p := range sent {
		code, ok := codes[p.h.ID()]
		if !ok || undecidedCode(code) {
			undecided = true
			s.wait(p, false)
			continue
		}
		out.Add(&alterAnswer{p.h, partition.AlterAnswer{Token: p.a.Token, Code: code}})
	}
	if !undecided {
		s.pause = tryAgainMin
		return
	}
	s.next = now.Mono + s.pause
	s.pause = min(2*s.pause, tryAgainMax)
}

// undecidedCode reports whether a partition's code says that the controller has
// not looked at the proposal.
func undecidedCode(c protocol.Code) bool {
	switch c {
	case protocol.CodeNotController, protocol.CodeRequestTimedOut, protocol.CodeUnknownServerError:
		return true
	}
	return false
}

// alterAnswer tells a partition after the loop was released.
type alterAnswer struct {
	h *host.Hosted
	a partition.AlterAnswer
}

// Deliver implements loop.Delivery.
func (a *alterAnswer) Deliver(model.Now) { a.h.AlterAnswered(a.a) }

// rereadEpochs is for a mutant: a request that is sent again names the
// incarnations that are registered by now, not those whose offsets were observed.
func (b *Broker) rereadEpochs(r *kmsg.AlterPartitionRequest) {
	img := b.Image()
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			for k := range r.Topics[i].Partitions[j].NewEpochISR {
				m := &r.Topics[i].Partitions[j].NewEpochISR[k]
				if reg := img.Broker(model.BrokerID(m.BrokerID)); reg != nil {
					m.BrokerEpoch = int64(reg.Epoch)
				}
			}
		}
	}
}
