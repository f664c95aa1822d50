package host

import (
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/receipt"
)

func (n *node) receipts() []receipt.Receipt {
	n.t.Helper()
	list, torn, err := receipt.Read(n.fs, keptDir)
	if err != nil || torn > 0 {
		n.t.Fatalf("receipts: %d torn lines, %v", torn, err)
	}
	return list
}

// onlyReceipt returns the one receipt there is, and checks that its bytes are kept.
func (n *node) onlyReceipt() receipt.Receipt {
	n.t.Helper()
	list := n.receipts()
	if len(list) != 1 {
		n.t.Fatalf("%d receipts: %+v", len(list), list)
	}
	for _, p := range list[0].Parts {
		b, err := vfs.ReadFile(n.fs, keptDir+"/"+list[0].Kept+"/"+p.Name)
		if err != nil || int64(len(b)) != p.Bytes {
			n.t.Errorf("kept %d bytes of %s, want %d: %v", len(b), p.File, p.Bytes, err)
		}
	}
	return list[0]
}

// What only a deposed leader had is named by a receipt and kept, before it goes: a
// loss of power at once takes nothing of either.
func TestDivergenceHasAReceipt(t *testing.T) {
	p := newPair(t, 1, nil)
	p.settle()
	p.produce(1, 3).want(t, 0, 0)
	p.wires[1].cut = true
	p.settle()
	p.nodes[0].send(p.hosted(1), 1, batchOf(5, 77, 0)).want(t, 0, 3)
	p.wires[1].cut = false
	p.elect(2, 2)
	p.nodes[1].send(p.hosted(2), 1, batchOf(2, -1, 0)).want(t, 0, 3)
	p.wait(2000)
	p.same()
	n := p.nodes[0]
	n.power()
	r := n.onlyReceipt()
	if r.Cause != receipt.Divergence || r.Topic != "t" || r.TopicID != topicID("t").String() || r.Start != 3 || r.End != 8 ||
		r.Records != 5 || r.Batches != 1 || r.BelowHighWatermark || r.HighWatermark != 3 || r.Node != 1 || r.Dir != "/data" {
		t.Errorf("%+v", r)
	}
	if len(r.Epochs) != 1 || r.Epochs[0] != (receipt.Epoch{Epoch: 0, Start: 3}) {
		t.Errorf("epochs %+v", r.Epochs)
	}
	if len(r.Producers) != 1 || r.Producers[0] != (receipt.Producer{ID: 77, Epoch: 0, First: 0, Last: 4}) {
		t.Errorf("producers %+v", r.Producers)
	}
	if !strings.Contains(r.Detail, "broker 2 leads in epoch 1") {
		t.Errorf("detail %q", r.Detail)
	}
}

// What a crash has torn is named by a receipt and kept, once.
func TestTornTailHasAReceipt(t *testing.T) {
	n, h := leading(t, nil)
	n.send(h, 1, batchOf(3, -1, 0)).want(t, 0, 0)
	n.send(h, 1, batchOf(4, -1, 0)).want(t, 0, 3)
	segment := "/data/t-0/00000000000000000000.log"
	f, err := n.disk.OpenFile(segment, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	size, _ := f.Size()
	if err := f.Truncate(size - 5); err != nil {
		t.Fatal(err)
	}
	f.Close()
	n.disk = n.disk.KillClone(memfs.Kill{})
	n.fs = n.disk
	n.start()
	r := n.onlyReceipt()
	if r.Cause != receipt.CrashTail || r.Start != 3 || r.End != 3 || r.Records != 0 || r.Bytes == 0 || r.NotKept != "" {
		t.Errorf("%+v", r)
	}
	n.kill()
	n.start()
	n.onlyReceipt()
}

// A small file that makes no sense is kept before it is replaced.
func TestUnreadableFilesHaveReceipts(t *testing.T) {
	n, h := leading(t, nil)
	n.send(h, 1, batchOf(3, -1, 0)).want(t, 0, 0)
	n.stop()
	files := []string{
		checkpoint.RecoveryPointFile, checkpoint.HighWatermarkFile, checkpoint.LogStartFile, checkpoint.CleanerFile,
		runFile, inventoryFile, uncleanFile, "t-0/" + checkpoint.EpochFile,
	}
	for _, name := range files {
		if err := vfs.WriteFile(n.fs, "/data/"+name, []byte("garbage")); err != nil {
			t.Fatal(err)
		}
	}
	n.start()
	got := make(map[string]bool)
	for _, r := range n.receipts() {
		b, err := vfs.ReadFile(n.fs, keptDir+"/"+r.Kept+"/"+r.Parts[0].Name)
		if r.Cause != receipt.Unreadable || err != nil || string(b) != "garbage" {
			t.Errorf("%+v: %q, %v", r, b, err)
		}
		got[r.Parts[0].File] = true
	}
	for _, name := range files {
		if !got[name[strings.LastIndex(name, "/")+1:]] {
			t.Errorf("%s has no receipt", name)
		}
	}
}

// On a full disk kept bytes give way to appends.
func TestKeptBytesGiveWayToAppends(t *testing.T) {
	n, h := leading(t, nil)
	if err := vfs.WriteFile(n.disk, "/data/old", make([]byte, 4000)); err != nil {
		t.Fatal(err)
	}
	n.m.keeper().keepFile(n.dirs.All()[0], "/data/old", errNoRecord)
	n.send(h, 1, batchOf(3, -1, 0)).want(t, 0, 0)
	free, total, _ := n.disk.Free("/data")
	n.disk.SetCapacity(total - free)
	if a := n.send(h, 1, batchOf(3, -1, 0)); a.produced[0].Code == 0 {
		t.Fatal("the disk is not full")
	}
	n.m.keeper().tend(false)
	n.send(h, 1, batchOf(3, -1, 0)).want(t, 0, 3)
	if st := n.m.KeptStats(); st.Copies != 0 || st.Receipts != 1 || st.Dropped != 1 {
		t.Errorf("%+v", st)
	}
}
