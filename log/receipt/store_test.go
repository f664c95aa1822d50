package receipt

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
)

const (
	home    = "/data/.kept"
	segment = "/data/t-0/00000000000000000010.log"
)

var topic = model.TopicIDPartition{TopicID: model.TopicID{1}, Partition: 0}

// world is a disk with a segment of a thousand bytes.
func world(t testing.TB) *memfs.FS {
	t.Helper()
	disk := memfs.New()
	if err := disk.MkdirAll("/data/t-0", 0o755); err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat("0123456789", 100))
	for _, err := range []error{vfs.WriteFileAtomic(disk, segment, text), disk.SyncDir("/data"), disk.SyncDir("/")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return disk
}

func options(fs vfs.FS) Options {
	return Options{FS: fs, Dir: home, Node: 1, BytesMax: 1 << 20, RetentionMs: -1}
}

// cut is a removal of the segment's bytes from pos on.
func cut(pos int64) *log.Removal {
	return &log.Removal{
		Why: "truncate", File: segment, Pos: pos, Bytes: 1000 - pos, Start: 20, End: 30, Batches: 1, Records: 10,
		Parts: []log.Part{{File: segment, Pos: pos, Bytes: 1000 - pos, First: 20}},
	}
}

func of(cause Cause) Subject {
	return Subject{ID: topic, TP: model.TopicPartition{Topic: "t"}, Dir: "/data", Cause: cause, HighWatermark: 25}
}

