package verify_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/log/verify"
	"github.com/tidemark/tidemark/protocol/record"
)

const dir = "log/t-0"

func sample(t *testing.T) *memfs.FS {
	t.Helper()
	fs := memfs.New()
	if err := fs.MkdirAll("log", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := logtest.Sample(fs, dir); err != nil {
		t.Fatal(err)
	}
	id := checkpoint.PartitionMetadata{TopicID: model.TopicID{1}}
	if err := checkpoint.WritePartitionMetadata(fs, dir+"/"+checkpoint.PartitionMetadataFile, id); err != nil {
		t.Fatal(err)
	}
	return fs
}

func check(t *testing.T, fs vfs.FS) *verify.Report {
	t.Helper()
	r, err := verify.Partition(fs, dir, true)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t *testing.T, fs vfs.FS, path string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(fs, path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, fs vfs.FS, path string, b []byte) {
	t.Helper()
	if err := vfs.WriteFileAtomic(fs, path, b); err != nil {
		t.Fatal(err)
	}
}

// segments are the names of the sample's segments, oldest first.
func segments(t *testing.T, fs vfs.FS) (list []string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasSuffix(n, ".log") {
			list = append(list, dir+"/"+n)
		}
	}
	return list
}

// TestOwnLogIsClean: of a log that was written and closed there is nothing to
// say.
func TestOwnLogIsClean(t *testing.T) {
	fs := sample(t)
	r := check(t, fs)
	if len(r.Findings) != 0 {
		t.Errorf("findings: %v", r.Findings)
	}
	if r.Segments < 5 || r.Start != 0 || r.End != 130 || r.Batches != 70 || r.Records != 130 {
		t.Errorf("report: %+v", r)
	}
}

// TestEveryFlippedBitIsFound turns one bit after the other in every file. What is
// not found is only what nothing else says: the text of checkpoints that stay
// readable and agree with the batches, and times.
func TestEveryFlippedBitIsFound(t *testing.T) {
	fs := sample(t)
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := dir + "/" + name
		good := read(t, fs, path)
		for at := range good {
			bad := bytes.Clone(good)
			bad[at] ^= 1 << (at % 8)
			write(t, fs, path, bad)
			if r := check(t, fs); r.Worst() == verify.Note && !silent(name) {
				t.Errorf("%s: a flipped bit in byte %d is not found", path, at)
			}
		}
		write(t, fs, path, good)
	}
}

// silent names the bytes that nothing vouches for.
func silent(name string) bool {
	_, kind, _ := strings.Cut(name, ".")
	return kind == "metadata" || kind == "" // text
}

// TestGrades: what is done to a log, and how it is graded.
func TestGrades(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(fs vfs.FS, segs []string)
		want verify.Grade
		text string
	}{
		{"nothing", func(vfs.FS, []string) {}, verify.Note, ""},
		{"index gone", func(fs vfs.FS, segs []string) {
			_ = fs.Remove(strings.TrimSuffix(segs[1], ".log") + ".index")
		}, verify.Derived, "missing"},
		{"epochs gone", func(fs vfs.FS, _ []string) {
			_ = fs.Remove(dir + "/" + checkpoint.EpochFile)
		}, verify.Derived, "missing"},
		{"the log starts inside a batch", func(fs vfs.FS, segs []string) { deletedInside(t, fs, segs, 0) }, verify.Note, ""},
		{"it starts inside one of another epoch", func(fs vfs.FS, segs []string) {
			deletedInside(t, fs, segs, 1)
		}, verify.Derived, "disagrees with batch"},
		{"torn end", func(fs vfs.FS, segs []string) {
			last := segs[len(segs)-1]
			b := read(t, fs, last)
			write(t, fs, last, b[:len(b)-3])
		}, verify.Damage, "bytes, "}, // a seal of the clean stop says that more was there
		{"torn end without a seal", func(fs vfs.FS, segs []string) {
			last := segs[len(segs)-1]
			_ = fs.Remove(strings.TrimSuffix(last, ".log") + ".seal")
			b := read(t, fs, last)
			write(t, fs, last, append(b, b[:30]...))
		}, verify.Tail, "no batch"},
		{"zeros at the end", func(fs vfs.FS, segs []string) {
			last := segs[len(segs)-1]
			_ = fs.Remove(strings.TrimSuffix(last, ".log") + ".seal")
			write(t, fs, last, append(read(t, fs, last), make([]byte, 4096)...))
		}, verify.Tail, "4096 zero bytes"},
		{"batches swapped", func(fs vfs.FS, segs []string) {
			b := read(t, fs, segs[0])
			n, m := record.SizeOf(b), int64(0)
			m = record.SizeOf(b[n:])
			swapped := append(bytes.Clone(b[n:n+m]), b[:n]...)
			write(t, fs, segs[0], append(swapped, b[n+m:]...))
		}, verify.Damage, "has reached its first offset already"},
		{"a batch twice", func(fs vfs.FS, segs []string) {
			b := read(t, fs, segs[0])
			write(t, fs, segs[0], append(bytes.Clone(b[:record.SizeOf(b)]), b...))
		}, verify.Damage, "has reached its first offset already"},
		{"a segment of zeros", func(fs vfs.FS, segs []string) {
			write(t, fs, segs[1], make([]byte, len(read(t, fs, segs[1]))))
		}, verify.Damage, "no batch"},
		{"a segment gone", func(fs vfs.FS, segs []string) { _ = fs.Remove(segs[1]) }, verify.Damage, "was followed by"},
		{"an older index", func(fs vfs.FS, segs []string) {
			write(t, fs, strings.TrimSuffix(segs[2], ".log")+".index", read(t, fs, strings.TrimSuffix(segs[1], ".log")+".index"))
		}, verify.Derived, "not the one that was sealed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := sample(t)
			c.do(fs, segments(t, fs))
			r := check(t, fs)
			all := ""
			for _, f := range r.Findings {
				all += f.String() + "\n"
			}
			if r.Worst() != c.want || !strings.Contains(all, c.text) {
				t.Errorf("worst %v, want %v with %q; findings:\n%s", r.Worst(), c.want, c.text, all)
			}
		})
	}
}

