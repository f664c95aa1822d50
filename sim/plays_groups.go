package sim

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/transport"
)

// The plays here are about groups that have no members: an administrator commits for
// them, over connections of his own, one for each request.

// grouped reports whether there are groups, whose log others have as well.
func (w *World) grouped() bool {
	p := w.groupsPart()
	return p != nil && len(w.registration(p).Replicas) > 1 && !w.groupsVoid()
}

// groupsPart is the partition in which the groups are kept, nil if there is none.
func (w *World) groupsPart() *part {
	for _, p := range w.h.order {
		if p.tp.Topic == groupsTopic && !p.gone && w.registration(p) != nil {
			return p
		}
	}
	return nil
}

// coordinator returns who leads the groups, nil if nobody does.
func (y *play) coordinator() *machine {
	reg := y.w.registration(y.w.groupsPart())
	if reg.Leader == model.NoLeader {
		return nil
	}
	return y.w.machine(reg.Leader)
}

// ask sends a request to a machine over a new connection.
func (y *play) ask(m *machine, req kmsg.Request, version int16, done func(kmsg.Response, error)) {
	c := y.w.connect(m, func() {})
	if c == nil {
		y.w.at(0, func() { done(nil, errCut) })
		return
	}
	c.send(req, version, nil, func(resp kmsg.Response, err error) {
		if err == nil {
			c.cut()
		}
		done(resp, err)
	})
}

// commits commits an offset for a group without members; done is told the code.
func (y *play) commits(m *machine, group string, at int64, done func(code int16)) {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = y.p.tp.Topic
	q := kmsg.NewOffsetCommitRequestTopicPartition()
	q.Partition, q.Offset = y.p.tp.Partition, at
	t.Partitions = append(t.Partitions, q)
	req.Topics = append(req.Topics, t)
	y.ask(m, req, 8, func(resp kmsg.Response, err error) {
		code := protocol.CodeNetworkException
		if err == nil {
			code = resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
		}
		m.line("committed  %s at %d: code %d", group, at, code)
		done(code)
	})
}

// shows asks for a group's offset; done is told it, or -2 if there was no answer.
func (y *play) shows(m *machine, group string, done func(at int64)) {
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.Partitions = y.p.tp.Topic, []int32{y.p.tp.Partition}
	g.Topics = append(g.Topics, t)
	req.Groups = append(req.Groups, g)
	y.ask(m, req, 8, func(resp kmsg.Response, err error) {
		at := int64(-2)
		if err == nil {
			if got := &resp.(*kmsg.OffsetFetchResponse).Groups[0]; got.ErrorCode == protocol.CodeNone {
				at = got.Topics[0].Partitions[0].Offset
			}
		}
		m.line("shows      %s at %d", group, at)
		done(at)
	})
}

// served asks again until the coordinator shows a group's offset.
func (y *play) served(group string, next func(at int64)) {
	tries := 0
	var again func()
	again = func() {
		m := y.coordinator()
		if tries++; tries > 100 {
			y.end("no answer of a coordinator")
			return
		}
		if m == nil || !m.up() {
			y.after(50*millisecond, again)
			return
		}
		y.shows(m, group, func(at int64) {
			switch {
			case y.over:
			case at == -2:
				y.after(50*millisecond, again)
			default:
				next(at)
			}
		})
	}
	again()
}

// settled commits an offset for a group until that is acknowledged.
func (y *play) settled(group string, at int64, next func()) {
	tries := 0
	var again func()
	again = func() {
		m := y.coordinator()
		if tries++; tries > 100 {
			y.end("no commit")
			return
		}
		if m == nil || !m.up() {
			y.after(50*millisecond, again)
			return
		}
		y.commits(m, group, at, func(code int16) {
			switch {
			case y.over:
			case code != protocol.CodeNone:
				y.after(50*millisecond, again)
			default:
				next()
			}
		})
	}
	again()
}

// takenBack has the coordinator die, and its successor show no less than it has shown.
func (y *play) takenBack(old *machine, group string, shown int64) {
	w := y.w
	y.kill(old, deathKill, 20*second)
	y.wait("successor", stepMax, func() bool { m := y.coordinator(); return m != nil && m != old }, func() {
		w.net.hush = nil
		y.served(group, func(at int64) {
			if at < shown && !w.groupsVoid() {
				w.fail(11, "%s: committed is %d, %d was shown before", group, at, shown)
			}
			y.end("done")
		})
	})
}

