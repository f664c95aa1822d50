package partition_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/record"
)

// TestRandomSchedules drives a leader with three replicas through random
// produces, fetches, ISR changes, flushes, delays and changes of leadership, and
// checks after each step what must always hold:
//
//   - the high watermark never falls within one epoch, and is not above what
//     every member of the maximal ISR has told to hold, nor, with flush before
//     ack, above the durable end;
//   - an acknowledgement of all means that the high watermark has passed the
//     batch, and with flush before ack that it is durable;
//   - each operation is answered once, whatever happens.
func TestRandomSchedules(t *testing.T) {
	for seed := uint64(0); seed < 300; seed++ {
		r := &randomRun{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 4)), answered: map[any]int{}}
		r.run()
	}
}

type randomRun struct {
	t        *testing.T
	seed     uint64
	rng      *rand.Rand
	w        *world
	asked    []any
	answered map[any]int
	// told is the highest offset that each replica has fetched from in this
	// leadership, -1 for none.
	told  map[model.BrokerID]model.Offset
	epoch model.LeaderEpoch
	hw    model.Offset
	alter *partition.AlterPartition
}

func (r *randomRun) run() {
	cfg := defaultConfig()
	cfg.MinISR = int32(1 + r.rng.IntN(2))
	cfg.FlushMessages = []int64{1, 3, 1 << 60}[r.rng.IntN(3)]
	r.w = newWorld(cfg)
	r.w.reg = partition.Registration{Leader: model.NoLeader, LeaderEpoch: -1, PartitionEpoch: -1, ISR: []model.BrokerID{1, 2, 3}}
	for id := model.BrokerID(1); id <= 3; id++ {
		r.w.others[id] = &scripted{last: -1, brokerEpoch: -1}
		r.w.reg.Replicas = append(r.w.reg.Replicas, partition.Peer{ID: id, Epoch: 100, Alive: true, Eligible: true})
	}
	r.elect(1)
	for range 200 {
		r.w.now.Mono += model.Instant(r.rng.Int64N(int64(4_000 * ms)))
		r.one()
		r.check()
	}
	r.w.hold = false
	r.proceed()
	r.step(partition.Input{Kind: partition.KindOffline, Code: partition.CodeStorageError})
	for _, id := range r.asked {
		if r.answered[id] != 1 {
			r.t.Fatalf("seed %d: operation %v was answered %d times", r.seed, id, r.answered[id])
		}
	}
}

// step is the world's, with the answers counted and judged.
func (r *randomRun) step(in partition.Input) {
	w := r.w
	for {
		w.p.Step(w.now, &in, &w.out)
		write := w.out.Write
		if w.out.Flush != partition.FlushNone {
			w.flush = w.plog.end
		}
		if w.out.Alter != nil {
			r.alter = w.out.Alter
		}
		for _, m := range w.out.Produced {
			r.answered[m.Token]++
			if m.Result.Code == 0 && m.Acks == -1 {
				mark := w.p.Mark()
				if mark.HighWatermark < m.Required || (w.cfg.FlushBeforeAck() && w.p.Durable() < m.Required) {
					r.t.Fatalf("seed %d: acknowledged up to %d with %+v, durable %d", r.seed, m.Required, mark, w.p.Durable())
				}
			}
		}
		for _, f := range w.out.Replicas {
			if f.Result.Code == 0 {
				r.told[f.Replica] = max(r.told[f.Replica], f.Offset)
			}
		}
		for _, f := range w.out.Woken {
			r.answered[f.Token]++
		}
		w.out.Reset()
		if write.Kind == partition.WriteNone {
			return
		}
		if w.hold {
			w.held = &write
			return
		}
		in = partition.Input{Kind: partition.KindWritten, Written: w.plog.do(write)}
	}
}

func (r *randomRun) proceed() {
	if w := r.w; w.held != nil {
		write := *w.held
		w.held = nil
		r.step(partition.Input{Kind: partition.KindWritten, Written: w.plog.do(write)})
	}
}

