package integration

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Replicas of a partition, read from their files by a parser of the checker's
// own: Kafka's layout of segments and checkpoints, and nothing of the broker's
// code.

// storedBatch is one record batch as it lies in a segment.
type storedBatch struct {
	base, last int64
	epoch      int32
	bytes      []byte
}

// replica is one copy of a partition.
type replica struct {
	name     string
	dir      string
	batches  []storedBatch
	hw       int64 // of the checkpoint; -1 if there is none
	logStart int64 // of the checkpoint, or else the first segment's
	epochs   []epochStart
}

type epochStart struct {
	epoch int32
	start int64
}

// end is the offset behind the last batch.
func (r *replica) end() int64 {
	if len(r.batches) == 0 {
		return r.logStart
	}
	return r.batches[len(r.batches)-1].last + 1
}

const batchOverhead = 61 // of magic 2: everything before the records

// readReplica reads a partition's directory, of a broker that does not run.
func readReplica(name, dir string) (*replica, error) {
	r := &replica{name: name, dir: dir, hw: -1, logStart: -1}
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s: no segments: %v", dir, err)
	}
	slices.Sort(files)
	for i, file := range files {
		until := int64(1) << 62
		if i+1 < len(files) {
			// A segment that reaches beyond the next one's base was cut there.
			if until, err = baseOf(files[i+1]); err != nil {
				return nil, err
			}
		}
		if err := r.readSegment(file, until); err != nil {
			return nil, err
		}
	}
	partition := filepath.Base(dir)
	if r.hw, err = checkpointed(filepath.Join(filepath.Dir(dir), "replication-offset-checkpoint"), partition); err != nil {
		return nil, err
	}
	if r.logStart, err = checkpointed(filepath.Join(filepath.Dir(dir), "log-start-offset-checkpoint"), partition); err != nil {
		return nil, err
	}
	if first, err := baseOf(files[0]); err != nil {
		return nil, err
	} else if r.logStart < first {
		r.logStart = first
	}
	r.epochs, err = readEpochs(filepath.Join(dir, "leader-epoch-checkpoint"))
	return r, err
}

func baseOf(segment string) (int64, error) {
	return strconv.ParseInt(strings.TrimSuffix(filepath.Base(segment), ".log"), 10, 64)
}

// readSegment adds a segment's batches that begin below an offset.
func (r *replica) readSegment(file string, until int64) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for at := 0; at < len(b); {
		rest := b[at:]
		if len(rest) < batchOverhead {
			if len(bytes.Trim(rest, "\x00")) == 0 {
				return nil // room that was set aside
			}
			return fmt.Errorf("%s: %d bytes at %d", file, len(rest), at)
		}
		size := int(binary.BigEndian.Uint32(rest[8:])) + 12
		if size == 12 && len(bytes.Trim(rest, "\x00")) == 0 {
			return nil
		}
		if size < batchOverhead || size > len(rest) || rest[16] != 2 {
			return fmt.Errorf("%s: a batch of %d bytes, magic %d, at %d of %d", file, size, rest[16], at, len(b))
		}
		batch := rest[:size]
		base := int64(binary.BigEndian.Uint64(batch))
		if base >= until {
			return nil
		}
		if got, want := crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli)), binary.BigEndian.Uint32(batch[17:]); got != want {
			return fmt.Errorf("%s: the batch of offset %d at %d has CRC %08x and should have %08x", file, base, at, got, want)
		}
		s := storedBatch{base: base, last: base + int64(int32(binary.BigEndian.Uint32(batch[23:]))), epoch: int32(binary.BigEndian.Uint32(batch[12:])), bytes: batch}
		if n := len(r.batches); n > 0 {
			if prev := r.batches[n-1]; s.base <= prev.last || s.epoch < prev.epoch {
				return fmt.Errorf("%s: a batch of offsets %d to %d, epoch %d, stands behind %d to %d, epoch %d",
					file, s.base, s.last, s.epoch, prev.base, prev.last, prev.epoch)
			}
		}
		r.batches = append(r.batches, s)
		at += size
	}
	return nil
}

