package host

import (
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/partition"
)

func TestTrafficIsCounted(t *testing.T) {
	n, h := leading(t, map[string]string{"flush.messages": "1"})
	batch := batchOf(3, -1, 0)
	a := n.send(h, -1, batch)
	n.flushAll()
	a.want(t, 0, 0)
	h.Sent(100, false)
	h.Sent(30, true)
	want := Traffic{Produces: 1, RecordsIn: 3, BytesIn: int64(len(batch)), BytesOut: 100, ReplicaBytesOut: 30}
	if got := h.Traffic(); got != want {
		t.Errorf("traffic %+v, want %+v", got, want)
	}
	dirs := n.m.DirStats()
	if len(dirs) != 1 || dirs[0].Path != "/data" || !dirs[0].Online || dirs[0].Flushes.Count != 1 {
		t.Errorf("directories %+v, want one flush in /data", dirs)
	}
}

func TestRareEventsAreCounted(t *testing.T) {
	n, h := leading(t, nil)
	if got := n.m.Stats(); got != (Stats{Led: 1}) {
		t.Errorf("%+v after the first leadership", got)
	}
	usable, total, err := n.disk.Free("/data")
	if err != nil {
		t.Fatal(err)
	}
	n.disk.SetCapacity(total - usable + 50)
	n.send(h, 1, batchOf(100, -1, 0)).want(t, partition.CodeStorageError, -1)
	n.disk.SetCapacity(0)
	n.apply(deposed("t"))
	h.box.Enter(failing{})
	n.m.events.stalled(h, 0)
	want := Stats{Led: 1, Followed: 1, AppendsRefused: 1, Quarantined: 1, Stalls: 1}
	if got := n.m.Stats(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// The direction of a change of the in-sync set is told by what was in force
// before it.
func TestChangesOfTheISRAreCounted(t *testing.T) {
	n := newNode(t)
	n.start()
	n.register()
	n.apply(&metadata.RegisterBroker{ID: 2, Epoch: model.NoBrokerEpoch})
	recs := topicRecords("t", 1)
	reg := &recs[1].(*metadata.PartitionRecord).PartitionRegistration
	reg.Replicas, reg.ISR = []model.BrokerID{1, 2}, []model.BrokerID{1, 2}
	n.apply(recs...)
	change := func(isr ...model.BrokerID) {
		c := metadata.NewPartitionChange(topicID("t"), 0)
		c.ISR = isr
		n.apply(c)
	}
	change(1)
	change(1, 2)
	change(1)
	if got, want := n.m.Stats(), (Stats{Led: 1, ISRShrinks: 2, ISRExpansions: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestCutsAreCounted(t *testing.T) {
	m := ReplicaManager{}
	m.counters.cut(&log.Removal{Bytes: 70, Records: 2, Start: 5, End: 7})
	m.counters.cut(&log.Removal{})
	m.counters.cut(&log.Removal{Bytes: 3})
	m.counters.count(&partition.Event{Kind: partition.EventBelowHW}, nil)
	m.counters.count(&partition.Event{Kind: partition.EventISRRefused}, nil)
	want := Stats{Truncations: 2, TruncatedBytes: 73, TruncatedRecords: 2, BelowHighWatermark: 1, ISRRefusals: 1}
	if got := m.Stats(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