func (r *randomRun) one() {
	w := r.w
	id := len(r.asked)
	switch r.rng.IntN(12) {
	case 0, 1, 2:
		b := record.NewBuilder(record.Options{Idempotent: true, ProducerID: model.ProducerID(id)})
		b.Append(500, nil, []byte("v"))
		rules := record.DefaultRules(w.now.Wall)
		m := &partition.Produce{Acks: int16(r.rng.IntN(3) - 1), Token: id}
		m.Deadline = w.now.Mono + 20_000*ms
		m.Prepared, m.Rejection = record.Validate(b.Build(), &rules)
		r.asked = append(r.asked, id)
		r.step(partition.Input{Kind: partition.KindProduce, Produce: m})
	case 3, 4, 5:
		other := model.BrokerID(2 + r.rng.IntN(2))
		from := r.rng.Int64N(int64(w.plog.end) + 1)
		r.step(partition.Input{Kind: partition.KindReplicaFetch, Replica: &partition.ReplicaFetch{
			Replica: other, BrokerEpoch: -1, CurrentEpoch: w.p.Mark().LeaderEpoch, Offset: model.Offset(from), LastEpoch: -1,
		}})
	case 6:
		r.asked = append(r.asked, id)
		r.step(partition.Input{Kind: partition.KindWait, Wait: &partition.FetchWait{
			Bound: partition.Bound(r.rng.IntN(3)), From: w.plog.end, Seen: w.p.Mark(), Token: id}})
	case 7:
		r.step(partition.Input{Kind: partition.KindTick})
	case 8:
		if w.flush >= 0 {
			to := w.flush
			w.flush = -1
			r.step(partition.Input{Kind: partition.KindFlushed, Flushed: to})
		}
	case 9:
		r.alterAnswer()
	case 10:
		if w.hold = !w.hold; !w.hold {
			r.proceed()
		}
	case 11:
		if r.rng.IntN(4) == 0 {
			r.elect(model.BrokerID(1 + r.rng.IntN(2)))
		}
	}
}

// alterAnswer has the controller say yes, and later the image follow, or no.
func (r *randomRun) alterAnswer() {
	a := r.alter
	if a == nil || r.w.p.Busy() {
		return
	}
	r.alter = nil
	if a.PartitionEpoch != r.w.reg.PartitionEpoch {
		r.step(partition.Input{Kind: partition.KindAlterAnswered, Alter: partition.AlterAnswer{Token: a.Token, Code: 95}})
		return
	}
	if r.rng.IntN(3) == 0 {
		r.step(partition.Input{Kind: partition.KindAlterAnswered, Alter: partition.AlterAnswer{Token: a.Token, Code: 107}})
		return
	}
	r.step(partition.Input{Kind: partition.KindAlterAnswered, Alter: partition.AlterAnswer{Token: a.Token}})
	r.w.reg.ISR = nil
	for _, m := range a.ISR {
		r.w.reg.ISR = append(r.w.reg.ISR, m.ID)
	}
	r.register()
}

func (r *randomRun) elect(leader model.BrokerID) {
	r.proceed()
	r.w.reg.Leader = leader
	r.w.reg.LeaderEpoch++
	if leader != r.w.p.LeaderID() {
		r.told = map[model.BrokerID]model.Offset{2: -1, 3: -1}
	}
	r.register()
}

func (r *randomRun) register() {
	r.w.reg.PartitionEpoch++
	reg := r.w.reg
	reg.ISR = slices.Clone(reg.ISR)
	r.step(partition.Input{Kind: partition.KindRegistration, Registration: &reg})
}

func (r *randomRun) check() {
	p := r.w.p
	m := p.Mark()
	if m.LeaderEpoch == r.epoch && m.HighWatermark < r.hw {
		r.t.Fatalf("seed %d: high watermark fell from %d to %d in epoch %d", r.seed, r.hw, m.HighWatermark, m.LeaderEpoch)
	}
	moved := m.HighWatermark > r.hw
	r.epoch, r.hw = m.LeaderEpoch, m.HighWatermark
	if m.Role != partition.Leader || !moved || p.Busy() {
		return
	}
	for _, id := range p.MaximalISR() {
		if id != 1 && r.told[id] < m.HighWatermark {
			r.t.Fatalf("seed %d: high watermark %d, replica %d of maximal ISR %v has told %d",
				r.seed, m.HighWatermark, id, p.MaximalISR(), r.told[id])
		}
	}
	if r.w.cfg.FlushBeforeAck() && p.Durable() < m.HighWatermark {
		r.t.Fatalf("seed %d: high watermark %d above the durable end %d", r.seed, m.HighWatermark, p.Durable())
	}
}
