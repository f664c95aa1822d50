package repair_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/log/receipt"
	"github.com/tidemark/tidemark/log/repair"
	"github.com/tidemark/tidemark/log/verify"
)

const dir = "log/t-0"

func sample(t *testing.T) *memfs.FS {
	t.Helper()
	fs := memfs.New()
	ok(t, fs.MkdirAll("log", 0o755))
	ok(t, logtest.Sample(fs, dir))
	ok(t, checkpoint.WritePartitionMetadata(fs, dir+"/"+checkpoint.PartitionMetadataFile, checkpoint.PartitionMetadata{TopicID: model.TopicID{1}}))
	ok(t, checkpoint.WriteOffsets(fs, "log/"+checkpoint.RecoveryPointFile, checkpoint.Offsets{{Topic: "t"}: 130}))
	return fs
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, fs vfs.FS, path string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(fs, path)
	ok(t, err)
	return b
}

// files are the names of one kind, in order.
func files(t *testing.T, fs vfs.FS, suffix string) (list []string) {
	t.Helper()
	names, err := fs.List(dir)
	ok(t, err)
	for _, n := range names {
		if strings.HasSuffix(n, suffix) {
			list = append(list, dir+"/"+n)
		}
	}
	return list
}

func store(fs vfs.FS) *receipt.Store {
	return receipt.New(receipt.Options{FS: fs, Dir: "kept", BytesMax: 1 << 40, RetentionMs: -1})
}

func plan(t *testing.T, fs vfs.FS, cut bool) *repair.Partition {
	t.Helper()
	p, err := repair.Plan(fs, "log", repair.Options{Cut: cut})
	ok(t, err)
	return &p[0]
}

// whole checks that verify has nothing to say of the log but notes.
func whole(t *testing.T, fs vfs.FS, end model.Offset) {
	t.Helper()
	r, err := verify.Partition(fs, dir, true)
	ok(t, err)
	if r.Worst() != verify.Note || r.End != end {
		t.Errorf("after the repair the log ends at %d, want %d; findings: %v", r.End, end, r.Findings)
	}
}

func TestNothingToDo(t *testing.T) {
	fs := sample(t)
	if p := plan(t, fs, true); !p.Nothing() {
		t.Errorf("%+v", p)
	}
}

// TestDerivedFiles: each kind is removed, cut short, or made of another; all
// records stay.
func TestDerivedFiles(t *testing.T) {
	for _, suffix := range []string{".index", ".timeindex", ".txnindex", ".seal", ".snapshot", checkpoint.EpochFile} {
		for _, how := range []string{"gone", "short", "turned"} {
			t.Run(suffix+" "+how, func(t *testing.T) {
				fs := sample(t)
				path := files(t, fs, suffix)[0]
				b := read(t, fs, path)
				switch how {
				case "gone":
					ok(t, fs.Remove(path))
				case "short":
					ok(t, vfs.WriteFile(fs, path, b[:len(b)-1]))
				case "turned":
					b[len(b)/2] ^= 0x40
					ok(t, vfs.WriteFile(fs, path, b))
				}
				p := plan(t, fs, false)
				if p.Cut != nil || p.Left != "" {
					t.Fatalf("plan: %+v", p)
				}
				ok(t, p.Apply(fs, store(fs), model.Now{Wall: 1}))
				whole(t, fs, 130)
			})
		}
	}
}

// TestDamage: without leave nothing is touched; with it the log ends where the
// damage begins, and all the rest is in the kept bytes.
func TestDamage(t *testing.T) {
	fs := sample(t)
	segments := files(t, fs, ".log")
	bad := segments[2]
	b := read(t, fs, bad)
	b[100] ^= 1
	ok(t, vfs.WriteFile(fs, bad, b))

	before := plan(t, fs, false)
	if before.Left == "" || before.Cut != nil || len(before.Rebuild) != 0 {
		t.Fatalf("plan: %+v", before)
	}
	ok(t, before.Apply(fs, store(fs), model.Now{Wall: 1}))
	if !bytes.Equal(read(t, fs, bad), b) {
		t.Fatal("a log that was to be left alone has changed")
	}

	p := plan(t, fs, true)
	if p.Cut == nil || len(p.Cut.Segments) != len(segments)-3 {
		t.Fatalf("plan: %+v", p)
	}
	ok(t, p.Apply(fs, store(fs), model.Now{Wall: 1}))
	whole(t, fs, p.Cut.At)
	list, _, err := receipt.Read(fs, "kept")
	ok(t, err)
	if len(list) != 1 || list[0].Cause != receipt.Repair || list[0].Start != int64(p.Cut.At) || list[0].End != 130 || list[0].Bytes != p.Cut.Bytes {
		t.Fatalf("receipts: %+v", list)
	}
	first := list[0].Parts[0]
	if kept := read(t, fs, "kept/"+list[0].Kept+"/"+first.Name); !bytes.Equal(kept, b[p.Cut.Pos:]) {
		t.Errorf("kept %d bytes of the damaged segment, %d were cut", len(kept), len(b[p.Cut.Pos:]))
	}
	points, err := checkpoint.ReadOffsets(fs, "log/"+checkpoint.RecoveryPointFile)
	if err != nil || points[model.TopicPartition{Topic: "t"}] != p.Cut.At {
		t.Errorf("recovery point %v, %v", points, err)
	}
}

