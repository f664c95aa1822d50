package sim

import (
	"slices"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/transport"
)

// secondBill are plays about those who keep the metadata, about groups, and about
// one replica's disk. Some of the worlds without playbill have them.
var secondBill = []script{
	{"forgotten vote", 2, anywhere, false, (*play).forgottenVote, (*World).threeVoters},
	{"another's entry", 2, anywhere, false, (*play).anothersEntry, (*World).threeVoters},
	{"wiped voter", 2, anywhere, false, (*play).wipedVoter, (*World).threeVoters},
	{"catching up", 2, anywhere, false, (*play).catchingUp, (*World).threeVoters},
	{"waiting heartbeat", 2, anywhere, false, (*play).waitingHeartbeat, (*World).threeVoters},
	{"early offset", 2, anywhere, false, (*play).early, (*World).grouped},
	{"refused offset", 2, anywhere, false, (*play).refused, (*World).grouped},
	{"past generation", 2, anywhere, false, (*play).pastGeneration, (*World).grouped},
	{"late flush", 2, 2, true, (*play).lateFlush, nil},
	{"spoilt header", 2, 2, true, (*play).spoiltHeader, nil},
	{"last one damaged", 2, 2, true, (*play).lastDamaged, nil},
}

// titled returns the play of a title.
func titled(title string) []script {
	all := slices.Concat(playbill, secondBill)
	return slices.DeleteFunc(all, func(s script) bool { return s.title != title })
}

// threeVoters reports whether there are three voters and all vote.
func (w *World) threeVoters() bool { return w.o.voters == 3 && w.exVoter == nil }

// ledTerm returns the term in which a machine leads the quorum, by its own word, 0
// if it does not.
func (m *machine) ledTerm() model.LeaderEpoch {
	if m.node == nil || m.node.broker == nil {
		return 0
	}
	if leader, term := m.node.broker.QuorumLeader(); leader == m.id {
		return term
	}
	return 0
}

// voters returns the active controller, its term, and the other voters in any
// order.
func (y *play) voters() (active *machine, term model.LeaderEpoch, others []*machine) {
	active = y.w.activeController()
	for _, m := range y.w.machines[:y.w.o.voters] {
		if m != active {
			others = append(others, m)
		}
	}
	y.r.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	return active, active.ledTerm(), others
}

// ledAfter returns who of some leads the quorum in a term after another, nil if
// nobody does.
func ledAfter(term model.LeaderEpoch, of ...*machine) *machine {
	i := slices.IndexFunc(of, func(m *machine) bool { return m.ledTerm() > term })
	if i < 0 {
		return nil
	}
	return of[i]
}

// forgottenVote: a voter dies as soon as it has elected somebody, before anything of
// that term is in its log, and is asked again by one that has not heard of the
// election.
func (y *play) forgottenVote() {
	w := y.w
	old, term, others := y.voters()
	a, b := others[0], others[1]
	y.part(old, a, 20*second)
	y.part(old, b, 20*second)
	w.net.hush = func(c transport.Class, from, _ model.BrokerID) bool {
		return c == transport.ClassRaft && w.machine(from).ledTerm() > term
	}
	y.wait("new controller", stepMax, func() bool { return ledAfter(term, a, b) != nil }, func() {
		elected, voter := a, b
		if ledAfter(term, b) != nil {
			elected, voter = b, a
		}
		y.kill(voter, deathKill, 20*second)
		w.net.hush = nil
		y.part(elected, voter, 20*second)
		y.join(old, voter)
		y.raise(voter)
		y.wait("controller of the others", stepMax, func() bool { return ledAfter(term, old, voter) != nil }, func() { y.end("done") })
	})
}

// anothersEntry: the active controller is cut off with a command in its log, at whose
// place its successor has another entry. It hears of that while whoever sent the
// command still waits.
func (y *play) anothersEntry() {
	w, t := y.w, y.w.admin.topics[y.p.tp.Topic]
	old, term, others := y.voters()
	y.wait("idle administrator", stepMax, func() bool { return !w.admin.waiting && !t.unsure }, func() {
		c := w.admin.to(old.id)
		if c == nil || old.ledTerm() != term {
			y.end("the controller takes no commands")
			return
		}
		y.part(old, others[0], 20*second)
		y.part(old, others[1], 20*second)
		w.admin.set(c, t, "retention.ms", utoa(100_000_000_000+y.r.Uint64N(1_000_000)))
		y.wait("new controller", stepMax, func() bool { return ledAfter(term, others...) != nil }, func() {
			y.after(2*y.some(), func() {
				w.net.heal()
				y.wait("answer", adminTimeout*millisecond, func() bool { return !w.admin.waiting }, func() {
					y.after(100*millisecond, func() { y.end("done") })
				})
			})
		})
	})
}

// wipedVoter: one of the two that have a command in their logs loses its metadata, and
// comes back where only the third hears it, who has never heard of the command.
func (y *play) wipedVoter() {
	w, t := y.w, y.w.admin.topics[y.p.tp.Topic]
	active, term, others := y.voters()
	wiped, behind := others[0], others[1]
	if w.frail != nil && w.frail != wiped {
		y.end("another's disk may fail")
		return
	}
	y.wait("idle administrator", stepMax, func() bool { return !w.admin.waiting && !t.unsure }, func() {
		c := w.admin.to(active.id)
		if c == nil || active.ledTerm() != term {
			y.end("the controller takes no commands")
			return
		}
		y.part(active, behind, 30*second)
		y.part(wiped, behind, 30*second)
		w.admin.set(c, t, "retention.ms", utoa(100_000_000_000+y.r.Uint64N(1_000_000)))
		y.wait("answer", adminTimeout*millisecond, func() bool { return !w.admin.waiting }, func() {
			if t.unsure || active.ledTerm() != term {
				y.end("the command was not taken")
				return
			}
			w.frail, w.exVoter = wiped, wiped
			y.kill(wiped, deathKill, 20*second)
			if err := wiped.disk.RemoveAll(metadataDir); err != nil {
				w.fail(0, "%v", err)
			}
			wiped.line("wiped      %s", metadataDir)
			y.part(active, wiped, 30*second)
			y.join(wiped, behind)
			y.raise(wiped)
			y.after(4*model.Instant(w.o.election)+second, func() { y.end("done") })
		})
	})
}

