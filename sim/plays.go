package sim

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/transport"
)

// some draws how long a step of a play lasts that need not be long.
func (y *play) some() model.Instant {
	return exp(y.r, pick(y.r, []model.Instant{millisecond, 5 * millisecond, 30 * millisecond}))
}

// lateVoice: the leader is replaced and comes back with its log as it was, while a
// follower has cut its own for the one between; what that follower said before
// comes only then.
func (y *play) lateVoice() {
	w, old, f, other := y.w, y.leader, y.follower, y.other
	y.reorder([]model.BrokerID{other.id, old.id, f.id}, func() {
		y.part(old, other, 20*second)
		y.wait("records that one lacks", model.Instant(w.o.lag)*3/4, func() bool {
			return y.endOf(f) > y.endOf(other) && y.endOf(f) > y.markOf(old)
		}, func() {
			w.net.hush = func(c transport.Class, from, to model.BrokerID) bool {
				return c == transport.ClassFetch && from == f.id && to == old.id
			}
			y.after(15*millisecond+2*y.some(), func() { y.hearsLate(old, f, other) })
		})
	})
}

func (y *play) hearsLate(old, f, other *machine) {
	w := y.w
	had := y.endOf(f)
	if had <= y.endOf(other) || had <= y.markOf(old) || f.node == nil {
		y.end("all have it")
		return
	}
	for _, s := range slices.Clone(w.net.streams) {
		if s.from == f.node && s.to == old && s.local != nil && !s.there && s.class == transport.ClassFetch {
			y.pin(s)
			s.orphaned(0)
		}
	}
	y.elect()
	y.wait("cut log", second, func() bool { return y.leads(other) && y.endOf(f) < had }, func() {
		y.kill(other, deathKill, 2*second)
		y.wait("return of the old leader", stepMax, func() bool { return y.leads(old) }, func() {
			for _, s := range y.pinned {
				s.unpin()
			}
			y.after(100*millisecond, func() { y.end("done") })
		})
	})
}

// reborn: a leader wants a follower back in the ISR that loses power before the
// controller hears of it. The wish comes when the follower's next incarnation is
// registered, or is lost and has to be repeated then.
func (y *play) reborn(lost bool) {
	f := y.follower
	y.kill(f, deathKill, 2*second)
	y.wait("ISR without it", stepMax, func() bool { return !y.reg().InISR(f.id) && !y.reg().InELR(f.id) }, func() {
		y.after(10*y.some(), func() {
			y.wished = func(s *stream, req *kmsg.AlterPartitionRequest) {
				if !y.wants(req, f) {
					return
				}
				y.wished = nil
				y.pin(s)
				y.after(y.some(), func() { y.wiped(s, f, lost) })
			}
			y.raise(f)
			y.wait("wish", stepMax, func() bool { return y.wished == nil }, func() {})
		})
	})
}

// wants reports whether a wish would have a machine join the partition's ISR.
func (y *play) wants(req *kmsg.AlterPartitionRequest, m *machine) bool {
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			q := &req.Topics[i].Partitions[j]
			if req.Topics[i].TopicID == y.p.id.TopicID && q.Partition == y.p.id.Partition && !y.reg().InISR(m.id) &&
				slices.ContainsFunc(q.NewEpochISR, func(e kmsg.AlterPartitionRequestTopicPartitionNewEpochISR) bool {
					return model.BrokerID(e.BrokerID) == m.id
				}) {
				return true
			}
		}
	}
	return false
}

// wiped has a follower lose its power while a wish about it is under way.
func (y *play) wiped(s *stream, f *machine, lost bool) {
	w := y.w
	y.part(y.leader, f, 10*second)
	f.end(deathPower, nil)
	y.raise(f)
	y.wait("next incarnation", second, func() bool {
		return y.active(f) && (!lost || y.leader.node != nil && y.leader.node.broker.Image().At().Offset >= w.meta.img.At().Offset)
	}, func() {
		if lost {
			w.net.reset(s.from.m.id, s.to.id)
		} else {
			s.unpin()
		}
		y.after(300*millisecond, func() { y.join(y.leader, f); y.end("done") })
	})
}

// outdatedWish: a wish to take a follower in comes twice, the second time when
// the follower was left out again.
func (y *play) outdatedWish() {
	w, f := y.w, y.follower
	y.kill(f, deathKill, 2*second)
	y.wait("ISR without it", stepMax, func() bool { return !y.reg().InISR(f.id) }, func() {
		y.raise(f)
		y.wished = func(s *stream, req *kmsg.AlterPartitionRequest) {
			if !y.wants(req, f) {
				return
			}
			y.wished = nil
			y.pin(s)
			w.at(0, func() {
				if !s.here {
					s.orphaned(0)
				}
			})
			y.wait("repeated wish", stepMax, func() bool { return y.reg().InISR(f.id) }, func() { y.leftOut(s, f) })
		}
		y.wait("wish", stepMax, func() bool { return y.wished == nil }, func() {})
	})
}