// TestNothingIsCutThatIsNotKept: without room for a copy the log stays as it is.
func TestNothingIsCutThatIsNotKept(t *testing.T) {
	fs := sample(t)
	bad := files(t, fs, ".log")[2]
	b := read(t, fs, bad)
	b[100] ^= 1
	ok(t, vfs.WriteFile(fs, bad, b))
	p := plan(t, fs, true)
	none := receipt.New(receipt.Options{FS: fs, Dir: "kept", BytesMax: 1, RetentionMs: -1})
	if err := p.Apply(fs, none, model.Now{Wall: 1}); !errors.Is(err, repair.ErrNotKept) {
		t.Fatalf("apply: %v", err)
	}
	if again := plan(t, fs, true); !bytes.Equal(read(t, fs, bad), b) || again.Cut.Bytes != p.Cut.Bytes {
		t.Error("something was cut")
	}
}

// TestNoteOfDamage: where all batches are whole the note goes, or no start would
// open the log.
func TestNoteOfDamage(t *testing.T) {
	fs := sample(t)
	ok(t, vfs.WriteFile(fs, strings.TrimSuffix(files(t, fs, ".log")[1], ".log")+".damaged", []byte("position 0, offset 9: x\n")))
	p := plan(t, fs, false)
	ok(t, p.Apply(fs, store(fs), model.Now{Wall: 1}))
	if len(files(t, fs, ".damaged")) != 0 {
		t.Error("the note is still there")
	}
	whole(t, fs, 130)
}

// TestCrashAtEveryCall: a repair whose process, or power, fails at any call is
// repaired again to the same log, and all that was cut has a copy.
func TestCrashAtEveryCall(t *testing.T) {
	for k := int64(1); ; k++ {
		for _, power := range []bool{false, true} {
			fs := sample(t)
			bad := files(t, fs, ".log")[2]
			b := read(t, fs, bad)
			b[100] ^= 1
			ok(t, vfs.WriteFile(fs, bad, b))
			settle(t, fs)
			p := plan(t, fs, true)
			dying := faultfs.Wrap(fs, faultfs.When(faultfs.And(faultfs.Mutations(), faultfs.FromNth(k)), faultfs.EIO()))
			if err := p.Apply(dying, store(dying), model.Now{Wall: 1}); err == nil {
				if k < 20 {
					t.Fatalf("only %d calls", k-1)
				}
				return // it came to its end
			}
			if power {
				fs = fs.CrashClone(memfs.Crash{})
			} else {
				fs = fs.KillClone(memfs.Kill{})
			}
			checkAgain(t, fs, p.Cut, fmt.Sprintf("call %d, power %v", k, power))
		}
	}
}

// checkAgain repairs what a repair that died has left.
func checkAgain(t *testing.T, fs *memfs.FS, cut *repair.Cut, when string) {
	t.Helper()
	again := plan(t, fs, true)
	if again.Left != "" {
		t.Fatalf("%s: %+v", when, again)
	}
	if err := again.Apply(fs, store(fs), model.Now{Wall: 2}); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	r, err := verify.Partition(fs, dir, true)
	ok(t, err)
	if r.Worst() != verify.Note || r.End != cut.At {
		t.Fatalf("%s: end %d, want %d: %v", when, r.End, cut.At, r.Findings)
	}
	list, _, err := receipt.Read(fs, "kept")
	ok(t, err)
	kept := int64(0)
	for i := range list {
		if list[i].Kept != "" && receipt.Holds(fs, "kept", &list[i]) {
			kept = max(kept, list[i].Bytes)
		}
	}
	if kept != cut.Bytes {
		t.Fatalf("%s: %d bytes are kept, %d were cut: %+v", when, kept, cut.Bytes, list)
	}
}

// settle makes all that is on the disk durable.
func settle(t *testing.T, fs *memfs.FS) {
	t.Helper()
	names, err := fs.List(dir)
	ok(t, err)
	for _, n := range names {
		f, err := fs.OpenFile(dir+"/"+n, os.O_RDWR, 0)
		ok(t, err)
		ok(t, f.Sync())
		ok(t, f.Close())
	}
	ok(t, fs.SyncDir(dir))
	ok(t, fs.SyncDir("log"))
	ok(t, fs.SyncDir("."))
}
