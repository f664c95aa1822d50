package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/transport"
)

// Faults that are drawn one by one seldom come in the order in which replication
// is hard: who leads must go just when another has fallen behind, or has just
// caught up, or has not heard of the last election. The stories here bring such
// orders about, and the reflexes answer what the metadata says at once.

// cast is who plays in a story about a partition.
type cast struct {
	w         *World
	p         *part
	leader    *machine
	followers []*machine // in any order
}

// castOf returns who holds a partition now, ok if somebody leads it and others
// follow.
func (w *World) castOf(r *rand.Rand, p *part) (c cast, ok bool) {
	c = cast{w: w, p: p}
	reg := w.registration(p)
	if reg == nil {
		return c, false
	}
	for _, b := range reg.Replicas {
		if m := w.machine(b); b == reg.Leader {
			c.leader = m
		} else {
			c.followers = append(c.followers, m)
		}
	}
	r.Shuffle(len(c.followers), func(i, j int) { c.followers[i], c.followers[j] = c.followers[j], c.followers[i] })
	return c, c.leader != nil && len(c.followers) > 0
}

// story tells one of the stories.
func (w *World) story(r *rand.Rand, p *part) {
	c, ok := w.castOf(r, p)
	if !ok {
		return
	}
	lag := model.Instant(w.o.lag)
	f := c.followers[0]
	n := r.IntN(10)
	w.trace.line("story      %d of %v, which %d leads, about %d", n, p.tp, c.leader.id, f.id)
	switch n {
	case 0: // a follower falls behind until it is left out, and its leader goes
		d := lag + exp(r, lag)
		c.cut(r, c.leader, f, d)
		w.at(d, func() { c.again(r, deathKill) })
	case 1: // it comes back while the controller is far away, and is cut off again
		d := lag + lag/2 + exp(r, lag)
		open := exp(r, lag/4) + 4*model.Instant(w.o.latency)
		c.cut(r, c.leader, f, d)
		w.at(d, func() {
			c.fromControllers(r, c.leader, 2*lag)
			w.at(open, func() { c.cut(r, c.leader, f, lag+exp(r, 2*lag)) })
		})
	case 2: // leader after leader dies
		c.chase(r, 2+r.IntN(3), deathKill)
	case 3: // two take turns, never both up
		c.turns(r, 2+r.IntN(3))
	case 4: // who is left alone loses power
		for _, f := range c.followers {
			f.fell(deathKill, lag+exp(r, lag))
		}
		w.at(exp(r, lag), func() { c.again(r, deathPower) })
	case 5: // one doesn't hear of the elections
		w.net.lag(r, f.id, second+exp(r, 2*second))
		if r.IntN(2) == 0 {
			c.cut(r, c.leader, f, exp(r, second))
		}
		c.chase(r, 2+r.IntN(2), deathKill)
	case 6: // the leader is replaced while it can't hear of it
		c.fromControllers(r, c.leader, second+exp(r, 2*second))
		w.net.lag(r, c.leader.id, second+exp(r, 2*second))
	case 7: // what one sent is read after elections
		w.net.orphan(r, f.id, c.leader.id)
		c.chase(r, 2, deathKill)
	case 8: // a follower comes back without its last records, which were in time
		d := lag + exp(r, lag)
		c.cut(r, c.leader, f, d)
		w.at(d+exp(r, lag/4), func() { f.fell(deathPower, exp(r, 10*millisecond)) })
	case 9: // the preferred leader leads for a moment, of which the old and new one hears late
		c.interlude(r)
	}
}

// fell ends a process, for at least so long.
func (m *machine) fell(d death, down model.Instant) {
	if m.node == nil || m.faults.dying != deathNone || m.world.phase != safety || !m.world.o.on[map[death]Kind{deathKill: KindKill, deathPower: KindPower}[d]] {
		return
	}
	m.world.counts.kind[map[death]Kind{deathKill: KindKill, deathPower: KindPower}[d]]++
	m.held = m.world.sim.Now() + down
	m.end(d, nil)
}

// again ends whoever leads by now.
func (c *cast) again(r *rand.Rand, d death) {
	if now, ok := c.w.castOf(r, c.p); ok && c.w.phase == safety {
		now.leader.fell(d, exp(r, pick(r, []model.Instant{20 * millisecond, 300 * millisecond, second})))
	}
}

// chase ends one leader after another, each soon after it was elected.
func (c *cast) chase(r *rand.Rand, times int, d death) {
	c.again(r, d)
	before := c.leader
	tries := 0
	var next func()
	next = func() {
		reg := c.w.registration(c.p)
		if tries++; times == 0 || tries > 100 || c.w.phase != safety || reg == nil {
			return
		}
		if m := c.w.machine(reg.Leader); m != nil && m != before && m.node != nil {
			before = m
			times--
			c.w.at(exp(r, 20*millisecond), func() { c.again(r, d) })
		}
		c.w.at(20*millisecond, next)
	}
	c.w.at(10*millisecond, next)
}

