package checkpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/epoch"
)

// put makes a disk in memory with one file.
func put(t *testing.T, path, text string) *memfs.FS {
	t.Helper()
	fs := memfs.New()
	if err := fs.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFileAtomic(fs, path, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return fs
}

// wantFormat checks that err is a *FormatError of this line and text.
func wantFormat(t *testing.T, err error, line int, why string) {
	t.Helper()
	var f *checkpoint.FormatError
	if !errors.As(err, &f) {
		t.Errorf("error %v is no FormatError, want %q", err, why)
		return
	}
	if f.Line != line || !strings.Contains(f.Why, why) || !strings.HasPrefix(err.Error(), f.Path) {
		t.Errorf("error %v (line %d), want line %d: %q", err, f.Line, line, why)
	}
}

func tp(topic string, partition int32) model.TopicPartition {
	return model.TopicPartition{Topic: topic, Partition: partition}
}

func TestOffsetsText(t *testing.T) {
	offsets := checkpoint.Offsets{
		tp("b", 10): 7, tp("b", 9): 1 << 62, tp("a-b.c_d", 0): 0, tp("__consumer_offsets", 49): 12,
	}
	const text = "0\n4\n__consumer_offsets 49 12\na-b.c_d 0 0\nb 9 4611686018427387904\nb 10 7\n"
	if got := string(checkpoint.EncodeOffsets(offsets)); got != text {
		t.Errorf("got  %q\nwant %q", got, text)
	}
	if got := string(checkpoint.EncodeOffsets(nil)); got != "0\n0\n" {
		t.Errorf("empty: %q", got)
	}
	fs := memfs.New()
	path := checkpoint.HighWatermarkFile
	if err := checkpoint.WriteOffsets(fs, path, offsets); err != nil {
		t.Fatal(err)
	}
	back, err := checkpoint.ReadOffsets(fs, path)
	if err != nil || len(back) != len(offsets) {
		t.Fatalf("%v %v", back, err)
	}
	for k, v := range offsets {
		if got, ok := back[k]; !ok || got != v {
			t.Errorf("%s = %d %v, want %d", k, got, ok, v)
		}
	}
}

func TestOffsetsThatSayNothing(t *testing.T) {
	for _, text := range []string{"", "0\n", "0", "0\n0\n", "0\n0", "0\r\n0\r\n"} {
		got, err := checkpoint.ReadOffsets(put(t, "d/f", text), "d/f")
		if err != nil || got == nil || len(got) != 0 {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	got, err := checkpoint.ReadOffsets(memfs.New(), "missing")
	if err != nil || got == nil || len(got) != 0 {
		t.Errorf("missing: %v %v", got, err)
	}
}

func TestOffsetsTolerated(t *testing.T) {
	for _, text := range []string{"0\n1\nt 1 5", "0\r\n1\r\nt 1 5\r\n", "0\n1\nt 1 5\n"} {
		got, err := checkpoint.DecodeOffsets("f", []byte(text))
		if err != nil || got[tp("t", 1)] != 5 {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
}

func TestOffsetsMalformed(t *testing.T) {
	for _, tc := range []struct {
		text string
		line int
		why  string
	}{
		{"\n", 1, `version "", want 0`},
		{"1\n0\n", 1, `version "1", want 0`},
		{"x\n0\n", 1, `version "x", want 0`},
		{"0\n\n", 2, `count "" is not a number`},
		{"0\n-1\n", 2, `count "-1"`},
		{"0\n99999999999\n", 2, `count "99999999999"`},
		{"0\n2\nt 0 1\n", 3, "1 entries, line 2 promises 2"},
		{"0\n1\nt 0 1\nt 1 1\n", 4, "more than the 1 entries"},
		{"0\n1\nt 0 1\n\n", 4, "more than the 1 entries"},
		{"0\n1\n\n", 3, `"" is not "topic partition offset"`},
		{"0\n1\nt 0\n", 3, `"t 0" is not`},
		{"0\n1\nt 0 1 2\n", 3, `"t 0 1 2" is not`},
		{"0\n1\n 0 1\n", 3, `" 0 1" is not`},
		{"0\n1\nt  1\n", 3, `"t  1" is not`},
		{"0\n1\nt x 1\n", 3, `partition "x"`},
		{"0\n1\nt -1 1\n", 3, `partition "-1"`},
		{"0\n1\nt 2147483648 1\n", 3, `partition "2147483648"`},
		{"0\n1\nt 0 x\n", 3, `offset "x"`},
		{"0\n1\nt 0 -1\n", 3, `offset "-1"`},
		{"0\n1\nt 0 9223372036854775808\n", 3, `offset "9223372036854775808"`},
		{"0\n2\nt 0 1\nt 0 2\n", 4, "t-0 is listed twice"},
		{"0\n1\n" + strings.Repeat("t", 200) + "\n", 3, strings.Repeat("t", 80) + `"...`},
	} {
		got, err := checkpoint.ReadOffsets(put(t, "d/f", tc.text), "d/f")
		wantFormat(t, err, tc.line, tc.why)
		if len(got) != 0 {
			t.Errorf("%q: half a checkpoint was returned: %v", tc.text, got)
		}
	}
}

func TestEpochs(t *testing.T) {
	entries := []epoch.Entry{{Epoch: 0, Start: 0}, {Epoch: 2, Start: 10}, {Epoch: 1<<31 - 1, Start: 1 << 40}}
	const text = "0\n3\n0 0\n2 10\n2147483647 1099511627776\n"
	if got := string(checkpoint.EncodeEpochs(entries)); got != text {
		t.Errorf("got %q", got)
	}
	fs := memfs.New()
	if err := checkpoint.WriteEpochs(fs, checkpoint.EpochFile, entries); err != nil {
		t.Fatal(err)
	}
	back, err := checkpoint.ReadEpochs(fs, checkpoint.EpochFile)
	if err != nil || !slices.Equal(back, entries) {
		t.Errorf("%v %v", back, err)
	}
	if _, err := epoch.New(back); err != nil {
		t.Error(err)
	}
	if got, err := checkpoint.ReadEpochs(fs, "missing"); got != nil || err != nil {
		t.Errorf("missing: %v %v", got, err)
	}
	for _, tc := range []struct {
		text string
		line int
		why  string
	}{
		{"7\n", 1, "version"},
		{"0\n1\n0\n", 3, `is not "epoch offset"`},
		{"0\n1\n-1 0\n", 3, `epoch "-1"`},
		{"0\n1\n0 -1\n", 3, `offset "-1"`},
		{"0\n1\n4294967296 0\n", 3, `epoch "4294967296"`},
		{"0\n2\n3 0\n3 5\n", 4, "epoch 3 at offset 5 follows epoch 3 at offset 0"},
		{"0\n2\n3 5\n4 5\n", 4, "follows"},
		{"0\n2\n3 5\n4 4\n", 4, "follows"},
		{"0\n3\n3 5\n4 6\n", 4, "2 entries, line 2 promises 3"},
	} {
		got, err := checkpoint.DecodeEpochs("f", []byte(tc.text))
		wantFormat(t, err, tc.line, tc.why)
		if got != nil {
			t.Errorf("%q: %v", tc.text, got)
		}
	}
}

func TestPartitionMetadata(t *testing.T) {
	id, err := model.ParseTopicID("41wU2RpcQiex_94i8lmANg")
	if err != nil {
		t.Fatal(err)
	}
	p := checkpoint.PartitionMetadata{TopicID: id}
	const text = "version: 0\ntopic_id: 41wU2RpcQiex_94i8lmANg"
	if got := string(checkpoint.EncodePartitionMetadata(p)); got != text {
		t.Errorf("got %q", got)
	}
	fs := memfs.New()
	if err := checkpoint.WritePartitionMetadata(fs, "f", p); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := checkpoint.ReadPartitionMetadata(fs, "f"); got != p || !ok || err != nil {
		t.Errorf("%v %v %v", got, ok, err)
	}
	if _, ok, err := checkpoint.ReadPartitionMetadata(fs, "missing"); ok || err != nil {
		t.Errorf("missing: %v %v", ok, err)
	}
	if _, ok, err := checkpoint.ReadPartitionMetadata(put(t, "d/f", ""), "d/f"); ok || err != nil {
		t.Errorf("empty: %v %v", ok, err)
	}
	if got, err := checkpoint.DecodePartitionMetadata("f", []byte(text+"\r\n")); got != p || err != nil {
		t.Errorf("with a line end: %v %v", got, err)
	}
	for _, tc := range []struct {
		text string
		line int
		why  string
	}{
		{"x", 1, `"x", want "version: 0"`},
		{"version: 1\ntopic_id: 41wU2RpcQiex_94i8lmANg", 1, "version: 1"},
		{"version: 0", 2, `"", want "topic_id: ID"`},
		{"version: 0\ntopic_id: 41wU2RpcQiex", 2, "9 bytes, want 16"},
		{"version: 0\ntopic_id: 41wU2RpcQiex_94i8lm=Ng", 2, "illegal base64"},
		{"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", 2, "names no topic"},
		{text + "\nmore: 1", 3, `"more: 1" after the topic id`},
	} {
		_, ok, err := checkpoint.ReadPartitionMetadata(put(t, "d/f", tc.text), "d/f")
		wantFormat(t, err, tc.line, tc.why)
		if ok {
			t.Errorf("%q: present", tc.text)
		}
	}
}

func TestCleanShutdown(t *testing.T) {
	c := checkpoint.CleanShutdown{BrokerEpoch: 96}
	if got := string(checkpoint.EncodeCleanShutdown(c)); got != `{"version":0,"brokerEpoch":96}` {
		t.Errorf("got %s", got)
	}
	fs := memfs.New()
	if err := checkpoint.WriteCleanShutdown(fs, "f", c); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := checkpoint.ReadCleanShutdown(fs, "f"); got != c || !ok || err != nil {
		t.Errorf("%v %v %v", got, ok, err)
	}
	if err := checkpoint.RemoveCleanShutdown(fs, "f"); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.RemoveCleanShutdown(fs, "f"); err != nil {
		t.Errorf("removing nothing: %v", err)
	}
	got, ok, err := checkpoint.ReadCleanShutdown(fs.CrashClone(memfs.Crash{}), "f")
	if got.BrokerEpoch != model.NoBrokerEpoch || ok || err != nil {
		t.Errorf("removed, then lost power: %v %v %v", got, ok, err)
	}
}

// TestCleanShutdownByPresence: what can't be read loses the epoch, never the
// fact that the stop was orderly.
func TestCleanShutdownByPresence(t *testing.T) {
	for _, tc := range []struct {
		text   string
		epoch  model.BrokerEpoch
		broken bool
	}{
		{"", -1, false},
		{`{"version":0}`, -1, false},
		{`{"version":0,"brokerEpoch":null}`, -1, false},
		{`{"version":9,"brokerEpoch":5,"more":[1]}`, 5, false},
		{`{"version":0,"brokerEpoch":-1}`, -1, false},
		{`{"version":0,"brokerEpoch":-2}`, -1, true},
		{`{"version":0,"brokerEpoch":"5"}`, -1, true},
		{`{"version":0,"brokerEpoch":99999999999999999999}`, -1, true},
		{`{"version":0,"bro`, -1, true},
		{"\x00\x00", -1, true},
	} {
		got, ok, err := checkpoint.ReadCleanShutdown(put(t, "d/f", tc.text), "d/f")
		if !ok || got.BrokerEpoch != tc.epoch || (err != nil) != tc.broken {
			t.Errorf("%q: %v %v %v", tc.text, got, ok, err)
		}
	}
	fs := memfs.New()
	if err := fs.MkdirAll("f", 0o755); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := checkpoint.ReadCleanShutdown(fs, "f"); !ok || err == nil {
		t.Errorf("a directory of that name: %v %v", ok, err)
	}
}

// TestDiskErrorsAreNotFormatErrors: a caller goes on without a malformed file,
// never without one that it couldn't read.
func TestDiskErrorsAreNotFormatErrors(t *testing.T) {
	inner := put(t, "d/f", "0\n0\n")
	for _, op := range []faultfs.OpKind{faultfs.OpStat, faultfs.OpOpen, faultfs.OpRead} {
		fs := faultfs.Wrap(inner, faultfs.When(faultfs.OpIn(op), faultfs.EIO()))
		_, offsets := checkpoint.ReadOffsets(fs, "d/f")
		_, epochs := checkpoint.ReadEpochs(fs, "d/f")
		_, ok1, part := checkpoint.ReadPartitionMetadata(fs, "d/f")
		_, ok2, shut := checkpoint.ReadCleanShutdown(fs, "d/f")
		_, ok3, meta := checkpoint.ReadMetaProperties(fs, "d/f")
		if ok1 || ok2 || ok3 {
			t.Errorf("%v: present %v %v %v", op, ok1, ok2, ok3)
		}
		for _, err := range []error{offsets, epochs, part, shut, meta} {
			var f *checkpoint.FormatError
			if err == nil || errors.As(err, &f) {
				t.Errorf("%v: error %v", op, err)
			}
		}
	}
}

// TestWritesAreAtomic breaks a write at each of its operations, then the
// power: there is always the old file or the new one, and after success it is
// the new one.
func TestWritesAreAtomic(t *testing.T) {
	old := checkpoint.Offsets{tp("t", 0): 1}
	fresh := checkpoint.Offsets{tp("t", 0): 2, tp("u", 0): 3}
	writes := 0
	for n := int64(1); ; n++ {
		fs := memfs.New()
		if err := checkpoint.WriteOffsets(fs, "f", old); err != nil {
			t.Fatal(err)
		}
		fault := faultfs.Wrap(fs, faultfs.When(faultfs.And(faultfs.Mutations(), faultfs.NthOp(n)), faultfs.EIO()))
		err := checkpoint.WriteOffsets(fault, "f", fresh)
		if err == nil {
			break
		}
		writes++
		for seed := range uint64(20) {
			disk := fs.CrashClone(memfs.Crash{UnsyncedPct: 50, Torn: true, Rand: rand.New(rand.NewPCG(seed, 0))})
			got, err := checkpoint.ReadOffsets(disk, "f")
			if err != nil || got[tp("t", 0)] != 1 && (got[tp("t", 0)] != 2 || got[tp("u", 0)] != 3) {
				t.Errorf("failed at operation %d, seed %d: %v %v", n, seed, got, err)
			}
		}
	}
	if writes < 4 {
		t.Errorf("a write has %d operations, want at least create, write, sync, rename, sync of the directory", writes)
	}
	fs := memfs.New()
	if err := checkpoint.WriteOffsets(fs, "f", fresh); err != nil {
		t.Fatal(err)
	}
	if got, err := checkpoint.ReadOffsets(fs.CrashClone(memfs.Crash{}), "f"); err != nil || len(got) != 2 {
		t.Errorf("written, then lost power: %v %v", got, err)
	}
}

// hugeFS says of every file that it is beyond the bound.
type hugeFS struct{ *memfs.FS }

func (hugeFS) Stat(string) (vfs.Info, error) {
	return vfs.Info{Size: checkpoint.FileBytesMax + 1}, nil
}

func TestTooLarge(t *testing.T) {
	_, err := checkpoint.ReadOffsets(hugeFS{memfs.New()}, "f")
	wantFormat(t, err, 0, fmt.Sprintf("at most %d", checkpoint.FileBytesMax))
}

// FuzzRead holds for every kind of file: no panic, an error is a FormatError,
// and what is read can be written and read again as the same.
func FuzzRead(f *testing.F) {
	f.Add(byte(0), []byte("0\n2\na 0 1\nb.c-d_e 7 9\n"))
	f.Add(byte(1), []byte("0\n2\n0 0\n3 17\n"))
	f.Add(byte(2), []byte("version: 0\ntopic_id: 41wU2RpcQiex_94i8lmANg"))
	f.Add(byte(3), []byte(`{"version":0,"brokerEpoch":96}`))
	f.Add(byte(4), []byte("#\n#date\nnode.id=1\ndirectory.id=1qo2_toDRmaKng5wRWmpzQ\nversion=1\ncluster.id=VGlk\n"))
	f.Add(byte(4), []byte("version : 1\ncluster.\\\n  id=a\\u00e9\\=\nnode.id 7\n! x\\\nb=c"))
	f.Fuzz(func(t *testing.T, kind byte, text []byte) {
		once, err := recode(kind, text)
		if err != nil {
			var format *checkpoint.FormatError
			if !errors.As(err, &format) {
				t.Fatalf("error %v is no FormatError", err)
			}
			return
		}
		twice, err := recode(kind, once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("kind %d: %q became %q, then %q, %v", kind%5, text, once, twice, err)
		}
	})
}

// recode reads a text as one kind of file and writes it again.
func recode(kind byte, text []byte) ([]byte, error) {
	switch kind % 5 {
	case 0:
		v, err := checkpoint.DecodeOffsets("f", text)
		return checkpoint.EncodeOffsets(v), err
	case 1:
		v, err := checkpoint.DecodeEpochs("f", text)
		if err == nil {
			_, err = epoch.New(v)
		}
		return checkpoint.EncodeEpochs(v), err
	case 2:
		v, err := checkpoint.DecodePartitionMetadata("f", text)
		return checkpoint.EncodePartitionMetadata(v), err
	case 3:
		v, err := checkpoint.DecodeCleanShutdown("f", text)
		return checkpoint.EncodeCleanShutdown(v), err
	}
	v, err := checkpoint.DecodeMetaProperties("f", text)
	return checkpoint.EncodeMetaProperties(v), err
}
