package host

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/log/receipt"
	"github.com/tidemark/tidemark/partition"
)

const epochFile = "/data/t-0/" + checkpoint.EpochFile

// reigned is a node that has led t-0 in six epochs, three batches each, in segments of
// which each holds parts of several. It has been stopped.
func reigned(t testing.TB) (n *node, entries []epoch.Entry, bases []model.Offset) {
	n, h := leading(t, map[string]string{"retention.ms": "-1"})
	n.set(h, func(c *config.Topic) { c.SegmentBytes = 380 })
	for range 6 {
		n.add(h, "a=1", "a=2", "a=3")
		n.apply(deposed("t"))
		c := metadata.NewPartitionChange(topicID("t"), 0)
		c.Leader = 1
		n.apply(c)
	}
	for _, s := range h.State().View.Segments() {
		bases = append(bases, s.Base)
	}
	n.stop()
	entries, err := checkpoint.ReadEpochs(n.disk, epochFile)
	if err != nil || len(entries) < 6 || len(bases) < 4 {
		t.Fatalf("epochs %v, segments %v, %v", entries, bases, err)
	}
	return n, entries, bases
}

// spoilEpochs moves the start of one entry and returns the file then, false if that is
// no epoch file.
func (n *node) spoilEpochs(entries []epoch.Entry, k int, by model.Offset) ([]byte, bool) {
	n.t.Helper()
	bad := slices.Clone(entries)
	bad[k].Start += by
	if _, err := epoch.New(bad); err != nil {
		return nil, false
	}
	if err := checkpoint.WriteEpochs(n.disk, epochFile, bad); err != nil {
		n.t.Fatal(err)
	}
	return n.content(epochFile), true
}

// readAll reads as consumers do: where that fails the partition is to have a look.
func (n *node) readAll(h *Hosted) (failed bool) {
	n.t.Helper()
	for from := h.State().LogStart; h.State().View != nil && from < h.State().LogEnd; from++ {
		for try := 0; h.State().View != nil; try++ {
			region, err := h.State().View.Read(from, h.State().LogEnd, 1<<20, true)
			region.Release()
			if err == nil {
				break
			}
			failed = true
			if try > 0 {
				n.t.Errorf("offset %d, once more: %v", from, err)
				break
			}
			h.Verify(from)
			n.rt.idle()
			n.flushAll()
		}
	}
	return failed
}

// TestWrongEpochsAreMended: an entry of the epoch file that contradicts batches in the
// middle of a segment, of which the digest says that they are as they were written, is
// put right while the partition is led, by a reader or a scrub; the old file is kept.
func TestWrongEpochsAreMended(t *testing.T) {
	looks := map[string]func(n *node, h *Hosted) bool{
		"reader": func(n *node, h *Hosted) bool { return n.readAll(h) },
		"scrub": func(n *node, h *Hosted) bool {
			n.scrub()
			if s := n.m.ScrubStats(); s.Damaged+s.Failures > 0 {
				n.t.Errorf("%+v", s)
			}
			return false
		},
	}
	for what, look := range looks { // order-free
		mended := 0
		for _, by := range []model.Offset{-1, 1} {
			for k := 1; k < 6; k++ {
				n, entries, _ := reigned(t)
				spoilt, ok := n.spoilEpochs(entries, k, by)
				if !ok {
					continue
				}
				n.start()
				n.register()
				h := n.m.Get("t", 0)
				told := len(n.receipts())
				failed := look(n, h)
				receipts := n.receipts()[told:]
				s := h.State()
				if s.Role != partition.Leader {
					t.Fatalf("%s, entry %d: %+v", what, k, s.Mark)
				}
				if failed && len(receipts) != 1 {
					t.Errorf("%s, entry %d: %d receipts", what, k, len(receipts))
				}
				for _, r := range receipts {
					b, err := vfs.ReadFile(n.fs, keptDir+"/"+r.Kept+"/"+r.Parts[0].Name)
					if r.Cause != receipt.Unreadable || r.Topic != "t" || err != nil || !bytes.Equal(b, spoilt) {
						t.Errorf("%s, entry %d: %+v: %q, %v", what, k, r, b, err)
					}
					mended++
				}
				if len(receipts) > 0 || failed {
					n.wantEpochs(h, entries)
				}
				n.send(h, 1, batchOf(1, -1, 0)).want(t, 0, 18)
				n.again()
				if h = n.m.Get("t", 0); n.readAll(h) || h.State().Role != partition.Leader || len(n.receipts()) != told+len(receipts) {
					t.Errorf("%s, entry %d: it is found again", what, k)
				}
			}
		}
		if mended == 0 {
			t.Errorf("%s: nothing was mended", what)
		}
		t.Logf("%s: mended %d", what, mended)
	}
}

// wantEpochs checks what the partition and its file say of epochs.
func (n *node) wantEpochs(h *Hosted, entries []epoch.Entry) {
	n.t.Helper()
	have, err := checkpoint.ReadEpochs(n.disk, epochFile)
	if err != nil || len(have) < 6 || !slices.Equal(have[:6], entries[:6]) {
		n.t.Errorf("the file has %v, want %v, %v", have, entries, err)
	}
	for i, e := range entries[:5] {
		if got, code := h.State().EndOffsetForEpoch(e.Epoch, -1); code != 0 || got.Offset != entries[i+1].Start || got.Epoch != e.Epoch {
			n.t.Errorf("epoch %d ends at %+v, %d, want %d", e.Epoch, got, code, entries[i+1].Start)
		}
	}
	if latest := h.State().EpochFor(h.State().LogEnd); latest != h.State().LeaderEpoch {
		n.t.Errorf("at the log's end is epoch %d, led in %d", latest, h.State().LeaderEpoch)
	}
}

// TestWrongEpochsWithoutDigest: where nothing vouches for the batches, that is damage.
func TestWrongEpochsWithoutDigest(t *testing.T) {
	offline := 0
	for k := 1; k < 6; k++ {
		n, entries, bases := reigned(t)
		if _, ok := n.spoilEpochs(entries, k, 1); !ok {
			continue
		}
		for _, base := range bases {
			path := n.segmentFile(base, ".seal")
			if err := n.disk.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		told := len(n.receipts())
		n.start()
		n.register()
		h := n.m.Get("t", 0)
		n.readAll(h)
		if h.State().Role == partition.Offline {
			offline++
		}
		if len(n.receipts()) > told {
			t.Errorf("entry %d: %+v", k, n.receipts()[told:])
		}
	}
	if offline == 0 {
		t.Error("the test can't fail")
	}
}

func (n *node) segmentFile(base model.Offset, suffix string) string {
	return fmt.Sprintf("/data/t-0/%020d%s", base, suffix)
}