// interlude has the preferred leader elected and killed, while the one that leads
// before and after hears of neither, and what its follower last sent reaches it
// afterwards.
func (c *cast) interlude(r *rand.Rand) {
	w := c.w
	reg := w.registration(c.p)
	first := w.machine(reg.Replicas[0])
	to := target{topic: c.p.tp.Topic, partition: c.p.tp.Partition}
	conn := w.admin.any()
	if first == c.leader || !reg.InISR(first.id) || conn == nil || w.admin.waiting {
		return
	}
	f := c.followers[0]
	if f == first && len(c.followers) > 1 {
		f = c.followers[1]
	}
	w.net.block(c.leader.id, first.id, 20*millisecond+exp(r, 50*millisecond))
	w.at(exp(r, 40*millisecond), func() {
		if w.phase != safety || w.admin.waiting || conn.dead {
			return
		}
		w.net.lag(r, c.leader.id, 200*millisecond+exp(r, 300*millisecond))
		w.net.orphan(r, f.id, c.leader.id)
		w.admin.elect(conn, to, 0)
		w.at(20*millisecond+exp(r, 50*millisecond), func() { first.fell(deathKill, second) })
	})
}

// turns has two replicas lead in turn, each without the other and without all
// the rest.
func (c *cast) turns(r *rand.Rand, times int) {
	w, long := c.w, 3*second
	a, b := c.leader, c.followers[0]
	for _, m := range c.followers[1:] {
		m.fell(deathKill, long)
	}
	tries := 0
	since := w.sim.Now()
	rule := exp(r, 50*millisecond) // how long it leads alone
	var next func()
	next = func() {
		if tries++; tries > 300 || times == 0 || w.phase != safety {
			a.held, b.held = 0, 0
			return
		}
		reg := w.registration(c.p)
		if reg == nil || reg.Leader != a.id || a.node == nil {
			since = w.sim.Now()
		}
		if w.sim.Now()-since > rule {
			a.fell(deathKill, 2*second)
			b.held = 0
			w.at(exp(r, 10*millisecond), b.boot)
			a, b = b, a
			times--
			rule = exp(r, 50*millisecond)
		}
		w.at(10*millisecond, next)
	}
	b.fell(deathKill, 2*second)
	w.at(10*millisecond, next)
}

// cut blocks the way between two, one way or both, for a while.
func (c *cast) cut(r *rand.Rand, a, b *machine, d model.Instant) {
	if c.w.phase != safety {
		return
	}
	way := r.IntN(3)
	if way != 1 {
		c.w.net.block(a.id, b.id, d)
	}
	if way != 0 {
		c.w.net.block(b.id, a.id, d)
	}
}

// fromControllers slows down what a machine says to the quorum's members, or
// what they say to it.
func (c *cast) fromControllers(r *rand.Rand, m *machine, d model.Instant) {
	if c.w.phase != safety {
		return
	}
	back := r.IntN(2) == 0
	for i := range c.w.o.voters {
		from, to := m.id, model.BrokerID(i+1)
		if from == to {
			continue
		}
		if back {
			from, to = to, from
		}
		c.w.net.clog(r, from, to, d)
	}
}

// react answers a step of a partition's metadata.
func (w *World) react(p *part, was, reg *metadata.PartitionRegistration) {
	if was == nil || w.phase != safety || !w.o.on[KindReflex] || len(reg.Replicas) < 2 || w.o.focus && p != w.victim() {
		return
	}
	joined := slices.DeleteFunc(slices.Clone(reg.ISR), was.InISR)
	left := slices.DeleteFunc(slices.Clone(was.ISR), reg.InISR)
	if len(joined)+len(left) == 0 && reg.Leader == was.Leader {
		return
	}
	w.act(KindReflex, func(r *rand.Rand) {
		if r.IntN(100) >= w.o.reflex {
			return
		}
		c, ok := w.castOf(r, p)
		if !ok {
			return
		}
		soon := exp(r, pick(r, []model.Instant{millisecond, 5 * millisecond, 30 * millisecond, 200 * millisecond}))
		n := r.IntN(8)
		w.trace.line("reflex     %d to joined %v, left %v of %v in %d ms", n, joined, left, p.tp, soon/millisecond)
		w.counts.kind[KindReflex]++
		w.at(soon, func() {
			if w.phase == safety {
				c.reflex(r, n, joined, left)
			}
		})
	})
}

