//go:build mutants

package partition_test

import (
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/record"
)

// Each story finds no fault in the code as it is, and one in the mutant.

func TestMutantAckBeforeAppend(t *testing.T) {
	story := func() bool {
		w := leaderOf(1)
		w.hold = true
		m := w.send(1, -1, 0)
		early := m.Result.LeaderEpoch == 5 // answered while the write is outstanding
		w.hold = false
		return early
	}
	kill(t, "part-ack-before-append", story)
}

func TestMutantDuplicateAckedEarly(t *testing.T) {
	story := func() bool {
		w := leaderOf(1, 2)
		w.send(-1, 7, 0)
		retry := w.send(-1, 7, 0)
		return retry.Result.LeaderEpoch == 5 // replica 2 has nothing yet
	}
	kill(t, "part-dup-acked-early", story)
}

func TestMutantHighWatermarkIgnoresPendingISR(t *testing.T) {
	story := func() bool {
		w := leaderOf(1, 2)
		reg := w.reg
		reg.ISR, reg.PartitionEpoch = []model.BrokerID{1}, 1
		w.step(partition.Input{Kind: partition.KindRegistration, Registration: &reg})
		w.fetchAt(2, 0) // proposes to add 2
		// Its lag runs out; only the pending ISR still counts it.
		w.now.Mono += 31_000 * ms
		w.send(1, -1, 0)
		return w.p.Mark().HighWatermark > 0
	}
	kill(t, "part-hw-ignores-pending-isr", story)
}

func TestMutantRetainsUncommitted(t *testing.T) {
	kill(t, "part-retain-uncommitted", func() bool {
		w := leaderOf(1, 2)
		w.send(1, -1, 0)
		w.step(partition.Input{Kind: partition.KindRetain, Retain: w.p.Mark().LogEnd})
		return w.p.Mark().HighWatermark > 0 // replica 2 has nothing yet
	})
}

func kill(t *testing.T, name string, faulty func() bool) {
	t.Helper()
	if faulty() {
		t.Errorf("%s: the unmutated code shows the fault", name)
	}
	defer mutant.Set(name)()
	if !faulty() {
		t.Errorf("%s survives", name)
	}
}

// leaderOf returns a world in which 1 leads epoch 5 with the given ISR.
func leaderOf(isr ...model.BrokerID) *world {
	w := newWorld(defaultConfig())
	w.reg = partition.Registration{Leader: 1, LeaderEpoch: 5, ISR: isr}
	for _, id := range isr {
		w.others[id] = &scripted{last: -1, brokerEpoch: -1}
		w.reg.Replicas = append(w.reg.Replicas, partition.Peer{ID: id, Epoch: 100, Alive: true, Eligible: true})
	}
	reg := w.reg
	w.step(partition.Input{Kind: partition.KindRegistration, Registration: &reg})
	return w
}

func (w *world) send(acks int16, pid model.ProducerID, seq model.Sequence) *partition.Produce {
	b := record.NewBuilder(record.Options{Idempotent: pid >= 0, ProducerID: pid, BaseSequence: seq})
	b.Append(500, nil, []byte("v"))
	m := &partition.Produce{Acks: acks}
	m.Deadline, m.Result.LeaderEpoch = model.Never, -9
	rules := record.DefaultRules(w.now.Wall)
	m.Prepared, m.Rejection = record.Validate(b.Build(), &rules)
	w.step(partition.Input{Kind: partition.KindProduce, Produce: m})
	return m
}

func (w *world) fetchAt(id model.BrokerID, from model.Offset) {
	w.step(partition.Input{Kind: partition.KindReplicaFetch, Replica: &partition.ReplicaFetch{
		Replica: id, BrokerEpoch: -1, CurrentEpoch: 5, Offset: from, LastEpoch: -1,
	}})
}

// The leader has not heard of the epoch in between, in which the follower was cut.
func TestMutantKeepsFollowerEnds(t *testing.T) {
	kill(t, "part-keeps-follower-ends", func() bool {
		w := leaderOf(1, 2, 3)
		w.send(-1, -1, 0)
		w.fetchAt(2, w.p.Mark().LogEnd)
		reg := w.reg
		reg.LeaderEpoch, reg.PartitionEpoch, reg.ISR = reg.LeaderEpoch+2, reg.PartitionEpoch+2, []model.BrokerID{1, 2}
		w.step(partition.Input{Kind: partition.KindRegistration, Registration: &reg})
		return w.p.Mark().HighWatermark > 0
	})
}
