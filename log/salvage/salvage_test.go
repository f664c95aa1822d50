package salvage_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/log/salvage"
	"github.com/tidemark/tidemark/log/verify"
	"github.com/tidemark/tidemark/protocol/record"
)

const first = "t-0/00000000000000000000.log"

// batches are n batches of 2 records, from an offset and in an epoch.
func batches(base model.Offset, n int, epoch model.LeaderEpoch) (b []byte) {
	for i := range n {
		b = append(b, logtest.Batch(logtest.Spec{Base: base + model.Offset(2*i), Epoch: epoch, Records: 2, ValueSize: 50})...)
	}
	return b
}

func disk(t *testing.T, files map[string][]byte) *memfs.FS {
	t.Helper()
	fs := memfs.New()
	for path, b := range files {
		if err := fs.MkdirAll(path[:strings.LastIndexByte(path, '/')], 0o755); err != nil {
			t.Fatal(err)
		}
		if err := vfs.WriteFile(fs, path, b); err != nil {
			t.Fatal(err)
		}
	}
	return fs
}

func look(t *testing.T, fs vfs.FS, paths ...string) *salvage.Survey {
	t.Helper()
	s, err := salvage.Look(fs, paths)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// offsets are the base offsets of what was chosen.
func offsets(t *testing.T, fs vfs.FS, s *salvage.Survey) (list []model.Offset) {
	t.Helper()
	err := s.Each(fs, func(b record.Batch) error {
		list = append(list, b.BaseOffset())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func upTo(n int) (list []model.Offset) {
	for i := range n {
		list = append(list, model.Offset(2*i))
	}
	return list
}

func TestWholeLogIsOneRun(t *testing.T) {
	fs := disk(t, map[string][]byte{first: batches(0, 10, 3)})
	s := look(t, fs, "t-0")
	if len(s.Chosen) != 1 || len(s.Losses) != 0 || s.Batches() != 10 || s.Records() != 20 {
		t.Errorf("%+v", s)
	}
}

// TestTwoCopiesMakeOne: each of two replicas is damaged in another place.
func TestTwoCopiesMakeOne(t *testing.T) {
	a, b := batches(0, 10, 3), batches(0, 10, 3)
	a[300] ^= 1
	clear(b[600:900])
	fs := disk(t, map[string][]byte{"a" + first: a, "b" + first: b})
	s := look(t, fs, "at-0", "bt-0")
	if got := offsets(t, fs, s); !slices.Equal(got, upTo(10)) {
		t.Errorf("chosen: %v", got)
	}
}

// TestLaterEpochWins: where replicas diverged, what the later leader wrote is the
// log.
func TestLaterEpochWins(t *testing.T) {
	fs := disk(t, map[string][]byte{
		"a" + first: batches(0, 10, 1),
		"b" + first: append(batches(0, 6, 1), batches(12, 2, 2)...),
	})
	s := look(t, fs, "at-0", "bt-0")
	var epochs []model.LeaderEpoch
	if err := s.Each(fs, func(b record.Batch) error { epochs = append(epochs, b.LeaderEpoch()); return nil }); err != nil {
		t.Fatal(err)
	}
	if want := []model.LeaderEpoch{1, 1, 1, 1, 1, 1, 2, 2, 1, 1}; !slices.Equal(epochs, want) {
		t.Errorf("epochs of what was chosen: %v, want %v", epochs, want)
	}
	raised, err := s.Export(fs, "out/t-0")
	if err != nil || raised != 2 {
		t.Errorf("raised %d epochs, error %v", raised, err)
	}
	opens(t, fs, "out/t-0", 20)
}

// opens checks that a log is whole, by package verify and by opening it.
func opens(t *testing.T, fs vfs.FS, dir string, end model.Offset) {
	t.Helper()
	r, err := verify.Partition(fs, dir, true)
	if err != nil || r.Worst() > verify.Derived {
		t.Fatalf("verify: %v, %v", err, r.Findings)
	}
	l, report, err := log.Open(log.Options{FS: fs, Dir: dir, Stop: log.StopPower})
	if err != nil || len(report.Removed) > 0 || l.LogEnd() != end {
		t.Fatalf("open: %v, %+v", err, report)
	}
	if err := l.Close(true); err != nil {
		t.Fatal(err)
	}
}

// TestDamage: what is left of a segment of ten batches, and what is said to be
// lost.
func TestDamage(t *testing.T) {
	whole := batches(0, 10, 3)
	size := len(whole) / 10
	at := func(i int) []byte { return whole[i*size : (i+1)*size] }
	for _, c := range []struct {
		name string
		b    []byte
		want []model.Offset
		lost string // part of a reason
	}{
		{"torn end", whole[:len(whole)-5], upTo(9), "of which"},
		{"zeros behind", append(bytes.Clone(whole), make([]byte, 500)...), upTo(10), "length field says"},
		{"garbage before", append(bytes.Repeat([]byte{0xee}, 333), whole...), upTo(10), "length field says"},
		{"a batch of zeros", slices.Concat(whole[:4*size], make([]byte, size), whole[5*size:]), slices.Delete(upTo(10), 4, 5), "no whole batch"},
		{"a batch twice", slices.Concat(whole[:3*size], at(2), whole[3*size:]), upTo(10), "other batches"},
		{"an older batch between", slices.Concat(whole[:6*size], at(1), whole[6*size:]), upTo(10), "other batches"},
		{"two swapped", slices.Concat(whole[:3*size], at(4), at(3), whole[5*size:]), upTo(10), ""},
		{"the first two swapped", slices.Concat(at(1), at(0), whole[2*size:]), upTo(10), ""},
		{"one of an older epoch behind", slices.Concat(whole, batches(20, 1, 2)), upTo(10), "does not fit in"},
		{"one whose offset was changed", slices.Concat(whole[:5*size], batches(5000, 1, 3), whole[6*size:]), slices.Delete(upTo(10), 5, 6), "does not fit in"},
		{"one whose epoch was changed", slices.Concat(whole[:5*size], batches(10, 1, 900), whole[6*size:]), upTo(10), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := disk(t, map[string][]byte{first: c.b})
			s := look(t, fs, first)
			if got := offsets(t, fs, s); !slices.Equal(got, c.want) {
				t.Errorf("chosen: %v, want %v", got, c.want)
			}
			why := ""
			for _, l := range s.Losses {
				why += l.Why + "\n"
			}
			if !strings.Contains(why, c.lost) || (c.lost == "") != (why == "") {
				t.Errorf("losses %+v, want %q", s.Losses, c.lost)
			}
			if _, err := s.Export(fs, "out"); err != nil {
				t.Fatal(err)
			}
			opens(t, fs, "out", c.want[len(c.want)-1]+2)
			if _, err := s.Export(fs, "out"); !errors.Is(err, os.ErrExist) {
				t.Errorf("a second export: %v", err)
			}
		})
	}
}

// TestDamageCostsOnlyWhatItHits writes over random places: every batch that is
// not touched survives.
func TestDamageCostsOnlyWhatItHits(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		const n = 40
		b := batches(1000, n, 7)
		size := len(b) / n
		hit := map[int]bool{}
		for range 1 + r.IntN(4) {
			from := r.IntN(len(b))
			to := min(len(b), from+1+r.IntN(3*size))
			for i := from; i < to; i++ {
				b[i] = byte(r.Uint32())
			}
			for k := from / size; k <= (to-1)/size; k++ {
				hit[k] = true
			}
		}
		fs := disk(t, map[string][]byte{"t-0/00000000000000001000.log": b})
		got := offsets(t, fs, look(t, fs, "t-0"))
		for k := range n {
			if o := model.Offset(1000 + 2*k); !hit[k] && !slices.Contains(got, o) {
				t.Errorf("seed %d: batch %d at offset %d was not touched and is not found", seed, k, o)
			}
		}
	}
}

// FuzzLook: whatever a file holds, what is chosen of it is a log.
func FuzzLook(f *testing.F) {
	f.Add(batches(0, 3, 1), batches(2, 3, 2))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		fs := disk(t, map[string][]byte{"a/" + first: a, "b/" + first: b})
		s := look(t, fs, "a/t-0", "b/t-0")
		if len(s.Chosen) == 0 {
			return
		}
		if _, err := s.Export(fs, "out/t-0"); err != nil {
			t.Fatal(err)
		}
		if r, err := verify.Partition(fs, "out/t-0", false); err != nil || r.Worst() > verify.Derived {
			t.Errorf("%v: %v", err, r.Findings)
		}
	})
}

// TestCommitted: what a reader of committed records sees is what is handed on.
func TestCommitted(t *testing.T) {
	spec := func(base model.Offset, txn bool, marker string) []byte {
		return logtest.Batch(logtest.Spec{Base: base, Producer: 7, Txn: txn, Marker: marker})
	}
	fs := disk(t, map[string][]byte{first: slices.Concat(
		batches(0, 1, 0),
		spec(2, true, ""), spec(3, true, "commit"),
		spec(4, true, ""), spec(5, true, "abort"),
		spec(6, true, ""),
		batches(7, 1, 0),
	)})
	s := look(t, fs, first)
	c, err := s.Transactions(fs)
	if err != nil {
		t.Fatal(err)
	}
	var shown []model.Offset
	err = s.Each(fs, func(b record.Batch) error {
		if c.Shows(b) {
			shown = append(shown, b.BaseOffset())
		}
		return nil
	})
	if want := []model.Offset{0, 2, 7}; err != nil || !slices.Equal(shown, want) {
		t.Errorf("shown: %v, want %v; %v", shown, want, err)
	}
}
