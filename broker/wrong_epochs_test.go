package broker

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/receipt"
	"github.com/tidemark/tidemark/protocol/record"
)

// TestWrongEpochFileIsMended: a consumer who comes to where the epoch file contradicts
// batches that are as they were written is told so at most for as long as they are looked
// at, then served; the epochs are right from then on, and what the file was is kept.
func TestWrongEpochFileIsMended(t *testing.T) {
	const batches = 20 // in each reign
	dir := t.TempDir()
	path := filepath.Join(dir, "orders-0", checkpoint.EpochFile)
	b := startBroker(t, dir)
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = "orders", 1, 1
	req.Topics = append(req.Topics, rt)
	if code := rawDial(t, b).call(req, 5).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; code != 0 {
		t.Fatalf("create: code %d", code)
	}
	again := func() {
		t.Helper()
		stopBroker(t, b)
		b = startBroker(t, dir)
	}
	for reign := range 3 {
		if reign > 0 {
			again()
		}
		conn := rawDial(t, b)
		for range batches {
			eventually(t, "produced", func() bool { return conn.produceAll("orders", plainBatch(1, 10)).ErrorCode == 0 })
		}
	}
	stopBroker(t, b)
	right, err := checkpoint.ReadEpochs(osfs.New(), path)
	if err != nil || len(right) != 3 || right[1].Start != batches {
		t.Fatalf("%v, %v", right, err)
	}
	wrong := slices.Clone(right)
	wrong[1].Start += 5
	if err := checkpoint.WriteEpochs(osfs.New(), path, wrong); err != nil {
		t.Fatal(err)
	}
	b = startBroker(t, dir)
	conn, refused, at := rawDial(t, b), 0, int64(0)
	eventually(t, "all was read", func() bool {
		p := conn.call(fetchOf("orders", 0, at, 1<<20), 12).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if p.ErrorCode != 0 {
			refused++
			return false
		}
		for it := record.NewIter(p.RecordBatches); it.Next(); {
			if got := int64(it.Batch().BaseOffset()); got != at {
				t.Fatalf("a batch at %d where %d was expected", got, at)
			}
			at++
		}
		return at == 3*batches
	})
	if refused == 0 {
		t.Error("nobody looked: the test can't fail")
	}
	if end := epochEnd(conn, "orders", int32(right[0].Epoch)); end.ErrorCode != 0 || end.EndOffset != batches {
		t.Errorf("the first epoch ends at %+v", end)
	}
	kept, _, err := receipt.Read(osfs.New(), filepath.Join(dir, ".kept"))
	if err != nil || !slices.ContainsFunc(kept, func(r receipt.Receipt) bool { return r.Cause == receipt.Unreadable && r.Topic == "orders" }) {
		t.Errorf("no receipt: %v, %v", kept, err)
	}
	stopBroker(t, b)
	if got, err := checkpoint.ReadEpochs(osfs.New(), path); err != nil || len(got) < 3 || !slices.Equal(got[:3], right) {
		t.Errorf("the file has %v, want %v, %v", got, right, err)
	}
}

// epochEnd asks where an epoch ends.
func epochEnd(c *rawConn, topic string, epoch int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	rp.CurrentLeaderEpoch, rp.LeaderEpoch = -1, epoch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return c.call(req, 4).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
}