// early: an offset is committed that no follower gets; it is asked for, and the
// coordinator dies.
func (y *play) early() {
	w := y.w
	group, one, two := "lone", 2*y.base(), 2*y.base()+1
	y.settled(group, one, func() {
		y.served(group, func(int64) {
			l := y.coordinator()
			if l == nil || !y.level(w.groupsPart()) {
				y.end("the groups are not in sync")
				return
			}
			y.unfollowed(l)
			y.after(5*millisecond, func() {
				y.commits(l, group, two, func(int16) {})
				y.after(10*millisecond+2*model.Instant(w.o.latency), func() {
					y.shows(l, group, func(at int64) {
						if !y.over {
							y.takenBack(l, group, at)
						}
					})
				})
			})
		})
	})
}

// unfollowed has nobody fetch from a machine.
func (y *play) unfollowed(m *machine) {
	y.w.net.hush = func(c transport.Class, _, to model.BrokerID) bool { return c == transport.ClassFetch && to == m.id }
}

// level reports whether all replicas of a partition are in sync.
func (y *play) level(p *part) bool {
	reg := y.w.registration(p)
	return reg.Leader != model.NoLeader && len(reg.ISR) == len(reg.Replicas)
}

// refused: an offset is committed when too few are in sync to take it, and another
// when they are back; the coordinator dies after that.
func (y *play) refused() {
	w := y.w
	group, one, two := "lone", 2*y.base(), 2*y.base()+1
	y.settled(group, one, func() {
		l := y.coordinator()
		if l == nil || !y.level(w.groupsPart()) {
			y.end("the groups are not in sync")
			return
		}
		y.setMinISR(l, func() {
			y.unfollowed(l)
			y.wait("coordinator by itself", stepMax, func() bool {
				reg := w.registration(w.groupsPart())
				return reg.Leader == l.id && len(reg.ISR) == 1
			}, func() {
				y.commits(l, group, two, func(code int16) {
					if code == protocol.CodeNone {
						w.fail(4, "%s: a commit is acknowledged that one alone has, min.insync.replicas is 2", group)
					}
					w.net.hush = nil
					y.wait("all in sync", stepMax, func() bool { return y.level(w.groupsPart()) }, func() {
						y.settled("another", one, func() {
							y.served(group, func(at int64) {
								if now := y.coordinator(); now == l {
									y.takenBack(l, group, at)
								} else {
									y.end("another coordinator")
								}
							})
						})
					})
				})
			})
		})
	})
}

// base is a number that is greater in each play.
func (y *play) base() int64 { return int64(y.w.acts[KindPlay]) }

// setMinISR has two replicas needed for what is written of groups.
func (y *play) setMinISR(m *machine, next func()) {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, groupsTopic
	cc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	cc.Name, cc.Op, cc.Value = "min.insync.replicas", kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr("2")
	res.Configs = append(res.Configs, cc)
	req.Resources = append(req.Resources, res)
	y.ask(m, req, 1, func(kmsg.Response, error) {})
	y.wait("two needed", stepMax, func() bool { return minISR(y.w.image(), groupsTopic) == 2 }, next)
}

// pastGeneration: a member commits in the name of a generation that is over.
func (y *play) pastGeneration() {
	w := y.w
	var m *member
	y.wait("member of a later generation", stepMax, func() bool {
		for _, c := range w.clients {
			if q, ok := c.(*member); ok && q.state == memberSettled && len(q.parts) > 0 && q.generation > 1 && !q.waiting && q.coordinator > 0 && q.to(q.coordinator) != nil {
				m = q
				return true
			}
		}
		return false
	}, func() {
		past := m.generation - 1
		req := m.committing(past, m.parts[0], int64(past)*generationStep)
		m.ask(m.to(m.coordinator), req, 7, func(resp kmsg.Response) {
			code := resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
			w.trace.line("play       a commit of the past: code %d", code)
			if code == protocol.CodeNone && !w.groupsVoid() {
				w.fail(11, "%s commits in generation %d of %s, which is over", m.name, past, m.group)
			}
		})
		y.after(500*millisecond, func() { y.end("done") })
	})
}
