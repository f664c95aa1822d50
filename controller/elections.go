package controller

import (
	"fmt"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The types of election that a client may ask for. Source: KIP-460.
const (
	wantPreferred int8 = 0
	wantUnclean   int8 = 1
)

// electLeaders handles ElectLeaders v0–2: an administrator wants the preferred
// replicas to lead, or any at all. A null list is all partitions, of which those
// that are led as wished are not answered. Source: KIP-183, KIP-460.
func (c *Controller) electLeaders(view *metadata.Image, req *kmsg.ElectLeadersRequest) Result {
	kind := req.ElectionType
	if req.Version < 1 {
		kind = wantPreferred
	}
	if kind != wantPreferred && kind != wantUnclean {
		return Result{reply: ErrorReply(req, codeInvalidRequest, fmt.Sprintf("unknown election type %d", kind))}
	}
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	e := elector{c: c, s: c.settings(view), kind: kind, resp: resp, elected: map[model.TopicIDPartition]bool{}}
	if req.Topics == nil {
		e.all = true
		for t := range view.Topics() {
			e.topic(t.Name, t, nil)
		}
	} else {
		for i := range req.Topics {
			e.topic(req.Topics[i].Topic, view.Topic(req.Topics[i].Topic), req.Topics[i].Partitions)
		}
	}
	return Result{reply: resp, Units: chunked(e.recs)}
}

// elector carries one ElectLeaders through its partitions.
type elector struct {
	c       *Controller
	s       *settings
	kind    int8
	all     bool
	resp    *kmsg.ElectLeadersResponse
	recs    []metadata.Record
	elected map[model.TopicIDPartition]bool
}

// topic elects in the listed partitions of a topic, or in all of them.
func (e *elector) topic(name string, t *metadata.Topic, listed []int32) {
	out := kmsg.NewElectLeadersResponseTopic()
	out.Topic = name
	add := func(n int32) {
		err := e.partition(name, t, n)
		if e.all && err.code == codeElectionNotNeeded {
			return
		}
		p := kmsg.NewElectLeadersResponseTopicPartition()
		p.Partition, p.ErrorCode, p.ErrorMessage = n, err.code, err.text()
		out.Partitions = append(out.Partitions, p)
	}
	if e.all {
		for n := range t.Partitions {
			add(int32(n))
		}
	} else {
		for _, n := range listed {
			add(n)
		}
	}
	e.resp.Topics = append(e.resp.Topics, out)
}

func (e *elector) partition(name string, t *metadata.Topic, n int32) apiError {
	if t == nil {
		return apiError{codeUnknownTopicOrPartition, fmt.Sprintf("no topic %q", name)}
	}
	p := t.Partition(n)
	if p == nil {
		return apiError{codeUnknownTopicOrPartition, fmt.Sprintf("no partition %d of topic %q", n, name)}
	}
	ch := e.c.change(e.s, t, n)
	switch {
	case e.elected[ch.partition()]:
		return apiError{codeElectionNotNeeded, "the partition is listed twice"}
	case e.kind == wantPreferred && p.Leader == p.Replicas[0]:
		return apiError{codeElectionNotNeeded, "the preferred replica leads"}
	case e.kind == wantUnclean && p.Leader != model.NoLeader && !ch.remnant(p.Leader):
		return apiError{codeElectionNotNeeded, fmt.Sprintf("broker %d leads", p.Leader)}
	}
	ch.election = ElectPreferred
	if e.kind == wantUnclean {
		ch.election = ElectUncleanNow
	}
	if e.kind == wantUnclean && p.Leader != model.NoLeader {
		ch.lost, ch.isr = p.Leader, metadata.Without(p.ISR, p.Leader) // it is damaged, and gives way to whoever there is
	}
	r := ch.build()
	switch {
	case r != nil && e.kind == wantUnclean && p.Leader != model.NoLeader && r.Leader < 0:
		return apiError{codeEligibleLeadersNotAvailable, fmt.Sprintf("broker %d leads, damaged as it is; nobody else of %v can", p.Leader, p.Replicas)}
	case r != nil:
		e.recs, e.elected[ch.partition()] = append(e.recs, r), true
		return apiError{}
	case e.kind == wantPreferred:
		return apiError{codePreferredLeaderNotAvailable, fmt.Sprintf("broker %d is not in sync or not active", p.Replicas[0])}
	}
	return apiError{codeEligibleLeadersNotAvailable, fmt.Sprintf("none of the brokers %v is active", p.Replicas)}
}