func (c *cast) reflex(r *rand.Rand, n int, joined, left []model.BrokerID) {
	w, lag := c.w, model.Instant(c.w.o.lag)
	f := c.followers[0]
	if len(joined) > 0 && joined[0] != c.leader.id {
		f = w.machine(joined[0])
	} else if len(left) > 0 && left[0] != c.leader.id && r.IntN(2) == 0 {
		f = w.machine(left[0])
	}
	down := exp(r, pick(r, []model.Instant{10 * millisecond, 100 * millisecond, second}))
	switch n {
	case 0, 1, 2:
		c.leader.fell(deathKill, down)
	case 3:
		c.leader.fell(deathPower, down)
	case 4:
		f.fell(deathKill, down)
	case 5:
		f.fell(deathPower, down)
	case 6:
		c.cut(r, c.leader, f, exp(r, lag))
	case 7:
		w.net.lag(r, f.id, exp(r, 2*second))
	}
}

// keyCommand is the private API in which a broker's requests to the active
// controller travel; docs/formats/private.md.
const keyCommand = 20004

// command returns the key of the request that a frame to the active controller
// carries, -1 if it is something else.
func (s *stream) command(frame []byte) int16 {
	at := commandAt(frame)
	if s.class != transport.ClassController || at < 0 {
		return -1
	}
	return int16(binary.BigEndian.Uint16(frame[at:]))
}

// commandAt returns where the request begins that a frame of the private API
// carries, -1 if it is another frame.
func commandAt(frame []byte) int {
	const client = protocol.FrameSizeLen + 2 + 2 + 4 // where the client's id begins
	if len(frame) < client+2 || binary.BigEndian.Uint16(frame[protocol.FrameSizeLen:]) != keyCommand {
		return -1
	}
	at := client + 2 + int(binary.BigEndian.Uint16(frame[client:])) + 1 // no tagged fields
	if len(frame) < at+8 {
		return -1
	}
	return at
}

// wish reads a leader's wish to change ISRs from a frame, nil if it is another.
func (s *stream) wish(frame []byte) *kmsg.AlterPartitionRequest {
	if s.command(frame) != protocol.KeyAlterPartition {
		return nil
	}
	at := commandAt(frame)
	req := kmsg.NewPtrAlterPartitionRequest()
	req.SetVersion(int16(binary.BigEndian.Uint16(frame[at+2:])))
	if req.ReadFrom(frame[at+8:]) != nil {
		return nil
	}
	return req
}

// subject is whom a wish is about: a partition, and whoever it would take in, or
// else some follower.
func (w *World) subject(r *rand.Rand, req *kmsg.AlterPartitionRequest) (c cast, f *machine) {
	t := &req.Topics[r.IntN(len(req.Topics))]
	q := &t.Partitions[r.IntN(len(t.Partitions))]
	p := w.h.parts[model.TopicIDPartition{TopicID: t.TopicID, Partition: q.Partition}]
	if p == nil {
		return c, nil
	}
	c, ok := w.castOf(r, p)
	if !ok {
		return c, nil
	}
	reg := w.registration(p)
	for _, m := range q.NewEpochISR {
		if id := model.BrokerID(m.BrokerID); !reg.InISR(id) && id != c.leader.id {
			return c, w.machine(id)
		}
	}
	return c, c.followers[0]
}

// altering does something to a wish to change ISRs that is about to be sent, or
// to those whom it is about.
func (s *stream) altering(r *rand.Rand, req *kmsg.AlterPartitionRequest) {
	w := s.net.world
	lag := model.Instant(w.o.lag)
	n := r.IntN(10)
	c, f := w.subject(r, req)
	if n > 6 || f == nil {
		return
	}
	w.counts.kind[KindAlter]++
	w.trace.line("alter      %d to what %d wants of %v, about %d", n, s.from.m.id, c.p.tp, f.id)
	soon := exp(r, 5*millisecond)
	switch n {
	case 0: // it is under way for long
		s.requests.last += exp(r, 2*lag)
	case 1: // its answer is
		w.at(soon, func() { s.answers.last = max(s.answers.last, w.sim.Now()) + exp(r, 2*lag) })
	case 2, 3: // it is sent again, and the first one comes when all is different
		late := lag + exp(r, lag)
		w.at(0, func() {
			if !s.here && s.local != nil && !s.there {
				s.orphaned(late)
			}
		})
		w.at(10*soon, func() { c.cut(r, c.leader, f, late+lag) })
	case 4: // who is meant has other records when it comes
		d := exp(r, lag)
		s.requests.last += 20*millisecond + d
		w.at(soon, func() {
			f.fell(deathPower, exp(r, 10*millisecond))
			c.cut(r, c.leader, f, d+lag)
		})
	case 5: // so, and the controller doesn't answer the first time
		d := exp(r, lag)
		s.answers.last = max(s.answers.last, w.sim.Now()) + d
		w.at(soon, func() {
			f.fell(deathPower, exp(r, 10*millisecond))
			s.to.fell(deathKill, exp(r, d))
			c.cut(r, c.leader, f, d+lag)
		})
	case 6: // who is meant doesn't fetch any more
		s.requests.last += exp(r, 2*lag)
		w.at(soon, func() { c.cut(r, c.leader, f, lag+exp(r, 2*lag)) })
	}
}