// deletedInside makes the epoch file what it is after DeleteRecords up to the last
// offset of a batch, with the epoch that is there or one that is so much lower.
func deletedInside(t *testing.T, fs vfs.FS, segs []string, lower model.LeaderEpoch) {
	t.Helper()
	var all []byte
	for _, seg := range segs {
		all = append(all, read(t, fs, seg)...)
	}
	b := record.Batch(all)
	for b.LeaderEpoch() < 1 || b.LastOffset() == b.BaseOffset() {
		b = b[b.Size():]
	}
	list, err := checkpoint.ReadEpochs(fs, dir+"/"+checkpoint.EpochFile)
	if err != nil {
		t.Fatal(err)
	}
	cut := []epoch.Entry{{Epoch: b.LeaderEpoch() - lower, Start: b.LastOffset()}}
	for _, e := range list {
		if e.Epoch > b.LeaderEpoch() {
			cut = append(cut, e)
		}
	}
	if err := checkpoint.WriteEpochs(fs, dir+"/"+checkpoint.EpochFile, cut); err != nil {
		t.Fatal(err)
	}
}

// TestLogDir: checkpoints are compared with the logs beside them.
func TestLogDir(t *testing.T) {
	fs := sample(t)
	tp, gone := model.TopicPartition{Topic: "t"}, model.TopicPartition{Topic: "gone"}
	for file, o := range map[string]model.Offset{
		checkpoint.RecoveryPointFile: 131, checkpoint.LogStartFile: 140, checkpoint.HighWatermarkFile: 150,
	} {
		if err := checkpoint.WriteOffsets(fs, "log/"+file, checkpoint.Offsets{tp: o, gone: 1}); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	found, err := verify.Run(fs, []string{"log"}, verify.Options{}, &out)
	if err != nil || !found {
		t.Fatalf("found %v, error %v", found, err)
	}
	for _, want := range []string{
		"damage recovery-point-offset-checkpoint offset 130: t-0 was durable up to 131, and ends at 130",
		"derived log-start-offset-checkpoint offset 130: t-0 starts at 140",
		"note replication-offset-checkpoint offset 130: t-0 was replicated up to 150",
		"note recovery-point-offset-checkpoint: gone-0 has no directory here",
		"note meta.properties: missing",
		"1 partitions, 0 of them not as they should be",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, &out)
		}
	}
}

// FuzzPartition: whatever the files hold, all of it is read and nothing panics.
func FuzzPartition(f *testing.F) {
	fs := memfs.New()
	if err := logtest.Sample(fs, "t-0"); err != nil {
		f.Fatal(err)
	}
	for _, n := range []string{".log", ".index", ".timeindex", ".txnindex", ".seal"} {
		b, err := vfs.ReadFile(fs, "t-0/00000000000000000000"+n)
		if err != nil {
			f.Logf("%s: %v", n, err)
		}
		f.Add(n, b)
	}
	f.Fuzz(func(t *testing.T, suffix string, b []byte) {
		if strings.ContainsAny(suffix, "/\x00") || len(suffix) > 20 {
			t.Skip()
		}
		fs := sample(t)
		write(t, fs, segments(t, fs)[1][:len(dir)+1+20]+suffix, b)
		check(t, fs)
	})
}