// checkpointed reads a partition's offset from one of Kafka's checkpoint files:
// a version, a count, then "topic partition offset" lines. -1 is none.
func checkpointed(file, partition string) (int64, error) {
	b, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return -1, nil
	} else if err != nil {
		return -1, err
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for n := 0; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if n < 2 || len(fields) != 3 || fields[0]+"-"+fields[1] != partition {
			continue
		}
		return strconv.ParseInt(fields[2], 10, 64)
	}
	return -1, lines.Err()
}

// readEpochs reads a leader-epoch-checkpoint: a version, a count, then "epoch
// start" lines.
func readEpochs(file string) ([]epochStart, error) {
	b, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var all []epochStart
	for n, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		if n < 2 {
			continue
		}
		var e epochStart
		if _, err := fmt.Sscanf(line, "%d %d", &e.epoch, &e.start); err != nil {
			return nil, fmt.Errorf("%s: line %q: %w", file, line, err)
		}
		all = append(all, e)
	}
	return all, nil
}

// within is the cache's part that says something of offsets from low up to high.
func within(all []epochStart, low, high int64) []epochStart {
	var out []epochStart
	for i, e := range all {
		if e.start >= high || i+1 < len(all) && all[i+1].start <= low {
			continue
		}
		out = append(out, epochStart{e.epoch, max(e.start, low)})
	}
	return out
}

// compareReplicas says where copies differ between the greatest log start and
// the least of high watermarks and ends: bytes of batches, and epochs.
func compareReplicas(copies []*replica) error {
	low, high := int64(0), int64(1)<<62
	for _, r := range copies {
		low, high = max(low, r.logStart), min(high, r.end())
		if r.hw >= 0 {
			high = min(high, r.hw)
		}
	}
	first := copies[0]
	mine := first.between(low, high)
	for _, other := range copies[1:] {
		theirs := other.between(low, high)
		for i := range min(len(mine), len(theirs)) {
			if a, b := mine[i], theirs[i]; !bytes.Equal(a.bytes, b.bytes) {
				return fmt.Errorf("%s has offsets %d to %d of epoch %d in %d bytes where %s has %d to %d of epoch %d in %d, and they differ",
					first.name, a.base, a.last, a.epoch, len(a.bytes), other.name, b.base, b.last, b.epoch, len(b.bytes))
			}
		}
		if len(mine) != len(theirs) {
			return fmt.Errorf("%s has %d batches from %d to %d, %s has %d", first.name, len(mine), low, high, other.name, len(theirs))
		}
		if a, b := within(first.epochs, low, high), within(other.epochs, low, high); !slices.Equal(a, b) {
			return fmt.Errorf("epochs from %d to %d: %s has %v, %s has %v", low, high, first.name, a, other.name, b)
		}
	}
	return nil
}

// between are the batches with an offset from low up to high.
func (r *replica) between(low, high int64) []storedBatch {
	var out []storedBatch
	for _, b := range r.batches {
		if b.last >= low && b.base < high {
			out = append(out, b)
		}
	}
	return out
}

// epochsOfBatches is what a leader epoch cache should hold of the batches.
func (r *replica) epochsOfBatches() []epochStart {
	var all []epochStart
	for _, b := range r.batches {
		if n := len(all); n == 0 || all[n-1].epoch != b.epoch {
			all = append(all, epochStart{b.epoch, b.base})
		}
	}
	return all
}

// checkEpochs says where a copy's epoch file disagrees with its batches. Epochs
// without a batch may stand in the file.
func (r *replica) checkEpochs() error {
	for _, want := range r.epochsOfBatches() {
		i, ok := slices.BinarySearchFunc(r.epochs, want.epoch, func(e epochStart, epoch int32) int { return int(e.epoch) - int(epoch) })
		if !ok {
			return fmt.Errorf("%s: epoch %d begins at %d and is not in the epoch file %v", r.name, want.epoch, want.start, r.epochs)
		}
		if r.epochs[i].start > want.start {
			return fmt.Errorf("%s: epoch %d has a batch at %d, the epoch file says it begins at %d", r.name, want.epoch, want.start, r.epochs[i].start)
		}
	}
	return nil
}

