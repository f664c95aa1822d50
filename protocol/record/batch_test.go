package record

import (
	"bytes"
	"errors"
	"math"
	"math/rand"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/compress"
)

var codecs = []Codec{compress.None, compress.Gzip, compress.Snappy, compress.LZ4, compress.Zstd}

// foreign is a batch encoded by kmsg, with its CRC set.
func foreign(k *kmsg.RecordBatch) Batch {
	k.Magic = Magic
	k.Length = int32(HeaderSize - SizePrefix + len(k.Records))
	b := Batch(k.AppendTo(nil))
	b.setCRC()
	return b
}

func TestAccessorsAgreeWithKmsg(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 1000 {
		k := kmsg.RecordBatch{
			FirstOffset:          r.Int63n(1 << 40),
			PartitionLeaderEpoch: r.Int31() - 1,
			Attributes:           int16(r.Intn(128)),
			LastOffsetDelta:      r.Int31(),
			FirstTimestamp:       int64(r.Uint64()),
			MaxTimestamp:         int64(r.Uint64()),
			ProducerID:           int64(r.Uint64()),
			ProducerEpoch:        int16(r.Intn(1 << 16)),
			FirstSequence:        r.Int31() - 1,
			NumRecords:           r.Int31(),
			Records:              make([]byte, r.Intn(20)),
		}
		b := foreign(&k)
		var back kmsg.RecordBatch
		if err := back.ReadFrom(b); err != nil {
			t.Fatal(err)
		}
		a := int(k.Attributes)
		got := []any{
			int64(b.BaseOffset()), int64(b.LastOffset()), int64(b.NextOffset()), b.Size(), int32(b.LeaderEpoch()), b.Magic(),
			b.Attributes(), int(b.Codec()), b.TimestampType() == LogAppendTime, b.IsTransactional(), b.IsControl(), b.HasDeleteHorizon(),
			b.LastOffsetDelta(), int64(b.BaseTimestamp()), int64(b.MaxTimestamp()), int64(b.ProducerID()), b.HasProducerID(),
			int16(b.ProducerEpoch()), int32(b.BaseSequence()), b.Count(), len(b.Records()), int32(b.CRC()),
		}
		want := []any{
			k.FirstOffset, k.FirstOffset + int64(k.LastOffsetDelta), k.FirstOffset + int64(k.LastOffsetDelta) + 1, len(b), k.PartitionLeaderEpoch, int8(2),
			k.Attributes, a & 7, a&8 != 0, a&16 != 0, a&32 != 0, a&64 != 0,
			k.LastOffsetDelta, k.FirstTimestamp, k.MaxTimestamp, k.ProducerID, k.ProducerID >= 0,
			k.ProducerEpoch, k.FirstSequence, k.NumRecords, len(k.Records), back.CRC,
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("field %d of %+v: got %v, want %v", i, k, got[i], want[i])
			}
		}
	}
}

func TestLastSequence(t *testing.T) {
	for _, tc := range []struct {
		base  model.Sequence
		delta int32
		want  model.Sequence
	}{
		{0, 0, 0}, {5, 9, 14}, {model.NoSequence, 3, model.NoSequence},
		{math.MaxInt32, 0, math.MaxInt32}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 4, 2},
	} {
		b := foreign(&kmsg.RecordBatch{FirstSequence: int32(tc.base), LastOffsetDelta: tc.delta, NumRecords: 1})
		if got := b.LastSequence(); got != tc.want {
			t.Errorf("%d by %d: %d, want %d", tc.base, tc.delta, got, tc.want)
		}
	}
}

func TestStampLeavesTheCRC(t *testing.T) {
	b := simple(3)
	before := bytes.Clone(b)
	Stamp(b, 1<<40, 77)
	if err := b.CheckCRC(); err != nil {
		t.Fatal(err)
	}
	if b.BaseOffset() != 1<<40 || b.LeaderEpoch() != 77 || b.LastOffset() != 1<<40+2 {
		t.Fatal(b.BaseOffset(), b.LeaderEpoch(), b.LastOffset())
	}
	for i := range b {
		if (i < 8 || i >= 12 && i < 16) != (b[i] != before[i]) && b[i] != before[i] {
			t.Fatalf("byte %d changed", i)
		}
	}
}

