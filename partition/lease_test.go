package partition_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/record"
)

// sessionLease is a follower's session over one partition.
type sessionLease struct {
	last model.Instant
	held bool
}

func (l *sessionLease) LastFetch() model.Instant { return l.last }

func (l *sessionLease) End() model.Instant {
	l.held = false
	return l.last
}

// twins are two leaders that get the same inputs, but for fetches: one is told
// each of them, the other only those that no lease stands for.
type twins struct {
	t      *testing.T
	seed   uint64
	rng    *rand.Rand
	told   *world
	leased *world
	ends   map[model.BrokerID]model.Offset
	leases map[model.BrokerID]*sessionLease
	saved  int // fetches that were not told
	reg    partition.Registration
}

// TestLeasesChangeNothing: whatever a leader decides, and when, is the same with
// leases as if every fetch were told.
func TestLeasesChangeNothing(t *testing.T) {
	saved := 0
	for seed := uint64(0); seed < 300; seed++ {
		saved += newTwins(t, seed).run(250)
	}
	if saved < 10_000 {
		t.Errorf("only %d fetches were not told: the leases are hardly used", saved)
	}
}

func newTwins(t *testing.T, seed uint64) *twins {
	cfg := defaultConfig()
	r := &twins{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 11))}
	cfg.MinISR = int32(1 + r.rng.IntN(3))
	cfg.FenceAfter = 9_000 * ms
	r.told, r.leased = newWorld(cfg), newWorld(cfg)
	r.ends = map[model.BrokerID]model.Offset{2: 0, 3: 0}
	r.leases = map[model.BrokerID]*sessionLease{2: {}, 3: {}}
	r.reg = partition.Registration{Leader: 1, LeaderEpoch: 1, PartitionEpoch: 1, ISR: []model.BrokerID{1, 2, 3}}
	for id := model.BrokerID(1); id <= 3; id++ {
		r.reg.Replicas = append(r.reg.Replicas, partition.Peer{ID: id, Epoch: 100, Alive: true, Eligible: true})
		r.told.others[id], r.leased.others[id] = &scripted{}, &scripted{}
	}
	r.register()
	return r
}

func (r *twins) run(steps int) int {
	for range steps {
		r.advance(model.Instant(r.rng.Int64N(int64(3_000 * ms))))
		switch r.rng.IntN(24) {
		default:
			r.fetch(model.BrokerID(2 + r.rng.IntN(2)))
		case 0, 1:
			r.produce()
		case 2:
			r.both(func(*world) partition.Input { return partition.Input{Kind: partition.KindTick} })
		case 3:
			if r.rng.IntN(2) == 0 {
				r.reg.Replicas[1+r.rng.IntN(2)].Eligible = r.rng.IntN(3) > 0
				r.register()
			}
		case 4:
			if r.rng.IntN(4) == 0 {
				r.reg.LeaderEpoch++
				r.register()
			}
		case 5, 6:
			r.agree()
		}
		r.compare()
	}
	return r.saved
}

// advance lets time pass for both, with the ticks they ask for.
func (r *twins) advance(d model.Instant) {
	until := r.told.now.Mono + d
	for {
		a, b := r.told.p.NextDeadline(), r.leased.p.NextDeadline()
		if a != b {
			r.t.Fatalf("seed %d: next deadlines %d and %d", r.seed, a, b)
		}
		if a > until {
			break
		}
		r.at(max(a, r.told.now.Mono))
		r.both(func(*world) partition.Input { return partition.Input{Kind: partition.KindTick} })
		r.compare()
	}
	r.at(until)
}

func (r *twins) at(now model.Instant) { r.told.now.Mono, r.leased.now.Mono = now, now }

func (r *twins) both(in func(*world) partition.Input) {
	r.told.step(in(r.told))
	r.leased.step(in(r.leased))
}

func (r *twins) register() {
	r.reg.PartitionEpoch++
	r.both(func(*world) partition.Input {
		reg := r.reg
		reg.ISR, reg.Replicas = slices.Clone(reg.ISR), slices.Clone(reg.Replicas)
		return partition.Input{Kind: partition.KindRegistration, Registration: &reg}
	})
}

// agree has the controller carry out what the leader proposed, if anything.
func (r *twins) agree() {
	if maximal := r.told.p.MaximalISR(); len(maximal) > len(r.reg.ISR) {
		r.reg.ISR = slices.Clone(maximal)
		r.register()
	} else if len(r.reg.ISR) > 1 && r.rng.IntN(20) == 0 {
		r.reg.ISR = r.reg.ISR[:len(r.reg.ISR)-1]
		r.register()
	}
}

func (r *twins) produce() {
	heard := model.Instant(r.rng.Int64N(int64(r.told.now.Mono) + 1))
	id := r.rng.Uint64()
	r.both(func(w *world) partition.Input {
		b := record.NewBuilder(record.Options{})
		b.Append(500, nil, []byte("v"))
		rules := record.DefaultRules(w.now.Wall)
		m := &partition.Produce{Acks: -1, Token: id, ControllerHeard: heard}
		m.Deadline = w.now.Mono + 20_000*ms
		m.Prepared, m.Rejection = record.Validate(b.Build(), &rules)
		return partition.Input{Kind: partition.KindProduce, Produce: m}
	})
}

// fetch is one of a follower, mostly from where it ended, sometimes from where
// it got to, rarely from before that.
func (r *twins) fetch(id model.BrokerID) {
	end := r.ends[id]
	named := false
	switch r.rng.IntN(24) {
	case 0:
		end = model.Offset(r.rng.Int64N(int64(r.told.plog.end) + 1))
	case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11:
		end = r.told.plog.end
	}
	named = end != r.ends[id]
	r.ends[id] = end
	r.told.step(r.fetchInput(id, end, nil))
	l := r.leases[id]
	if l.held && !named {
		l.last = r.leased.now.Mono
		r.saved++
		return
	}
	in := r.fetchInput(id, end, l)
	r.leased.step(in)
	// A session whose request names the partition stands still for it until the
	// partition has judged.
	l.last = r.leased.now.Mono
	l.held = in.Replica.Result.Leased
}

func (r *twins) fetchInput(id model.BrokerID, from model.Offset, l *sessionLease) partition.Input {
	f := &partition.ReplicaFetch{
		Replica: id, BrokerEpoch: 100, CurrentEpoch: r.reg.LeaderEpoch, Offset: from, LastEpoch: -1,
	}
	if l != nil {
		f.Lease = l
	}
	return partition.Input{Kind: partition.KindReplicaFetch, Replica: f}
}

// compare looks at all that the two show and have said, but for the verdicts.
func (r *twins) compare() {
	r.t.Helper()
	a, b := r.said(r.told), r.said(r.leased)
	if a != b {
		r.t.Fatalf("seed %d at %d ms: with each fetch told\n%s\nwith leases\n%s", r.seed, r.told.now.Mono/ms, a, b)
	}
}

func (r *twins) said(w *world) string {
	var told []string
	for line := range strings.Lines(w.written.String()) {
		if !strings.Contains(line, " <- ") { // a verdict
			told = append(told, line)
		}
	}
	w.written.Reset()
	return fmt.Sprintf("%q\n%s\ncaught up %v", told, w.line(), partition.Standings(w.p))
}