// hand writes a batch of one record by hand, for the tests of the comparer.
func hand(base int64, epoch int32, value string) []byte {
	b := make([]byte, batchOverhead)
	binary.BigEndian.PutUint64(b, uint64(base))
	b[16] = 2
	body := append([]byte{0, 0, 0, 1, byte(2 * len(value))}, value...)
	b = append(b, byte(2*(len(body)+1)))
	b = append(append(b, body...), 0)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[12:], uint32(epoch))
	binary.BigEndian.PutUint32(b[57:], 1)
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// TestComparerSeesDifferences: equal copies are equal however they are cut into
// segments, and any other byte, epoch or batch is found.
func TestComparerSeesDifferences(t *testing.T) {
	write := func(t *testing.T, hw int64, epochs string, segments map[int64][][]byte) *replica {
		t.Helper()
		base := t.TempDir()
		dir := filepath.Join(base, "t-0")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		put := func(name, text string) {
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for start, batches := range segments {
			put(filepath.Join(dir, fmt.Sprintf("%020d.log", start)), string(slices.Concat(batches...)))
		}
		put(filepath.Join(base, "replication-offset-checkpoint"), fmt.Sprintf("0\n1\nt 0 %d\n", hw))
		put(filepath.Join(dir, "leader-epoch-checkpoint"), epochs)
		r, err := readReplica("copy", dir)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a0, a1, a2, a3 := hand(0, 0, "zero"), hand(1, 0, "one"), hand(2, 1, "two"), hand(3, 1, "three")
	x2, x3 := hand(2, 1, "TWO"), hand(3, 2, "three")
	epochs := "0\n2\n0 0\n1 2\n"
	whole := write(t, 4, epochs, map[int64][][]byte{0: {a0, a1, a2, a3}})
	if whole.end() != 4 || whole.hw != 4 || whole.checkEpochs() != nil {
		t.Fatalf("read end %d, high watermark %d, %v", whole.end(), whole.hw, whole.checkEpochs())
	}
	for _, c := range []struct {
		name  string
		copy  *replica
		equal bool
	}{
		{"cut elsewhere", write(t, 4, epochs, map[int64][][]byte{0: {a0}, 1: {a1, a2, a3}}), true},
		{"bytes beyond the next segment", write(t, 4, epochs, map[int64][][]byte{0: {a0, a1, x2}, 2: {a2, a3}}), true},
		{"room behind the end", write(t, 4, epochs, map[int64][][]byte{0: {a0, a1, a2, a3, make([]byte, 500)}}), true},
		{"shorter", write(t, 2, "0\n1\n0 0\n", map[int64][][]byte{0: {a0, a1}}), true},
		{"another above the high watermark", write(t, 3, epochs, map[int64][][]byte{0: {a0, a1, a2, x3}}), true},
		{"another byte", write(t, 4, epochs, map[int64][][]byte{0: {a0, a1, x2, a3}}), false},
		{"another epoch", write(t, 4, epochs, map[int64][][]byte{0: {a0, a1, a2, x3}}), false},
		{"another epoch file", write(t, 4, "0\n2\n0 0\n1 1\n", map[int64][][]byte{0: {a0, a1, a2, a3}}), false},
		{"a batch is missing", write(t, 4, epochs, map[int64][][]byte{0: {a0, a2, a3}}), false},
	} {
		if err := compareReplicas([]*replica{whole, c.copy}); (err == nil) != c.equal {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	bad := slices.Clone(a1)
	bad[len(bad)-2]++
	dir := t.TempDir()
	for name, b := range map[string][]byte{"flipped": bad, "half": a1[:40], "out of order": slices.Concat(a1, a0)} {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%020d.log", 0)), b, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readReplica(name, dir); err == nil {
			t.Errorf("%s: nothing is wrong", name)
		}
	}
}