// catchingUp: a voter gets all at once what it has missed of the metadata, and dies in
// one of the writes that this takes.
func (y *play) catchingUp() {
	_, _, others := y.voters()
	y.missesMore(others[0])
}

// missesMore keeps a voter from hearing what is committed for a while.
func (y *play) missesMore(f *machine) {
	w, t := y.w, y.w.admin.topics[y.p.tp.Topic]
	active := w.activeController()
	for _, m := range w.machines {
		if m != f {
			y.part(f, m, 20*second)
		}
	}
	more := 2
	var set func()
	set = func() {
		y.wait("idle administrator", stepMax, func() bool { return !w.admin.waiting && !t.unsure }, func() {
			c := w.admin.to(active.id)
			if more--; more < 0 || c == nil {
				y.diesWriting(f)
				return
			}
			w.admin.set(c, t, "retention.ms", utoa(100_000_000_000+y.r.Uint64N(1_000_000)))
			set()
		})
	}
	set()
}

// deathsInWrites is how often a voter dies while it catches up.
const deathsInWrites = 3

// diesWriting opens the network again and ends a process at its next writes of the
// metadata.
func (y *play) diesWriting(f *machine) {
	if f.node == nil {
		y.end("it is gone")
		return
	}
	life := f.lives
	f.faults.plan = pick(y.r, []death{deathPower, deathPower, deathKill})
	f.faults.countdown, f.faults.countOn = 1+y.r.IntN(10), metadataDir
	for _, m := range y.w.machines { // what was sent one by one meanwhile does not come
		y.w.net.reset(f.id, m.id)
	}
	y.w.net.heal()
	y.wait("death in a write", second, func() bool { return f.node == nil }, func() {
		y.raise(f)
		y.wait("return", stepMax, func() bool { return f.lives > life && f.up() }, func() {
			if y.deaths++; y.deaths == deathsInWrites || y.w.activeController() == nil || y.w.activeController() == f {
				y.end("done")
				return
			}
			y.missesMore(f)
		})
	})
}

// metadataDir is where a broker's metadata are.
const metadataDir = dataDir + "/__cluster_metadata-0"

// waitingHeartbeat: a broker's session is over when its heartbeat waits behind a
// command that takes its time.
func (y *play) waitingHeartbeat() {
	w, t := y.w, y.w.admin.topics[y.p.tp.Topic]
	active, term, _ := y.voters()
	var late *machine
	for _, i := range y.r.Perm(len(w.machines)) {
		if w.machines[i] != active {
			late = w.machines[i]
		}
	}
	session := model.Instant(w.o.session)
	doubt := session/66 + 2*millisecond // clocks go wrong by a hundredth
	silent, stuck := false, false
	w.net.hush = func(c transport.Class, from, to model.BrokerID) bool {
		return stuck && c == transport.ClassRaft && from == active.id || silent && c == transport.ClassController && from == late.id
	}
	beat := y.beats(late, active)
	y.wait("heartbeat", session, func() bool { return *beat > 0 && !w.admin.waiting && !t.unsure }, func() {
		silent = true
		over := *beat + session
		y.after(over-doubt-w.sim.Now(), func() {
			c := w.admin.to(active.id)
			if c == nil || active.ledTerm() != term || !y.active(late) {
				y.end("somebody is out")
				return
			}
			stuck = true
			w.admin.set(c, t, "retention.ms", utoa(100_000_000_000+y.r.Uint64N(1_000_000)))
			y.after(2*doubt, func() {
				silent = false
				beat = y.beats(late, active)
				y.wait("late heartbeat", second, func() bool { return *beat > 0 }, func() {
					y.after(millisecond, func() { stuck = false; y.counted(late, active, term) })
				})
			})
		})
	})
}

// beats tells when the newest heartbeat that is sent from now on has come to the
// active controller, 0 before the first.
func (y *play) beats(of, to *machine) *model.Instant {
	var under *stream
	var due model.Instant
	came := new(model.Instant)
	y.wrote = func(s *stream, key int16) {
		if key == protocol.KeyBrokerHeartbeat && s.from == of.node && s.to == to {
			under, due = s, s.requests.last
		}
	}
	y.heard = func(s *stream) {
		if s == under && y.w.sim.Now() >= due {
			*came = y.w.sim.Now()
		}
	}
	return came
}

// counted has a broker not be fenced, as its heartbeat was there.
func (y *play) counted(late, active *machine, term model.LeaderEpoch) {
	w := y.w
	at := w.meta.img.At().Offset
	y.wait("command", second, func() bool { return w.meta.img.At().Offset > at }, func() {
		y.after(20*millisecond, func() {
			b := w.meta.img.Broker(late.id)
			if active.ledTerm() == term && b != nil && late.node != nil && b.Epoch == late.node.broker.Epoch() && b.Fenced {
				w.fail(0, "broker %d is fenced, though its heartbeat had come", late.id)
			}
			y.end("done")
		})
	})
}