// simple is an uncompressed batch of n small records.
func simple(n int) Batch {
	return build(Options{}, n)
}

func build(o Options, n int) Batch {
	b := NewBuilder(o)
	for i := range n {
		b.Append(1000+model.Timestamp(i), []byte("key"), []byte("some value"))
	}
	return b.Build()
}

func edit(b Batch, f func(b Batch)) Batch {
	b = bytes.Clone(b)
	f(b)
	b.setCRC()
	return b
}

func put(b Batch, pos, size int, v int64) {
	for i := size - 1; i >= 0; i-- {
		b[pos+i] = byte(v)
		v >>= 8
	}
}

func TestCheckHeader(t *testing.T) {
	good := build(Options{BaseOffset: 5, LeaderEpoch: 3}, 4)
	for _, tc := range []struct {
		name string
		b    Batch
		ok   bool
	}{
		{"good", good, true},
		{"emptied by compaction", edit(good[:HeaderSize], func(b Batch) { put(b, posCount, 4, 0); put(b, posLength, 4, HeaderSize-SizePrefix) }), true},
		{"holes after compaction", edit(good, func(b Batch) { put(b, posLastOffsetDelta, 4, 1000) }), true},
		{"no leader epoch", edit(good, func(b Batch) { put(b, posLeaderEpoch, 4, -1) }), true},
		{"nothing", nil, false},
		{"short", good[:60], false},
		{"cut", good[:len(good)-1], false},
		{"longer than it says", append(bytes.Clone(good), 0), false},
		{"magic 1", edit(good, func(b Batch) { b[posMagic] = 1 }), false},
		{"magic 3", edit(good, func(b Batch) { b[posMagic] = 3 }), false},
		{"length", edit(good, func(b Batch) { put(b, posLength, 4, -1) }), false},
		{"base offset", edit(good, func(b Batch) { put(b, posBaseOffset, 8, -1) }), false},
		{"last offset delta", edit(good, func(b Batch) { put(b, posLastOffsetDelta, 4, -1) }), false},
		{"offsets overflow", edit(good, func(b Batch) { put(b, posBaseOffset, 8, math.MaxInt64-3) }), false},
		{"the last offset of all", edit(good, func(b Batch) { put(b, posBaseOffset, 8, math.MaxInt64-4) }), true},
		{"leader epoch", edit(good, func(b Batch) { put(b, posLeaderEpoch, 4, -2) }), false},
		{"codec 5", edit(good, func(b Batch) { b[posAttributes+1] = 5 }), false},
		{"count", edit(good, func(b Batch) { put(b, posCount, 4, -1) }), false},
		{"more records than offsets", edit(good, func(b Batch) { put(b, posCount, 4, 5) }), false},
		{"2^31-1 records", edit(good, func(b Batch) { put(b, posCount, 4, math.MaxInt32) }), false},
	} {
		err := tc.b.CheckHeader()
		var ce *CorruptError
		if (err == nil) != tc.ok || err != nil && !errors.As(err, &ce) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestCheckCRC(t *testing.T) {
	b := simple(2)
	if err := b.CheckCRC(); err != nil {
		t.Fatal(err)
	}
	for i := posCRC; i < len(b); i++ {
		b[i] ^= 0x10
		if b.CheckCRC() == nil {
			t.Fatalf("a flipped bit in byte %d passes", i)
		}
		b[i] ^= 0x10
	}
	if b[:20].CheckCRC() == nil {
		t.Fatal("20 bytes pass")
	}
}

func TestIter(t *testing.T) {
	var set []byte
	var starts []int
	for i := range 5 {
		starts = append(starts, len(set))
		set = append(set, build(Options{BaseOffset: model.Offset(10 * i), Codec: codecs[i]}, i+1)...)
	}
	starts = append(starts, len(set))
	for cut := range len(set) + 1 {
		it := NewIter(set[:cut])
		n := 0
		for it.Next() {
			if it.Pos() != starts[n] || it.Batch().BaseOffset() != model.Offset(10*n) || len(it.Batch()) != it.Batch().Size() {
				t.Fatalf("cut %d: batch %d at %d", cut, n, it.Pos())
			}
			n++
		}
		if it.Err() != nil || starts[n] > cut || n < 5 && starts[n+1] <= cut || it.Rest() != cut-starts[n] || it.Pos() != starts[n] {
			t.Fatalf("cut %d: %d batches, rest %d, pos %d, %v", cut, n, it.Rest(), it.Pos(), it.Err())
		}
	}
	for name, at := range map[string]struct {
		pos int
		v   byte
	}{"magic": {posMagic, 1}, "length": {posLength, 0x80}, "small length": {posLength + 3, 10}, "delta": {posLastOffsetDelta, 0xff}} {
		bad := bytes.Clone(set)
		bad[starts[2]+at.pos] = at.v
		if name == "small length" {
			bad[starts[2]+posLength+2] = 0
		}
		it := NewIter(bad)
		n := 0
		for it.Next() {
			n++
		}
		var ce *CorruptError
		if n != 2 || !errors.As(it.Err(), &ce) || ce.Pos != int64(starts[2]) || it.Pos() != starts[2] {
			t.Errorf("%s: %d batches, %v", name, n, it.Err())
		}
		if it.Next() {
			t.Errorf("%s: goes on after an error", name)
		}
	}
}

func TestIterAllocatesNothing(t *testing.T) {
	set := bytes.Repeat(simple(3), 10)
	if n := testing.AllocsPerRun(100, func() {
		it := NewIter(set)
		for it.Next() {
			if it.Batch().Count() != 3 {
				t.Fatal("count")
			}
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func TestCRCCombine(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for _, size := range []int{0, 1, 2, 7, 8, 63, 64, 1000, 4096, 1 << 20, 3<<20 + 17} {
		b := make([]byte, posTail+size)
		r.Read(b)
		p := Prepared{Batch: b}
		p.hashTail()
		if got, want := crcCombine(p.Batch.headCRC(), p.tailCRC, p.tailShift), p.Batch.ComputeCRC(); got != want {
			t.Errorf("tail of %d bytes: %08x, want %08x", size, got, want)
		}
	}
	for n := range 3000 {
		b := make([]byte, posTail+n)
		r.Read(b)
		p := Prepared{Batch: b}
		p.hashTail()
		if got, want := crcCombine(p.Batch.headCRC(), p.tailCRC, p.tailShift), p.Batch.ComputeCRC(); got != want {
			t.Fatalf("tail of %d bytes: %08x, want %08x", n, got, want)
		}
	}
}

func TestVarints(t *testing.T) {
	values := []int64{0, 1, -1, 63, 64, -64, -65, 8191, 8192, -8192, -8193, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64}
	for s := range 63 {
		values = append(values, 1<<s, -(1 << s), 1<<s-1)
	}
	for _, v := range values {
		b := appendVarint([]byte{9}, v)
		if len(b)-1 != varintSize(v) {
			t.Errorf("%d: size %d of %d", v, varintSize(v), len(b)-1)
		}
		if got, n := varint64(b, 1); got != v || n != len(b) {
			t.Errorf("%d: read %d at %d", v, got, n)
		}
		got, n := varint32(b, 1)
		if fits := v == int64(int32(v)); fits && (int64(got) != v || n != len(b)) || !fits && n >= 0 {
			t.Errorf("%d in 32 bits: read %d at %d", v, got, n)
		}
		for cut := range len(b) - 1 {
			if _, n := varint64(b[:1+cut], 1); n >= 0 {
				t.Errorf("%d cut to %d bytes is read", v, cut)
			}
		}
	}
	for _, b := range [][]byte{
		{0x80, 0x80, 0x80, 0x80, 0x80, 0x00}, {0xff, 0xff, 0xff, 0xff, 0x1f}, {0xff, 0xff, 0xff, 0xff, 0xff},
	} {
		if _, n := varint32(b, 0); n >= 0 {
			t.Errorf("% x is read as 32 bits", b)
		}
	}
	for _, b := range [][]byte{bytes.Repeat([]byte{0x80}, 11), append(bytes.Repeat([]byte{0xff}, 9), 0x02)} {
		if _, n := varint64(b, 0); n >= 0 {
			t.Errorf("% x is read as 64 bits", b)
		}
	}
	if v, n := varint32([]byte{0x80, 0x00}, 0); v != 0 || n != 2 {
		t.Error("a padded zero is not read, as Kafka does")
	}
	if _, n := varint32([]byte{1}, 7); n >= 0 {
		t.Error("a number behind the end is read")
	}
}