func read(t testing.TB, fs vfs.FS) []Receipt {
	t.Helper()
	list, _, err := Read(fs, home)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// sound checks that a receipt says where its bytes are, and that they are those.
func sound(fs vfs.FS, r *Receipt, pos int64) error {
	if r.Start != 20 || r.End != 30 || r.Bytes != 1000-pos || r.Topic != "t" || !r.BelowHighWatermark {
		return fmt.Errorf("receipt %+v", r)
	}
	b, err := vfs.ReadFile(fs, home+"/"+r.Kept+"/"+r.Parts[0].Name)
	want := strings.Repeat("0123456789", 100)[pos:]
	if r.Kept == "" || err != nil || string(b) != want {
		return fmt.Errorf("receipt %d: kept in %q (%s), %d bytes, %v", r.ID, r.Kept, r.NotKept, len(b), err)
	}
	return nil
}

func TestKeep(t *testing.T) {
	disk := world(t)
	s := New(options(disk))
	if _, err := disk.Stat(home); err == nil {
		t.Error("a store makes its directory before it has anything to keep")
	}
	for i, pos := range []int64{900, 500} {
		if _, err := s.Keep(model.Timestamp(1000*i), of(Divergence), cut(pos)); err != nil {
			t.Fatal(err)
		}
	}
	list := read(t, disk)
	if len(list) != 2 || list[0].ID != 1 || list[1].ID != 2 || list[1].Time != "1970-01-01T00:00:01.000Z" {
		t.Fatalf("journal: %+v", list)
	}
	for i, pos := range []int64{900, 500} {
		if err := sound(disk, &list[i], pos); err != nil {
			t.Error(err)
		}
	}
	if st := s.Stats(); st.Receipts != 2 || st.Copies != 2 || st.Bytes != 600 {
		t.Errorf("stats %+v", st)
	}
	// Another process goes on where this one was.
	s = New(options(disk))
	if r, err := s.Keep(0, of(CrashTail), cut(700)); err != nil || r.ID != 3 {
		t.Errorf("after a start: %+v, %v", r, err)
	}
	if st := s.Stats(); st.Copies != 3 || st.Bytes != 900 {
		t.Errorf("stats after a start %+v", st)
	}
}

// The same bytes are kept once, however often their removal is begun; other bytes
// at the same place are other bytes.
func TestRepeatedRemovalIsMarked(t *testing.T) {
	disk := world(t)
	if _, err := New(options(disk)).Keep(0, of(Divergence), cut(900)); err != nil {
		t.Fatal(err)
	}
	s := New(options(disk))
	r, err := s.Keep(0, of(CrashTail), cut(900))
	if err != nil || r.ID != 2 || r.Again != 1 || r.Kept != "" {
		t.Errorf("second: %+v, %v", r, err)
	}
	if err := vfs.WriteFile(disk, segment, []byte(strings.Repeat("abcdefghij", 100))); err != nil {
		t.Fatal(err)
	}
	if r, err = s.Keep(0, of(CrashTail), cut(900)); err != nil || r.Again != 0 || r.Kept == "" {
		t.Errorf("other bytes: %+v, %v", r, err)
	}
}

// What is kept is bounded by size and by age, oldest first; a removal that is too
// large has a receipt only.
func TestBounds(t *testing.T) {
	disk := world(t)
	o := options(disk)
	o.BytesMax, o.RetentionMs = 500, 10_000
	s := New(o)
	keep := func(at model.Timestamp, pos int64) Receipt {
		t.Helper()
		r, err := s.Keep(at, of(Divergence), cut(pos))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for i := range 4 {
		keep(model.Timestamp(1000*i), 800+int64(i)) // about 200 bytes each
	}
	var held []int64
	for _, r := range read(t, disk) {
		if Holds(disk, home, &r) {
			held = append(held, r.ID)
		}
	}
	if fmt.Sprint(held) != "[3 4]" {
		t.Errorf("held %v", held)
	}
	if r := keep(5000, 100); r.Kept != "" || r.NotKept == "" {
		t.Errorf("900 bytes of 500: %+v", r)
	}
	if err := s.Retry(30_000, false); err != nil || s.Stats().Copies != 2 {
		t.Errorf("with a doubtful clock: %+v, %v", s.Stats(), err)
	}
	if err := s.Retry(12_500, true); err != nil || s.Stats().Copies != 1 {
		t.Errorf("after 10.5 s: %+v, %v", s.Stats(), err)
	}
	if n := len(read(t, disk)); n != 5 {
		t.Errorf("%d receipts are left of 5", n)
	}
	o.BytesMax = 0
	if r, err := New(o).Keep(0, of(Divergence), cut(10)); err != nil || r.Kept != "" {
		t.Errorf("with a bound of 0: %+v, %v", r, err)
	}
}

// On a full disk the kept bytes give way, the oldest first, to newer ones and to
// receipts; a receipt that finds no room at all is written once there is some.
func TestFullDiskGivesWay(t *testing.T) {
	disk := world(t)
	leave := func(n int64) {
		free, total, err := disk.Free("/")
		if err != nil {
			t.Fatal(err)
		}
		disk.SetCapacity(total - free + n)
	}
	s := New(options(disk))
	for _, pos := range []int64{700, 600} {
		if _, err := s.Keep(0, of(Divergence), cut(pos)); err != nil {
			t.Fatal(err)
		}
	}
	leave(100)
	r, err := s.Keep(0, of(Divergence), cut(400))
	if err != nil || r.Kept == "" || s.Stats().Dropped == 0 {
		t.Fatalf("on a full disk: %+v, %+v, %v", r, s.Stats(), err)
	}
	for ok := true; ok; {
		_, ok = s.GiveWay()
	}
	if st := s.Stats(); st.Copies != 0 || st.Bytes != 0 {
		t.Errorf("after all gave way: %+v", st)
	}
	leave(1)
	if r, err := s.Keep(0, of(Divergence), cut(300)); err == nil {
		t.Fatalf("no room for a receipt, and no error: %+v", r)
	}
	if st := s.Stats(); st.Unwritten != 1 {
		t.Errorf("no room: %+v", st)
	}
	disk.SetCapacity(1 << 30)
	if err := s.Retry(0, true); err != nil {
		t.Fatal(err)
	}
	list := read(t, disk)
	if len(list) != 4 || list[3].Bytes != 700 || list[3].Kept != "" || list[3].NotKept == "" {
		t.Errorf("after there is room: %+v", list)
	}
}

// A process or the power that fails at any call leaves what the next process makes
// whole: the removal is begun again, and one of the receipts has the bytes.
func TestCrashAtEveryCall(t *testing.T) {
	for k := int64(1); ; k++ {
		disk := world(t)
		calls := faultfs.NewCounter(faultfs.Mutations())
		dying := faultfs.When(faultfs.And(faultfs.Mutations(), faultfs.FromNth(k)), faultfs.EIO())
		_, err := New(options(faultfs.Wrap(disk, faultfs.First(calls, dying)))).Keep(0, of(Divergence), cut(900))
		if calls.Count() < k {
			if err != nil {
				t.Fatal(err)
			}
			if k < 8 {
				t.Fatalf("only %d calls", k)
			}
			return
		}
		for _, power := range []bool{false, true} {
			left := disk.KillClone(memfs.Kill{})
			if power {
				left = disk.CrashClone(memfs.Crash{})
			}
			s := New(options(left))
			if _, err := s.Keep(0, of(Divergence), cut(900)); err != nil {
				t.Fatalf("call %d, power %v: %v", k, power, err)
			}
			list := read(t, left)
			whole := 0
			for i := range list {
				if list[i].Again == 0 && sound(left, &list[i], 900) == nil {
					whole++
				}
			}
			if whole != 1 || len(list) > 2 || len(list) == 2 && list[1].Again != list[0].ID {
				t.Fatalf("call %d, power %v: %+v", k, power, list)
			}
			names, _ := left.List(home)
			if len(names) != 2 {
				t.Fatalf("call %d, power %v: %v", k, power, names)
			}
		}
	}
}

// When Keep has returned, a loss of power takes nothing of it.
func TestKeptIsDurable(t *testing.T) {
	disk := world(t)
	if _, err := New(options(disk)).Keep(0, of(Divergence), cut(900)); err != nil {
		t.Fatal(err)
	}
	left := disk.CrashClone(memfs.Crash{})
	list := read(t, left)
	if len(list) != 1 {
		t.Fatalf("receipts: %+v", list)
	}
	if err := sound(left, &list[0], 900); err != nil {
		t.Error(err)
	}
}

// A line that was cut short is no receipt, and doesn't spoil the next one.
func TestTornLine(t *testing.T) {
	disk := world(t)
	s := New(options(disk))
	if _, err := s.Keep(0, of(Divergence), cut(900)); err != nil {
		t.Fatal(err)
	}
	path := home + "/receipts-0000000001.jsonl"
	text, err := vfs.ReadFile(disk, path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := disk.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(text[:20], int64(len(text))); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if r, err := New(options(disk)).Keep(0, of(Divergence), cut(800)); err != nil || r.ID != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	list, torn, err := Read(disk, home)
	if err != nil || torn != 1 || len(list) != 2 {
		t.Errorf("%d receipts, %d torn, %v", len(list), torn, err)
	}
}

// A journal whose fsync failed is not written any more.
func TestFailedSyncBeginsAnotherJournal(t *testing.T) {
	disk := world(t)
	once := true
	fs := faultfs.Wrap(disk, inject(func(op faultfs.Op) *faultfs.Fault {
		if once && op.Kind == faultfs.OpSync && strings.HasSuffix(op.Path, ".jsonl") {
			once = false
			return faultfs.FsyncFails()
		}
		return nil
	}))
	s := New(options(fs))
	if _, err := s.Keep(0, of(Divergence), cut(900)); err == nil || s.Stats().Unwritten != 1 {
		t.Fatalf("a failed fsync: %v, %+v", err, s.Stats())
	}
	if err := s.Retry(0, true); err != nil {
		t.Fatal(err)
	}
	names, _ := journals(disk, home)
	if list := read(t, disk); len(names) != 2 || list[len(list)-1].ID != 2 {
		t.Errorf("journals %v, receipts %+v", names, list)
	}
}

type inject func(op faultfs.Op) *faultfs.Fault

func (inject) String() string                        { return "inject" }
func (i inject) Decide(op faultfs.Op) *faultfs.Fault { return i(op) }

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"id":1,"time":"2026-11-30T10:00:00.000Z","cause":"crash-tail","parts":[]}` + "\n"))
	f.Add([]byte("{}\n\n{\"id\":-1}\nx"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, torn := Decode(text)
		if n := strings.Count(string(text), "\n") + 1; len(list)+torn > n {
			t.Errorf("%d receipts and %d torn lines in %d lines", len(list), torn, n)
		}
		for i := range list {
			_ = list[i].At()
			if again, torn := Decode(list[i].encode()); torn != 0 || len(again) != 1 || again[0].ID != list[i].ID {
				t.Errorf("%+v does not come back: %+v", list[i], again)
			}
		}
	})
}