func (y *play) leftOut(s *stream, f *machine) {
	lag := model.Instant(y.w.o.lag)
	y.part(y.leader, f, 10*second)
	y.wait("ISR without it again", 4*lag+second, func() bool { return !y.reg().InISR(f.id) }, func() {
		y.wait("acknowledgements without it", second, func() bool { return y.endOf(f) >= 0 && y.p.acked > y.endOf(f) }, func() {
			s.unpin()
			y.after(300*millisecond, func() { y.join(y.leader, f); y.end("done") })
		})
	})
}

// belowStart: a leader that had records for itself comes back when its successor
// has deleted all up to its own end, and is taken in and elected before it hears
// where the log starts.
func (y *play) belowStart() {
	w, old := y.w, y.leader
	for _, m := range w.machines {
		if m != old && y.reg().HasReplica(m.id) {
			y.part(old, m, 10*second)
		}
	}
	y.wait("records for itself", model.Instant(w.o.lag)*3/4, func() bool {
		for _, b := range y.reg().Replicas {
			if m := w.machine(b); m != old && y.endOf(m)+4 > y.endOf(old) {
				return false
			}
		}
		return true
	}, func() {
		w.quiet = settling
		y.after(20*millisecond, func() {
			end := y.endOf(old)
			w.quiet = silent
			y.kill(old, deathKill, 20*second)
			for _, m := range w.machines {
				y.join(old, m)
			}
			y.wait("successor", stepMax, func() bool {
				reg := y.reg()
				return reg.Leader > 0 && reg.Leader != old.id && y.leads(w.machine(reg.Leader))
			}, func() {
				now := w.machine(y.reg().Leader)
				from := y.endOf(now)
				w.quiet = settling
				y.wait("records of the successor", second, func() bool { return y.endOf(now) > from }, func() {
					w.quiet = silent
					y.deletes(old, now, end)
				})
			})
		})
	})
}

// unheardStart: a follower is taken in and elected that has everything, but has not
// heard where the log starts.
func (y *play) unheardStart() {
	w, l, f := y.w, y.leader, y.follower
	order := []model.BrokerID{f.id, l.id}
	if y.other != nil {
		order = append(order, y.other.id)
	}
	y.reorder(order, func() {
		from := y.endOf(l) // what is written behind it is of this reign
		y.wait("records of its reign", second, func() bool { return y.endOf(f) > from }, func() {
			w.quiet = settling
			y.wait("level logs", second, func() bool { return y.endOf(f) == y.endOf(l) && y.endOf(l) == y.markOf(l) && !w.sending(y.p) }, func() {
				w.quiet = silent
				y.misses(f, l)
			})
		})
	})
}

// misses has a follower be away while the log start is raised.
func (y *play) misses(f, l *machine) {
	y.kill(f, deathKill, 20*second)
	y.wait("ISR without it", stepMax, func() bool { return !y.reg().InISR(f.id) && y.leads(l) }, func() {
		y.deletes(f, l, y.endOf(f))
	})
}

// deletes has the successor give up all that it has.
func (y *play) deletes(old, now *machine, end int64) {
	w := y.w
	moved, was := w.sim.Now(), int64(-1)
	y.wait("pause of the producers", second, func() bool {
		if at := y.endOf(now); at != was || at != y.markOf(now) || w.admin.waiting {
			moved, was = w.sim.Now(), at
		}
		return w.sim.Now()-moved > 80*millisecond
	}, func() {
		if y.endOf(now) > end && end >= 0 {
			y.end("the successor has too much")
			return
		}
		c := w.admin.to(now.id)
		if c == nil {
			y.end("the successor takes no commands")
			return
		}
		w.admin.deleteUpTo(c, y.target(), -1)
		y.wait("new log start", stepMax, func() bool {
			r := now.find(y.p)
			return r != nil && r.state != nil && int64(r.state.LogStart) == y.endOf(now)
		}, func() { y.takesIn(old, now) })
	})
}

// takesIn has the successor killed as soon as the one that comes back, which is
// the first of the replicas, is in sync, and before it hears any more.
func (y *play) takesIn(old, now *machine) {
	w, start := y.w, now.find(y.p).state.LogStart
	y.wished = func(_ *stream, req *kmsg.AlterPartitionRequest) {
		if y.wants(req, old) {
			y.wished = nil
			w.net.block(now.id, old.id, 10*second)
		}
	}
	y.raise(old)
	y.wait("ISR with it", second, func() bool { return y.reg().InISR(old.id) }, func() {
		y.kill(now, deathKill, second)
		y.wait("reign of the returned", stepMax, func() bool { return y.leads(old) }, func() {
			if s := old.find(y.p).state; s.LogStart < start {
				w.fail(16, "%v: broker %d leads from %d on, it was taken in by one that began at %d", y.p.tp, old.id, s.LogStart, start)
			}
			w.quiet = lively
			y.after(300*millisecond, func() { y.end("done") })
		})
	})
}
