package host

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/record"
)

// ten writes ten batches of three records, of which the first four are of epoch 0 and
// the others of a later one, and returns the size of a batch.
func ten(t testing.TB, overrides map[string]string) (n *node, batch int64) {
	n, h := leading(t, overrides)
	for range 4 {
		n.send(h, 1, batchOf(3, -1, 0))
	}
	batch = h.State().View.Size() / 4
	n.apply(deposed("t"))
	c := metadata.NewPartitionChange(topicID("t"), 0)
	c.Leader = 1
	n.apply(c)
	for range 6 {
		n.send(h, 1, batchOf(3, -1, 0))
	}
	h.box.Enter(&flushOldMsg{})
	n.flushAll()
	n.rt.advance(120_000) // checkpoints
	return n, batch
}

// hurt flips a byte of the seventh batch, which holds the offsets 18 to 20.
func (n *node) hurt(batch int64) {
	n.rot("/data/t-0/00000000000000000000.log", 6*batch+70, 0)
}

// damagedSole is a node that has started with that damage in its only replica.
func damagedSole(t testing.TB) (*node, *Hosted) {
	n, batch := ten(t, nil)
	n.kill()
	n.hurt(batch)
	n.start()
	n.register()
	return n, n.m.Get("t", 0)
}

func TestRemnantIsServed(t *testing.T) {
	for _, found := range []string{"at the start", "while it runs"} {
		t.Run(found, func(t *testing.T) {
			var n *node
			var h *Hosted
			if found == "at the start" {
				n, h = damagedSole(t)
			} else {
				var batch int64
				n, batch = ten(t, nil)
				h = n.m.Get("t", 0)
				n.hurt(batch)
				h.Verify(19)
				n.rt.idle()
				n.flushAll()
			}
			before := filesOf(t, n)
			checkRemnant(t, n, h)
			n.stop()
			if after := filesOf(t, n); !maps.Equal(before, after) {
				t.Error("the files were changed")
			}
			if points, err := checkpoint.ReadOffsets(n.fs, "/data/"+checkpoint.RecoveryPointFile); err != nil || points[h.tp] != 30 {
				t.Errorf("recovery point %v, %v: it is not what was known of the whole log", points, err)
			}
			n.start()
			n.register()
			checkRemnant(t, n, n.m.Get("t", 0))
		})
	}
}

