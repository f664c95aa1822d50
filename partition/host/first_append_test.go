package host

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/partition"
)

// unestablished returns a node that leads t-0, to which nothing was appended and
// whose directory is not durable yet.
func unestablished(t testing.TB) (*node, *Hosted) {
	n := newNode(t)
	n.firstAppends = true
	n.start()
	n.register()
	n.create("t", 1)
	return n, n.m.Get("t", 0)
}

// metadataAfterPowerLoss says whether t-0's identity survives the loss of
// everything that was not synced. It ends the node.
func metadataAfterPowerLoss(n *node) bool {
	disk := n.disk.CrashClone(memfs.Crash{})
	_, ok, err := checkpoint.ReadPartitionMetadata(disk, "/data/t-0/"+checkpoint.PartitionMetadataFile)
	return ok && err == nil
}

// TestFirstAppendWaitsForTheDirectory: nothing is appended before the partition's
// directory is durable; what comes meanwhile waits, in order.
func TestFirstAppendWaitsForTheDirectory(t *testing.T) {
	if n, _ := unestablished(t); metadataAfterPowerLoss(n) {
		t.Fatal("making a partition synced its directory: this test shows nothing")
	}
	n, h := unestablished(t)
	a := n.send(h, 1, batchOf(2, -1, 0))
	b := n.send(h, 1, batchOf(1, -1, 0))
	if len(a.produced)+len(b.produced) != 0 || h.State().LogEnd != 0 {
		t.Fatalf("appended to %d before the directory is durable", h.State().LogEnd)
	}
	if !h.Writing() {
		t.Error("nobody can see that a write is under way")
	}
	n.flush["/data"].run()
	n.rt.idle()
	a.want(t, 0, 0)
	b.want(t, 0, 2)
	n.send(h, 1, batchOf(1, -1, 0)).want(t, 0, 3) // at once from now on
	if !metadataAfterPowerLoss(n) {
		t.Error("appended, and the directory is not durable")
	}
}

// TestFirstAppendOnAFailingDisk: a partition whose directory can't be made
// durable takes nothing.
func TestFirstAppendOnAFailingDisk(t *testing.T) {
	n := newNode(t)
	n.firstAppends = true
	bad := faultfs.NewToggle(faultfs.When(faultfs.And(faultfs.Under("/data/t-0"), faultfs.OpIn(faultfs.OpSync)), faultfs.EIO()))
	n.fs = faultfs.Wrap(n.disk, bad)
	n.start()
	n.register()
	n.create("t", 1)
	h := n.m.Get("t", 0)
	bad.On()
	a := n.send(h, 1, batchOf(2, -1, 0))
	n.flush["/data"].run()
	n.rt.idle()
	if len(a.produced) != 1 || a.produced[0].Code != partition.CodeStorageError || h.State().Role != partition.Offline {
		t.Errorf("answers %+v, %s", a.produced, h.State().Role)
	}
}

// TestPartitionThatWasNeverAppendedTo: whatever a power failure leaves of its
// directory, the partition is there again, empty and in service.
func TestPartitionThatWasNeverAppendedTo(t *testing.T) {
	for name, leave := range map[string]func(fs *memfs.FS, path string) error{
		"nothing":      func(*memfs.FS, string) error { return nil },
		"an empty one": func(fs *memfs.FS, path string) error { return vfs.WriteFileAtomic(fs, path, nil) },
		"a torn one": func(fs *memfs.FS, path string) error {
			return vfs.WriteFileAtomic(fs, path, []byte("version: 0\ntopic_"))
		},
	} {
		n, _ := unestablished(t)
		n.power()
		if err := leave(n.disk, "/data/t-0/"+checkpoint.PartitionMetadataFile); err != nil {
			t.Fatal(err)
		}
		n.start()
		n.register()
		h := n.m.Get("t", 0)
		if h.State().Role == partition.Offline {
			t.Errorf("%s: offline: %s", name, h.State().Reason)
			continue
		}
		n.send(h, 1, batchOf(2, -1, 0))
		n.flush["/data"].run()
		n.rt.idle()
		if end := h.State().LogEnd; end != 2 {
			t.Errorf("%s: appended up to %d, want 2", name, end)
		}
		text, err := vfs.ReadFile(n.fs, filepath.Join(h.Dir(), "t-0", checkpoint.PartitionMetadataFile))
		if err != nil || len(text) == 0 {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	// So it is if it never had a partition.metadata: only one of a topic has at first.
	n := newNode(t)
	n.firstAppends = true
	n.start()
	n.register()
	n.create("t", 3)
	n.send(n.m.Get("t", 1), 1, batchOf(2, -1, 0))
	n.flushAll()
	for p, want := range []bool{true, true, false} {
		_, ok, err := checkpoint.ReadPartitionMetadata(n.disk, fmt.Sprintf("/data/t-%d/%s", p, checkpoint.PartitionMetadataFile))
		if ok != want || err != nil {
			t.Errorf("t-%d has its identity: %v, %v", p, ok, err)
		}
	}
	for _, again := range []func(){n.stop, n.kill, n.power} {
		again()
		if sum := n.start(); sum.Loaded+sum.Created != 3 || sum.Offline+sum.Stray > 0 {
			t.Errorf("%+v, want three loaded", sum)
		}
		n.register()
	}
	n.send(n.m.Get("t", 2), 1, batchOf(2, -1, 0))
	n.flushAll()
	n.kill()
	n.start()
	if end := n.m.Get("t", 2).State().LogEnd; end != 2 {
		t.Errorf("the third partition ends at %d, want 2", end)
	}
	// One that holds records is another matter.
	n, h := unestablished(t)
	n.send(h, 1, batchOf(2, -1, 0))
	n.flushAll()
	n.kill()
	if err := vfs.WriteFileAtomic(n.disk, "/data/t-0/"+checkpoint.PartitionMetadataFile, []byte("version: 0\ntopic_")); err != nil {
		t.Fatal(err)
	}
	n.start()
	if h := n.m.Get("t", 0); h.State().Role != partition.Offline {
		t.Error("records of nobody knows whom are served")
	}
}
