package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// TestStorageModel compares the storage with a plain list of entries under
// appends, overwrites of a suffix, snapshots, installed snapshots and reopening.
func TestStorageModel(t *testing.T) {
	for seed := range uint64(25) {
		w := newStorageWorld(t, seed)
		for range 120 {
			w.step()
			w.compare()
		}
	}
}

// storageWorld is a storage beside its model.
type storageWorld struct {
	t       *testing.T
	rng     *rand.Rand
	fs      *memfs.FS
	s       *storage
	config  Config
	now     model.Now
	entries map[uint64]*raftpb.Entry
	last    uint64
	applied uint64
	term    uint64
	image   *metadata.Image // at applied
	images  map[uint64]*metadata.Image
}

const storageDir = "data/__cluster_metadata-0"

func newStorageWorld(t *testing.T, seed uint64) *storageWorld {
	w := &storageWorld{
		t: t, rng: rand.New(rand.NewPCG(seed, 6)), fs: newDisk(), now: model.Now{Mono: 1, Wall: 1000},
		entries: map[uint64]*raftpb.Entry{}, last: 1, applied: 1, term: 1, images: map[uint64]*metadata.Image{},
	}
	w.config = Config{FS: w.fs, NodeID: 1, Rand: w.rng, SegmentBytes: 600}
	must(t, bootstrap(w.config, storageDir, w.now))
	w.open()
	_, m, err := readSnapshot(w.fs, storageDir, bootstrapAt)
	must(t, err)
	w.image = m
	w.images[1] = m
	return w
}

func (w *storageWorld) open() {
	w.t.Helper()
	w.config.FS = w.fs
	var err error
	if w.s, _, err = load(w.config, storageDir, w.now); err != nil {
		w.t.Fatal(err)
	}
}

func (w *storageWorld) step() {
	w.t.Helper()
	switch w.rng.IntN(9) {
	default: // append, sometimes over a suffix that was not applied
		from := w.last + 1
		if w.last > w.applied && w.rng.IntN(3) == 0 {
			from = w.applied + 1 + w.rng.Uint64N(w.last-w.applied)
			w.term++
		}
		if w.rng.IntN(6) == 0 {
			w.term++
		}
		var es []*raftpb.Entry
		for i := range 1 + w.rng.Uint64N(4) {
			es = append(es, w.entry(from+i))
		}
		for i := from; i <= w.last; i++ {
			delete(w.entries, i)
		}
		for _, e := range es {
			w.entries[e.GetIndex()] = e
		}
		w.last = from + uint64(len(es)) - 1
		must(w.t, w.s.save(w.now, raft.Ready{Entries: es, HardState: &raftpb.HardState{Term: new(w.term), Vote: new(uint64(1)), Commit: new(w.applied)}}))
	case 6: // apply
		for w.applied < w.last && w.rng.IntN(4) > 0 {
			w.applied++
			w.image = w.imageAt(w.applied)
			w.images[w.applied] = w.image
		}
		w.s.forget(w.applied)
	case 7:
		if w.image.At().Offset > w.s.snapshot.At.Offset {
			_, err := w.s.takeSnapshot(w.now, w.s.snapshot.ConfState, w.image)
			must(w.t, err)
		}
	case 8:
		if w.rng.IntN(2) == 0 {
			w.install()
			return
		}
		w.s.hard.Commit = w.applied
		must(w.t, writeHardState(w.fs, storageDir, w.s.hard))
		w.fs = w.fs.CrashClone(memfs.Crash{UnsyncedPct: w.rng.IntN(101), Torn: true, Rand: w.rng})
		w.open()
	}
}

// entry returns any entry for index.
func (w *storageWorld) entry(index uint64) *raftpb.Entry {
	e := &raftpb.Entry{Index: new(index), Term: new(w.term), Type: raftpb.EntryNormal.Enum()}
	switch w.rng.IntN(5) {
	case 0:
	case 1:
		e.Type, e.Data = raftpb.EntryConfChangeV2.Enum(), []byte{8, 1}
	case 2:
		e.Type, e.Data = raftpb.EntryConfChange.Enum(), []byte{8, 2}
	default:
		level := metadata.Feature{Name: "f", Level: int16(1 + w.rng.IntN(1000))}
		e.Data = metadata.AppendEntry(nil, metadata.Entry{Time: 5, Records: []metadata.Record{&metadata.FeatureLevel{Feature: level}}})
	}
	return e
}

func (w *storageWorld) imageAt(index uint64) *metadata.Image {
	e := w.entries[index]
	var recs []metadata.Record
	if e.GetType() == raftpb.EntryNormal && len(e.GetData()) > 0 {
		entry, err := metadata.DecodeEntry(e.GetData())
		must(w.t, err)
		recs = entry.Records
	}
	m, _, err := metadata.Apply(w.image, model.OffsetAndEpoch{Offset: offsetOf(index), Epoch: model.LeaderEpoch(e.GetTerm())}, recs)
	must(w.t, err)
	return m
}