func filesOf(t testing.TB, n *node) map[string]string {
	names, err := n.fs.List("/data/t-0")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, name := range names {
		b, err := vfs.ReadFile(n.fs, filepath.Join("/data/t-0", name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(b)
	}
	return all
}

// checkRemnant asks everything of a partition whose records from 18 of 30 on are
// damaged, and which has no better copy.
func checkRemnant(t *testing.T, n *node, h *Hosted) {
	t.Helper()
	s := h.State()
	if s.Role != partition.Offline || s.Remnant == nil || s.Remnant.Start != 0 || s.Remnant.End != 18 || s.Remnant.LogEnd != 30 {
		t.Fatalf("%s: %+v", s.Reason, s.Remnant)
	}
	for _, tt := range []struct {
		from model.Offset
		last model.LeaderEpoch
		want string
	}{
		{0, -1, "to 18"}, {17, -1, "to 18"}, {0, 0, "to 18"}, {12, 0, "to 18"}, {17, 2, "to 18"},
		{18, -1, "code 56"}, {19, -1, "code 56"}, {30, -1, "code 56"}, {31, -1, "code 56"}, {1 << 40, -1, "code 56"},
		{-1, -1, "code 1"},
		{16, 0, "diverging 12@0"},
		{29, 0, "code 56"}, {17, 9, "code 56"},
	} {
		b := s.FetchBounds(tt.from, -1, tt.last, ReadUncommitted, true)
		got := fmt.Sprintf("to %d", b.End)
		switch {
		case b.Code != 0:
			got = fmt.Sprintf("code %d", b.Code)
		case b.Diverging.Epoch >= 0:
			got = fmt.Sprintf("diverging %d@%d", b.Diverging.Offset, b.Diverging.Epoch)
		case b.Poll:
			got = "poll"
		}
		if got != tt.want {
			t.Errorf("fetch at %d, last epoch %d: %s, want %s", tt.from, tt.last, got, tt.want)
		}
	}
	if b := s.FetchBounds(0, s.LeaderEpoch+1, -1, ReadUncommitted, true); b.Code != partition.CodeUnknownLeaderEpoch {
		t.Errorf("a fetch of an epoch to come: code %d", b.Code)
	}
	var read []byte
	for from := model.Offset(0); from < 18; {
		r, err := s.Reader().Read(from, 18, 1<<20, true)
		if err != nil || r.Len() == 0 {
			t.Fatalf("read at %d: %d bytes, %v", from, r.Len(), err)
		}
		b := make([]byte, r.Len())
		_, _ = r.ReadAt(b, 0)
		r.Release()
		read = append(read, b...)
		it := record.NewIter(b)
		for it.Next() {
			from = it.Batch().NextOffset()
		}
	}
	if whole, err := vfs.ReadFile(n.fs, "/data/t-0/00000000000000000000.log"); err != nil || string(whole[:len(read)]) != string(read) || len(read) != len(whole)/10*6 {
		t.Errorf("%d bytes were read, %v: they are not what was written", len(read), err)
	}
	list := func(ts model.Timestamp, replica model.BrokerID) string {
		r := s.ListOffsets(ListOffsetsQuery{Timestamp: ts, CurrentEpoch: -1, Replica: replica, Version: 11})
		return fmt.Sprintf("%d %d", r.Code, r.Offset)
	}
	for _, tt := range []struct {
		ts   model.Timestamp
		want string
	}{
		{TimestampEarliest, "0 0"}, {TimestampLatest, "0 18"}, {1_700_000_000_000, "0 0"}, {1_700_000_000_002, "0 2"},
		{1_700_000_000_003, "56 -1"}, {TimestampMax, "56 -1"},
	} {
		if got := list(tt.ts, -1); got != tt.want {
			t.Errorf("offset for %d: %s, want %s", tt.ts, got, tt.want)
		}
		if got := list(tt.ts, DebuggingReplica); got != tt.want {
			t.Errorf("offset for %d, debugging: %s, want %s", tt.ts, got, tt.want)
		}
		if got := list(tt.ts, 2); got != "56 -1" {
			t.Errorf("offset for %d, a follower: %s", tt.ts, got)
		}
	}
	for asked, want := range map[model.LeaderEpoch]string{0: "12@0 0", 1: "12@0 0", 2: "30@2 0", 3: "-1@-1 56", -1: "-1@-1 0"} { // order-free
		end, code := s.EndOffsetForEpoch(asked, -1)
		if got := fmt.Sprintf("%d@%d %d", end.Offset, end.Epoch, code); got != want {
			t.Errorf("end of epoch %d: %s, want %s", asked, got, want)
		}
	}
	n.send(h, 1, batchOf(1, -1, 0)).want(t, 56, -1)
	a := &answers{}
	h.DeleteRecords(5, model.Never, a, 0)
	if len(a.deleted) != 1 || !strings.HasPrefix(a.deleted[0], "56 ") {
		t.Errorf("DeleteRecords: %v", a.deleted)
	}
	for _, offset := range []model.Offset{0, 17, 18, 30} {
		w := &replicaAnswers{}
		h.ReplicaFetch(ReplicaFetchMsg{ReplicaFetch: partition.ReplicaFetch{
			Replica: 2, BrokerEpoch: -1, CurrentEpoch: s.LeaderEpoch, Offset: offset, LastEpoch: 0,
		}, Waiter: w})
		if len(w.got) != 1 || w.got[0].Code != 56 || w.got[0].Diverging.Epoch >= 0 {
			t.Errorf("a follower's fetch at %d: %+v", offset, w.got)
		}
	}
	if d := n.m.DescribeDirs(nil); len(d) != 1 || len(d[0].Replicas) != 1 || d[0].Replicas[0].OffsetLag != 12 || d[0].Replicas[0].Size != int64(len(read))/6*10 {
		t.Errorf("described as %+v", d)
	}
	if f := n.m.FailedReplicas(); len(f) != 1 || f[0].Readable != 18 || !f[0].Serves || f[0].End != 18 {
		t.Errorf("failed replicas %+v", f)
	}
}

// Damage that a reader meets below the first one takes its place.
func TestRemnantShrinks(t *testing.T) {
	n, h := damagedSole(t)
	size := int64(len(filesOf(t, n)["00000000000000000000.log"]) / 10)
	n.rot("/data/t-0/00000000000000000000.log", 2*size+70, 0)
	h.Verify(7)
	n.rt.idle()
	n.flushAll()
	if s := h.State(); s.Remnant == nil || s.Remnant.End != 6 || s.Remnant.LogEnd != 30 || s.FetchBounds(6, -1, -1, ReadUncommitted, true).Code != 56 {
		t.Errorf("%+v", s.Remnant)
	}
	n.stop()
	n.start()
	n.register()
	if s := n.m.Get("t", 0).State(); s.Remnant == nil || s.Remnant.End != 6 {
		t.Errorf("at the next start: %+v", s.Remnant)
	}
}

// Who is not the last one, or does not lead, serves nothing.
func TestRemnantIsForTheLastReplica(t *testing.T) {
	for _, tt := range []struct {
		name   string
		leader model.BrokerID
		isr    []model.BrokerID
		served bool
	}{
		{"alone", 1, []model.BrokerID{1}, true},
		{"another is in sync", 1, []model.BrokerID{1, 2}, false},
		{"another leads", 2, []model.BrokerID{2}, false},
		{"nobody leads", model.NoLeader, []model.BrokerID{1}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, h := damagedSole(t)
			c := metadata.NewPartitionChange(topicID("t"), 0)
			c.Replicas, c.ISR, c.Leader = []model.BrokerID{1, 2}, tt.isr, tt.leader
			n.apply(c)
			s := h.State()
			if (s.Remnant != nil) != tt.served {
				t.Fatalf("served: %+v", s.Remnant)
			}
			if b := s.FetchBounds(0, -1, -1, ReadUncommitted, true); (b.Code == 0) != tt.served || b.Code != 0 && b.Code != 56 {
				t.Errorf("a fetch gets code %d", b.Code)
			}
		})
	}
}

// A replica that could commit nothing alone shows what it knows to be committed.
func TestRemnantBelowTheHighWatermark(t *testing.T) {
	n, batch := ten(t, map[string]string{"min.insync.replicas": "2"})
	n.kill()
	if err := checkpoint.WriteOffsets(n.fs, "/data/"+checkpoint.HighWatermarkFile, checkpoint.Offsets{model.TopicPartition{Topic: "t"}: 9}); err != nil {
		t.Fatal(err)
	}
	n.hurt(batch)
	n.start()
	n.register()
	h := n.m.Get("t", 0)
	c := metadata.NewPartitionChange(topicID("t"), 0)
	c.Replicas, c.ISR, c.Leader = []model.BrokerID{1, 2}, []model.BrokerID{1}, 1
	n.apply(c)
	s := h.State()
	if s.Remnant == nil || s.Remnant.End != 9 || s.FetchBounds(9, -1, -1, ReadUncommitted, true).Code != 56 {
		t.Errorf("%+v", s.Remnant)
	}
}

// A topic that is deleted takes its remnant with it.
func TestRemnantIsDeleted(t *testing.T) {
	n, h := damagedSole(t)
	if open := n.m.deps.Files.Open(); open == 0 {
		r, err := h.State().Reader().Read(0, 18, 100, true)
		if err != nil {
			t.Fatal(err)
		}
		r.Release()
	}
	n.apply(&metadata.RemoveTopic{ID: topicID("t")})
	n.rt.advance(600_000)
	if names := dirNames(t, n, ""); len(names) > 0 && strings.HasPrefix(names[0], "t-0") {
		t.Errorf("directories %v", names)
	}
	if open := n.m.deps.Files.Open(); open != 0 {
		t.Errorf("%d files are still open", open)
	}
	if s := h.State(); s.Remnant != nil {
		t.Errorf("served: %+v", s.Remnant)
	}
}
