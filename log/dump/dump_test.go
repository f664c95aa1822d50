package dump_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log/dump"
	"github.com/tidemark/tidemark/log/producer"
	"github.com/tidemark/tidemark/protocol/compress"
	"github.com/tidemark/tidemark/protocol/record"
)

// TestTranscripts plays the files of testdata/dump: they make files, damage
// them and show the dump. Run with -rewrite to accept a new output.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/dump", func(t *testing.T, path string) {
		s := &stage{t: t, fs: memfs.New(), producers: producer.New()}
		datadriven.RunTest(t, path, s.run)
	})
}

// stage is the disk of one transcript.
type stage struct {
	t         *testing.T
	fs        *memfs.FS
	producers *producer.StateManager
}

func (s *stage) run(t *testing.T, d *datadriven.TestData) string {
	s.t = t
	switch d.Cmd {
	case "batch":
		return s.batch(d)
	case "text":
		s.write(arg(d, "file", ""), 0, []byte(d.Input))
	case "flip":
		var at, mask int
		d.ScanArgs(t, "at", &at)
		d.ScanArgs(t, "mask", &mask)
		b := s.read(arg(d, "file", ""))
		b[at] ^= byte(mask)
		s.write(arg(d, "file", ""), 0, b)
	case "cut":
		var to int
		d.ScanArgs(t, "to", &to)
		s.truncate(arg(d, "file", ""), int64(to))
	case "hex":
		b, err := hex.DecodeString(strings.Join(strings.Fields(d.Input), ""))
		if err != nil {
			t.Fatal(err)
		}
		s.append(arg(d, "file", ""), b)
	case "zeros":
		var n int
		d.ScanArgs(t, "n", &n)
		s.append(arg(d, "file", ""), make([]byte, n))
	case "entries":
		s.append(arg(d, "file", ""), entries(t, d))
	case "snapshot":
		s.write(arg(d, "file", ""), 0, s.producers.Marshal(nil))
	case "dump":
		return s.dump(d)
	default:
		t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
	return ""
}

// dump runs the dump over the named files and says how it ended.
func (s *stage) dump(d *datadriven.TestData) string {
	var o dump.Options
	var files []string
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "json":
			o.JSON = true
		case "deep":
			o.Deep = true
		case "data":
			o.Data = true
		default:
			files = append(files, a.Key)
		}
	}
	var out bytes.Buffer
	found, err := dump.Run(s.fs, files, o, &out)
	if err != nil {
		fmt.Fprintf(&out, "error: %v\n", err)
	}
	if found {
		out.WriteString("found\n")
	}
	return out.String()
}

// batch appends a batch to a file and prints where it stands.
func (s *stage) batch(d *datadriven.TestData) string {
	codec, err := compress.Parse(arg(d, "codec", "none"))
	if err != nil {
		s.t.Fatal(err)
	}
	o := record.Options{
		Codec:         codec,
		BaseOffset:    model.Offset(num(d, "base", 0)),
		LeaderEpoch:   model.LeaderEpoch(num(d, "epoch", 0)),
		ProducerID:    model.ProducerID(num(d, "producer", 0)),
		ProducerEpoch: model.ProducerEpoch(num(d, "pepoch", 0)),
		BaseSequence:  model.Sequence(num(d, "seq", 0)),
		Transactional: d.HasArg("txn"),
	}
	if d.HasArg("appendtime") {
		o.TimestampType = record.LogAppendTime
		o.AppendTime = model.Timestamp(num(d, "appendtime", 0))
	}
	ts := model.Timestamp(num(d, "ts", 1000))
	end := arg(d, "end", "")
	o.Control = end != ""
	b := record.NewBuilder(o)
	switch end {
	case "commit":
		b.AppendMarker(ts, record.Marker{Type: record.Commit, CoordinatorEpoch: 3})
	case "abort":
		b.AppendMarker(ts, record.Marker{Type: record.Abort, CoordinatorEpoch: 3})
	case "leader":
		b.AppendControl(ts, record.LeaderChange, []byte("x"))
	default:
		for i := range num(d, "n", 1) {
			b.Append(ts+model.Timestamp(i), fmt.Appendf(nil, "k%d", i), fmt.Appendf(nil, "v%d", i))
		}
	}
	if d.HasArg("odd") {
		b.Append(ts, nil, []byte{0xFF, 0}, record.Header{Key: []byte("h"), Value: nil}, record.Header{Key: []byte{0xFE}})
		b.Append(ts, []byte{}, nil)
	}
	if d.HasArg("delta") {
		b.AppendAt(int32(num(d, "delta", 0)), ts, nil, nil)
	}
	if d.HasArg("last") {
		b.SetLastOffsetDelta(int32(num(d, "last", 0)))
	}
	batch := b.Build()
	if d.HasArg("garble") { // the length of the first record, under a right checksum
		batch[record.HeaderSize] += 2
		binary.BigEndian.PutUint32(batch[17:], batch.ComputeCRC())
	}
	s.producers.Update(batch)
	at := s.append(arg(d, "file", ""), batch)
	return fmt.Sprintf("position %d, %d bytes", at, len(batch))
}

