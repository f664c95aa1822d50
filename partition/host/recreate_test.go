package host

import (
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log/checkpoint"
)

// What the checkpoints say of a deleted topic must not be believed of a new one
// of its name: a log start would hide records, a recovery point would turn a
// torn tail into damage.
func TestRecreatedTopicInheritsNoCheckpoint(t *testing.T) {
	n, h := leading(t, nil)
	n.send(h, -1, batchOf(50, -1, 0)).want(t, 0, 0)
	n.flushAll()
	tp := model.TopicPartition{Topic: "t"}
	d := n.dirs.All()[0]
	for _, err := range []error{
		d.writeRecoveryPoints(finally(checkpoint.Offsets{tp: 50})),
		d.writeLogStarts(finally(checkpoint.Offsets{tp: 40})),
		d.writeHighWatermarks(finally(checkpoint.Offsets{tp: 50})),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	n.apply(&metadata.RemoveTopic{ID: topicID("t")})
	recs := topicRecords("t", 1)
	id := topicID("t")
	id[14] = 1
	recs[0].(*metadata.TopicRecord).ID = id
	recs[1].(*metadata.PartitionRecord).TopicID = id
	n.apply(recs...)
	n.send(n.m.Get("t", 0), -1, batchOf(3, -1, 0)).want(t, 0, 0)
	n.kill()
	n.start()
	s := n.m.Get("t", 0).State()
	if s.LogStart != 0 || s.LogEnd != 3 {
		t.Errorf("the new topic's log is %d to %d after a kill, want 0 to 3", s.LogStart, s.LogEnd)
	}
	for _, name := range []string{checkpoint.LogStartFile, checkpoint.RecoveryPointFile, checkpoint.HighWatermarkFile} {
		offsets, err := checkpoint.ReadOffsets(n.fs, "/data/"+name)
		if err != nil || offsets[tp] > 3 {
			t.Errorf("%s says %d of the new topic, %v", name, offsets[tp], err)
		}
	}
}

// A log directory that a killed process had just made is durable once records
// in it are said to be.
func TestDirectoryOfAKilledProcessIsMadeDurable(t *testing.T) {
	n := newNode(t)
	if err := n.disk.MkdirAll("/data", 0o755); err != nil { // and there the process died
		t.Fatal(err)
	}
	n.topic["t"] = map[string]string{"flush.messages": "1"}
	n.start()
	n.register()
	n.create("t", 1)
	a := n.send(n.m.Get("t", 0), -1, batchOf(3, -1, 0))
	n.flushAll()
	a.want(t, 0, 0)
	n.power()
	n.start()
	if h := n.m.Get("t", 0); h == nil || h.State().LogEnd != 3 {
		t.Error("records that were acknowledged as durable are gone with their directory's name")
	}
}