// install takes over a leader's snapshot that lies beyond the log; a crash may
// come right after its file was written.
func (w *storageWorld) install() {
	w.term++
	index := w.last + 1 + w.rng.Uint64N(5)
	m, _, err := metadata.Apply(w.image, model.OffsetAndEpoch{Offset: offsetOf(index), Epoch: model.LeaderEpoch(w.term)}, nil)
	must(w.t, err)
	h := metadata.SnapshotHeader{At: m.At(), ConfState: w.s.snapshot.ConfState}
	if w.rng.IntN(2) == 0 {
		_, err := writeSnapshot(w.fs, storageDir, h, m)
		must(w.t, err)
		w.fs = w.fs.CrashClone(memfs.Crash{UnsyncedPct: w.rng.IntN(101), Rand: w.rng})
		w.open()
	} else {
		data := metadata.AppendSnapshot(nil, h, m)
		must(w.t, w.s.save(w.now, raft.Ready{Snapshot: &raftpb.Snapshot{Data: data,
			Metadata: &raftpb.SnapshotMetadata{Index: new(index), Term: new(w.term), ConfState: &raftpb.ConfState{}}}}))
	}
	w.entries, w.last, w.applied, w.image = map[uint64]*raftpb.Entry{}, index, index, m
}

func (w *storageWorld) compare() {
	w.t.Helper()
	first, _ := w.s.FirstIndex()
	last, _ := w.s.LastIndex()
	if last != w.last {
		w.t.Fatalf("last index %d, want %d", last, w.last)
	}
	if first > w.s.snapshotIndex()+1 {
		w.t.Fatalf("first index %d leaves a gap behind the snapshot at %d", first, w.s.snapshotIndex())
	}
	snap, err := w.s.Snapshot()
	if err != nil || snap.GetMetadata().GetIndex() != w.s.snapshotIndex() {
		w.t.Fatalf("snapshot %v: %v", snap.GetMetadata(), err)
	}
	for i := first - 1; i <= last; i++ {
		term, err := w.s.Term(i)
		want := w.entries[i].GetTerm()
		if i == w.s.snapshotIndex() {
			want = uint64(w.s.snapshot.At.Epoch)
		}
		if err != nil || term != want {
			w.t.Fatalf("term of %d in [%d, %d]: %d %v, want %d", i, first, last, term, err, want)
		}
	}
	if _, err := w.s.Term(last + 1); !errors.Is(err, raft.ErrUnavailable) {
		w.t.Fatalf("term beyond the end: %v", err)
	}
	if _, err := w.s.Entries(first-1, first, 1<<20); !errors.Is(err, raft.ErrCompacted) {
		w.t.Fatalf("entries before the first: %v", err)
	}
	if first > last {
		return
	}
	lo := first + w.rng.Uint64N(last-first+1)
	hi := lo + 1 + w.rng.Uint64N(last-lo+1)
	got, err := w.s.Entries(lo, hi, []uint64{0, 60, 1 << 20}[w.rng.IntN(3)])
	if err != nil || len(got) == 0 || uint64(len(got)) > hi-lo {
		w.t.Fatalf("entries [%d, %d): %d, %v", lo, hi, len(got), err)
	}
	for k, e := range got {
		want := w.entries[lo+uint64(k)]
		if e.GetIndex() != lo+uint64(k) || e.GetTerm() != want.GetTerm() || e.GetType() != want.GetType() || !bytes.Equal(e.GetData(), want.GetData()) {
			w.t.Fatalf("entry %d is %v, want %v", lo+uint64(k), e, want)
		}
	}
	if all, _ := w.s.Entries(lo, last+1, 1<<30); uint64(len(all)) != last+1-lo {
		w.t.Fatalf("%d entries from %d to %d", len(all), lo, last)
	}
}

// TestHardState: the file survives a round trip, and any change of it shows.
func TestHardState(t *testing.T) {
	fs := newDisk()
	if _, err := readHardState(fs, "data"); !errors.Is(err, errNoHardState) {
		t.Fatal(err)
	}
	want := hardState{Term: 1 << 60, Vote: ^uint64(5), Commit: 77}
	must(t, writeHardState(fs, "data", want))
	got, err := readHardState(fs, "data")
	if err != nil || got.Term != want.Term || got.Vote != want.Vote || got.Commit != want.Commit {
		t.Fatal(got, err)
	}
	for back := int64(2); back < 90; back++ {
		must(t, writeHardState(fs, "data", want))
		flip(t, fs, "data/"+hardStateFile, back)
		if h, err := readHardState(fs, "data"); err == nil && fmt.Sprint(h) != fmt.Sprint(got) {
			t.Fatalf("byte %d from the end: %+v was believed", back, h)
		}
	}
}