// entries encodes lines of numbers as the entries of an index.
func entries(t *testing.T, d *datadriven.TestData) []byte {
	be := binary.BigEndian
	var out []byte
	for line := range strings.Lines(d.Input) {
		var a, b, c, e int64
		n, _ := fmt.Sscan(line, &a, &b, &c, &e)
		switch {
		case n == 2 && strings.HasSuffix(arg(d, "file", ""), ".index"):
			out = be.AppendUint32(be.AppendUint32(out, uint32(a)), uint32(b))
		case n == 2:
			out = be.AppendUint32(be.AppendUint64(out, uint64(a)), uint32(b))
		case n == 4:
			out = be.AppendUint16(out, 0)
			for _, v := range []int64{a, b, c, e} {
				out = be.AppendUint64(out, uint64(v))
			}
		default:
			t.Fatalf("%s: %q", d.Pos, line)
		}
	}
	return out
}

func arg(d *datadriven.TestData, key, missing string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) > 0 {
			return a.Vals[0]
		}
	}
	return missing
}

func num(d *datadriven.TestData, key string, missing int64) int64 {
	var n int64
	if _, err := fmt.Sscan(arg(d, key, fmt.Sprint(missing)), &n); err != nil {
		return missing
	}
	return n
}

func (s *stage) open(name string) vfs.File {
	if err := s.fs.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		s.t.Fatal(err)
	}
	f, err := s.fs.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

func (s *stage) write(name string, at int64, b []byte) {
	f := s.open(name)
	defer f.Close()
	if _, err := f.WriteAt(b, at); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) append(name string, b []byte) (at int64) {
	f := s.open(name)
	at, err := f.Size()
	if err != nil {
		s.t.Fatal(err)
	}
	f.Close()
	s.write(name, at, b)
	return at
}

func (s *stage) truncate(name string, to int64) {
	f := s.open(name)
	defer f.Close()
	if err := f.Truncate(to); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) read(name string) []byte {
	b, err := vfs.ReadFile(s.fs, name)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// TestErrorsOfTheDisk: what can't be read is an error, not a finding.
func TestErrorsOfTheDisk(t *testing.T) {
	s := &stage{t: t, fs: memfs.New(), producers: producer.New()}
	b := record.NewBuilder(record.Options{})
	b.Append(1, nil, []byte("v"))
	s.append("t-0/00000000000000000000.log", b.Build())
	s.append("t-0/00000000000000000000.index", []byte{0, 0, 0, 1, 0, 0, 0, 1})
	s.append("t-0/leader-epoch-checkpoint", []byte("0\n0\n"))
	eio := faultfs.Wrap(s.fs, faultfs.When(faultfs.OpIn(faultfs.OpRead), faultfs.EIO()))
	for _, name := range []string{
		"t-0/00000000000000000000.log", "t-0/00000000000000000000.index", "t-0/leader-epoch-checkpoint",
	} {
		err := dump.File(eio, name, dump.Options{}, &bytes.Buffer{})
		var f *dump.FoundError
		if err == nil || errors.As(err, &f) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := dump.File(s.fs, "t-0/readme", dump.Options{}, &bytes.Buffer{}); !errors.Is(err, dump.ErrUnknownKind) {
		t.Errorf("unknown kind: %v", err)
	}
	var out bytes.Buffer
	found, err := dump.Run(s.fs, []string{"missing", "t-0"}, dump.Options{}, &out)
	if !found || !errors.Is(err, os.ErrNotExist) || !strings.Contains(out.String(), "baseOffset: 0") {
		t.Errorf("the other files are shown: found %v, %v, %s", found, err, out.String())
	}
}

// errWriter fails at the first write.
type errWriter struct{}

func (errWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestErrorsOfTheWriter(t *testing.T) {
	s := &stage{t: t, fs: memfs.New()}
	s.append("leader-epoch-checkpoint", []byte("0\n1\n0 0\n"))
	if err := dump.File(s.fs, "leader-epoch-checkpoint", dump.Options{}, errWriter{}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// FuzzFile: whatever a file holds, the dump ends, without a panic.
func FuzzFile(f *testing.F) {
	b := record.NewBuilder(record.Options{BaseOffset: 3})
	b.Append(1, []byte("k"), []byte("v"))
	set := b.Build()
	set = append(set, set...)
	f.Add(byte(0), []byte(set))
	f.Add(byte(1), []byte{0, 0, 0, 1, 0, 0, 0, 70})
	f.Add(byte(4), []byte{0, 1, 0x48, 0x67, 0x4b, 0xc7, 0, 0, 0, 0})
	suffixes := []string{".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".seal"}
	f.Fuzz(func(t *testing.T, kind byte, content []byte) {
		s := &stage{t: t, fs: memfs.New()}
		name := "00000000000000000000" + suffixes[int(kind)%len(suffixes)]
		s.append("00000000000000000000.log", set)
		s.truncate(name, 0)
		s.append(name, content)
		for _, o := range []dump.Options{{Data: true}, {JSON: true, Data: true}} {
			var out bytes.Buffer
			if err := dump.File(s.fs, name, o, &out); err != nil {
				var found *dump.FoundError
				if !errors.As(err, &found) {
					t.Fatal(err)
				}
			}
		}
	})
}
