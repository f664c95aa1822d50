package sim

import (
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/protocol"
)

// move has a partition's replicas moved, or its leader elected.
func (a *admin) move(c *conn) {
	w := a.world
	ts := w.targets()
	if len(ts) == 0 {
		return
	}
	to := pick(w.clientRand, ts)
	if w.clientRand.IntN(2) == 0 {
		a.elect(c, to, 0)
		return
	}
	a.reassign(c, to)
}

// relax changes what a topic promises: how many must hold a record, or whether a
// leader may be elected that lacks some. It reports whether it has done anything.
func (a *admin) relax(c *conn) bool {
	w, r := a.world, a.world.clientRand
	t := a.topics[pick(r, a.names)]
	if t.churn || !t.exists || t.unsure {
		return false
	}
	switch k := pick(r, []Kind{KindMinISR, KindUnclean}); {
	case !w.o.on[k]:
		return false
	case k == KindMinISR:
		w.counts.kind[k]++
		a.set(c, t, "min.insync.replicas", utoa(uint64(1+r.IntN(w.o.replicas))))
	case r.IntN(2) == 0:
		w.counts.kind[k]++
		a.set(c, t, "unclean.leader.election.enable", pick(r, []string{"true", "false", "false"}))
	default:
		ts := w.targets()
		to := pick(r, ts)
		p := w.partOf(to)
		if p == nil {
			return false
		}
		w.counts.kind[k]++
		p.sacrificed = w.sim.Now()
		a.elect(c, to, 1)
	}
	return true
}

// elect asks for the election of the preferred leader, or with kind 1 for one
// that may lose records.
func (a *admin) elect(c *conn, to target, kind int8) {
	req := kmsg.NewPtrElectLeadersRequest()
	req.ElectionType, req.TimeoutMillis = kind, adminTimeout
	t := kmsg.NewElectLeadersRequestTopic()
	t.Topic, t.Partitions = to.topic, []int32{to.partition}
	req.Topics = append(req.Topics, t)
	a.send(c, req, pick(a.world.clientRand, []int16{1, 2}))
}

// reassign gives a partition other replicas, or takes a reassignment back.
func (a *admin) reassign(c *conn, to target) {
	r := a.world.clientRand
	var replicas []int32
	if r.IntN(5) > 0 {
		replicas = draw(r, len(a.world.machines), 1+r.IntN(min(3, len(a.world.machines))))
	}
	a.assign(c, to, replicas)
}

// assign gives a partition these replicas, or takes a reassignment back for none.
func (a *admin) assign(c *conn, to target, replicas []int32) {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = adminTimeout
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic = to.topic
	q := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	q.Partition, q.Replicas = to.partition, replicas
	t.Partitions = append(t.Partitions, q)
	req.Topics = append(req.Topics, t)
	a.send(c, req, 0)
}

// draw returns k of the brokers 1 to n, in any order.
func draw(r *rand.Rand, n, k int) (ids []int32) {
	for _, i := range r.Perm(n)[:k] {
		ids = append(ids, int32(i+1))
	}
	return ids
}

// send sends a request whose effect is seen in the metadata.
func (a *admin) send(c *conn, req kmsg.Request, version int16) {
	a.waiting = true
	answered := false
	a.watch(c, &answered)
	a.world.counts.admin++
	c.send(req, version, func(resp kmsg.Response) {
		c.node.m.line("admin      %s: code %d", kmsg.NameForKey(req.Key()), moveCode(resp))
	}, func(kmsg.Response, error) { answered, a.waiting = true, false })
}

// moveCode returns the error that an answer carries of the whole or of its only
// partition.
func moveCode(resp kmsg.Response) int16 {
	switch r := resp.(type) {
	case *kmsg.ElectLeadersResponse:
		if r.ErrorCode == protocol.CodeNone && len(r.Topics) > 0 && len(r.Topics[0].Partitions) > 0 {
			return r.Topics[0].Partitions[0].ErrorCode
		}
		return r.ErrorCode
	case *kmsg.AlterPartitionAssignmentsResponse:
		if r.ErrorCode == protocol.CodeNone && len(r.Topics) > 0 && len(r.Topics[0].Partitions) > 0 {
			return r.Topics[0].Partitions[0].ErrorCode
		}
		return r.ErrorCode
	}
	return protocol.CodeNone
}
