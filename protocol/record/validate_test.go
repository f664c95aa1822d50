package record

import (
	"bytes"
	"maps"
	"math"
	"math/rand"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/compress"
)

const now = 1_700_000_000_000

// rules are strict where a test wants to see them work.
func rules() Rules {
	r := DefaultRules(now)
	r.BeforeMaxMs = math.MaxInt64
	return r
}

// TestValidateRows checks each row of Kafka's table of checks.
func TestValidateRows(t *testing.T) {
	cases := rowCases(now, 1)
	for _, tc := range cases {
		in := bytes.Clone(tc.in)
		p, rej := Validate(in, &tc.rules)
		if tc.code == 0 {
			if rej != nil {
				t.Errorf("%s: refused with %d %s", tc.name, rej.Code, rej.Message)
			} else if p.Batch.CheckHeader() != nil || p.Batch.CheckCRC() != nil || p.Records != p.Batch.Count() || p.Owned {
				t.Errorf("%s: accepted %x", tc.name, []byte(p.Batch))
			}
			continue
		}
		if rej == nil {
			t.Errorf("%s: accepted, want %d", tc.name, tc.code)
			continue
		}
		var bad []int32
		for _, e := range rej.Records {
			bad = append(bad, e.Index)
			if e.Message == "" {
				t.Errorf("%s: record %d without a message", tc.name, e.Index)
			}
		}
		if rej.Code != tc.code || rej.Early != tc.early || rej.Message == "" || len(bad) != len(tc.bad) || !equal(bad, tc.bad) {
			t.Errorf("%s: code %d early %v records %v (%s), want %d %v %v", tc.name, rej.Code, rej.Early, bad, rej.Message, tc.code, tc.early, tc.bad)
		}
	}
}

func equal(a, b []int32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestValidateHostile: each damaged record is INVALID_RECORD, compressed or
// not, and costs no more memory than the batch.
func TestValidateHostile(t *testing.T) {
	r := rules()
	hs := hostileRecords()
	maps.Copy(hs, hostileLong())
	for name, h := range hs {
		for _, c := range codecs {
			p, rej := Validate(wrap(c, h.count, h.bytes), &r)
			if rej == nil || rej.Code != CodeInvalidRecord || rej.Early || rej.Records != nil {
				t.Errorf("%s, %s: %v, %+v", name, c, p.Records, rej)
			}
		}
	}
	for _, c := range codecs {
		whole := build(Options{Codec: c}, 50)
		for n := HeaderSize; n < len(whole); n++ {
			cut := edit(whole[:n], func(b Batch) { put(b, posLength, 4, int64(n-SizePrefix)) })
			if _, rej := Validate(cut, &r); rej == nil || rej.Code != CodeInvalidRecord {
				t.Fatalf("%s cut to %d of %d: %+v", c, n, len(whole), rej)
			}
		}
	}
}

func TestRecordErrorsAreCapped(t *testing.T) {
	b := NewBuilder(Options{})
	for range 5000 {
		b.Append(1, nil, nil)
	}
	r := rules()
	r.Compacted = true
	_, rej := Validate(b.Build(), &r)
	if rej == nil || len(rej.Records) != MaxRecordErrors || !strings.Contains(rej.Message, "5000 of 5000") {
		t.Fatalf("%+v", rej)
	}
}

// TestWrongMaxTimestamp: a producer's maxTimestamp is put right in place.
func TestWrongMaxTimestamp(t *testing.T) {
	r := rules()
	for _, c := range codecs {
		for want, gs := range map[model.Timestamp][]given{
			300: {{0, 100, nil, nil, nil}, {1, 300, nil, nil, nil}, {2, 200, nil, nil, nil}},
			-1:  {{0, -1, nil, nil, nil}, {1, -1, nil, nil, nil}},
			-2:  {{0, -5, nil, nil, nil}, {1, -9, nil, nil, nil}}, // see below
		} {
			if want == -2 {
				want = -1 // no timestamp is above "none"
			}
			for _, wrong := range []int64{-7, 0, 299, 1 << 50} {
				in := edit(buildGiven(Options{Codec: c}, gs), func(b Batch) { put(b, posMaxTimestamp, 8, wrong) })
				p, rej := Validate(in, &r)
				if rej != nil || p.Owned || &p.Batch[0] != &in[0] {
					t.Fatalf("%s: %+v, owned %v", c, rej, p.Owned)
				}
				if p.Batch.MaxTimestamp() != want || p.Batch.CheckCRC() != nil || checkEach(p.Batch, gs) != nil {
					t.Errorf("%s: maxTimestamp %d, want %d", c, p.Batch.MaxTimestamp(), want)
				}
			}
		}
	}
}

// TestWrongDeltas: offset deltas that don't count from 0 are put right, in a
// new batch that keeps the rest.
func TestWrongDeltas(t *testing.T) {
	r := rules()
	for _, c := range codecs {
		wrong := []given{
			{0, 500, []byte("a"), nil, nil},
			{0, 100, nil, []byte("b"), []Header{{Key: []byte("h")}}},
			{9, 900, []byte{}, make([]byte, 3*compress.WindowSize), nil},
			{-4, -1, []byte("d"), []byte{}, nil},
			{math.MaxInt32, 1, []byte("e"), nil, nil},
		}
		o := Options{Codec: c, ProducerID: 12, ProducerEpoch: 3, BaseSequence: 44, Transactional: true}
		in := edit(buildGiven(o, wrong), func(b Batch) {
			put(b, posLastOffsetDelta, 4, 4)
			b[posAttributes] = 0xf0 // bits without a meaning
			put(b, posLeaderEpoch, 4, -1)
		})
		before := bytes.Clone(in)
		p, rej := Validate(in, &r)
		if rej != nil || !p.Owned || p.Records != 5 || !bytes.Equal(in, before) {
			t.Fatalf("%s: %+v, owned %v", c, rej, p.Owned)
		}
		right := bytes.Clone(p.Batch)
		for i := range wrong {
			wrong[i].delta = int32(i)
		}
		if err := checkEach(right, wrong); err != nil {
			t.Errorf("%s: %v", c, err)
		}
		checkRebuilt(t, in, right, c)
	}
}

// TestRebuildMovesTimestamps: the rebuilt batch's base is the first record's
// timestamp, whatever the producer counted from.
func TestRebuildMovesTimestamps(t *testing.T) {
	raw := append(rec(0, 20, 4, 1, 1, 0), rec(0, 9, 0, 1, 1, 0)...)                                               // +10, −5
	raw = append(raw, rec(append(append([]byte{0, 80, 4, 60}, "thirty bytes that are the key."...), 1, 0)...)...) // +40
	for _, c := range codecs {
		in := edit(wrap(c, 3, raw), func(b Batch) { put(b, posBaseTimestamp, 8, 1000) })
		r := rules()
		p, rej := Validate(in, &r)
		if rej != nil || !p.Owned {
			t.Fatalf("%s: %+v", c, rej)
		}
		want := []given{{0, 1010, nil, nil, nil}, {1, 995, nil, nil, nil}, {2, 1040, []byte("thirty bytes that are the key."), nil, nil}}
		if err := checkEach(p.Batch, want); err != nil || p.Batch.BaseTimestamp() != 1010 || p.Batch.MaxTimestamp() != 1040 {
			t.Errorf("%s: base %d, max %d, %v", c, p.Batch.BaseTimestamp(), p.Batch.MaxTimestamp(), err)
		}
	}
}

// checkRebuilt compares the headers of a batch and its rebuilt form.
func checkRebuilt(t *testing.T, from, to Batch, c Codec) {
	t.Helper()
	if to.CheckHeader() != nil || to.CheckCRC() != nil || to.Codec() != c || to.Attributes() != int16(c)|from.Attributes()&bitTransactional ||
		to.ProducerID() != from.ProducerID() || to.ProducerEpoch() != from.ProducerEpoch() || to.BaseSequence() != from.BaseSequence() ||
		to.Count() != from.Count() || to.LastOffsetDelta() != from.Count()-1 || to.BaseOffset() != 0 {
		t.Errorf("%s: rebuilt header\n%x from\n%x", c, []byte(to[:HeaderSize]), []byte(from[:HeaderSize]))
	}
}

// TestRecompression: every codec to every other, with every level.
func TestRecompression(t *testing.T) {
	rnd := rand.New(rand.NewSource(3))
	for _, from := range codecs {
		for _, to := range codecs {
			for _, level := range []int{0, 1, 6, 22} {
				gs := randomRecords(rnd, 30, 1000)
				gs = append(gs, given{delta: 30, ts: 7, key: []byte("big"), value: bytes.Repeat([]byte("tide"), 50_000)})
				if from == to {
					gs[4].delta = 3
				}
				for i := range gs {
					gs[i].ts %= now
				}
				in := buildGiven(Options{Codec: from, ProducerID: 12, ProducerEpoch: 3, BaseSequence: 44}, gs)
				r := rules()
				r.KeepCodec, r.Codec, r.Level = false, to, level
				p, rej := Validate(in, &r)
				if rej != nil || !p.Owned {
					t.Fatalf("%s to %s: %+v", from, to, rej)
				}
				gs[4].delta = 4
				if err := checkEach(p.Batch, gs); err != nil {
					t.Fatalf("%s to %s: %v", from, to, err)
				}
				checkRebuilt(t, in, p.Batch, to)
				if p.Batch.BaseTimestamp() != gs[0].ts || p.Batch.MaxTimestamp() != in.MaxTimestamp() {
					t.Fatalf("%s to %s: times %d %d", from, to, p.Batch.BaseTimestamp(), p.Batch.MaxTimestamp())
				}
				// A rebuilt batch is one that Validate takes as it is.
				again, rej := Validate(bytes.Clone(p.Batch), &r)
				if rej != nil || again.Owned || !bytes.Equal(again.Batch, p.Batch) {
					t.Fatalf("%s to %s, again: %+v", from, to, rej)
				}
			}
		}
	}
	r := rules()
	r.KeepCodec, r.Codec = false, compress.Gzip
	if p, rej := Validate(build(Options{Codec: compress.Gzip}, 3), &r); rej != nil || p.Owned {
		t.Errorf("a batch in the right codec is rebuilt: %+v", rej)
	}
}

// TestRow25: the limit holds for the rebuilt batch, too.
func TestRow25(t *testing.T) {
	b := NewBuilder(Options{Codec: compress.Zstd})
	b.Append(5, []byte("k"), make([]byte, 100_000))
	in := b.Build()
	for _, to := range []Codec{compress.None, compress.Gzip, compress.Snappy, compress.LZ4} {
		r := rules()
		r.KeepCodec, r.Codec = false, to
		p, rej := Validate(bytes.Clone(in), &r)
		if rej != nil {
			t.Fatal(rej.Message)
		}
		r.MaxBatchBytes = int32(len(p.Batch))
		if _, rej := Validate(bytes.Clone(in), &r); rej != nil {
			t.Errorf("%s at the limit: %s", to, rej.Message)
		}
		r.MaxBatchBytes--
		if len(in) > int(r.MaxBatchBytes) {
			t.Fatal("the test's batch shrinks")
		}
		if _, rej := Validate(bytes.Clone(in), &r); rej == nil || rej.Code != CodeMessageTooLarge || rej.Early {
			t.Errorf("%s over the limit: %+v", to, rej)
		}
		// Record errors come first.
		r.BeforeMaxMs = 1000
		if _, rej := Validate(bytes.Clone(in), &r); rej == nil || rej.Code != CodeInvalidTimestamp {
			t.Errorf("%s over the limit with a bad timestamp: %+v", to, rej)
		}
	}
}

func TestLogAppendTime(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	for _, from := range codecs {
		for _, to := range codecs {
			for _, n := range []int{1, 2, 50, 3000} {
				gs := randomRecords(rnd, n, 40)
				in := buildGiven(Options{Codec: from, Transactional: true, ProducerID: 3}, gs)
				r := rules()
				r.TimestampType, r.KeepCodec, r.Codec = LogAppendTime, false, to
				p, rej := Validate(in, &r)
				if rej != nil || p.Owned != (from != to) || p.tailShift == 0 {
					t.Fatalf("%s to %s: %+v", from, to, rej)
				}
				for _, ts := range []model.Timestamp{now, now + 1, 0, -1} {
					p.StampAppendTime(ts)
					Stamp(p.Batch, 1000, 4)
					if p.Batch.CheckCRC() != nil || p.Batch.MaxTimestamp() != ts || p.Batch.TimestampType() != LogAppendTime || !p.Batch.IsTransactional() {
						t.Fatalf("%s to %s: stamped %x", from, to, []byte(p.Batch[:HeaderSize]))
					}
				}
				if err := checkEach(p.Batch, gs); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	r := rules()
	p, rej := Validate(simple(3), &r)
	if rej != nil {
		t.Fatal(rej)
	}
	p.StampAppendTime(9) // not prepared for it: slower, and right
	if p.Batch.CheckCRC() != nil || p.Batch.MaxTimestamp() != 9 {
		t.Error("stamped without preparation")
	}
}

// TestValidateModel compares the walk with the slow reading by Each, over
// batches that are mostly good.
func TestValidateModel(t *testing.T) {
	rnd := rand.New(rand.NewSource(9))
	for i := range 300 {
		c := codecs[rnd.Intn(len(codecs))]
		gs := randomRecords(rnd, 1+rnd.Intn(40), []int{10, 200, 10, 200, 100_000}[rnd.Intn(5)])
		r := rules()
		r.MaxBatchBytes = 0
		r.Compacted = rnd.Intn(2) == 0
		if rnd.Intn(3) == 0 {
			r.Now = model.Timestamp(1 << 41)
			r.BeforeMaxMs, r.AfterMaxMs = 1<<40, 1<<40
		} else {
			r.AfterMaxMs = math.MaxInt64
		}
		bad, timestamp := []int32{}, false
		for j, g := range gs {
			switch diff := int64(r.Now) - int64(g.ts); {
			case r.Compacted && g.key == nil:
				bad = append(bad, int32(j))
			case g.ts != -1 && (diff > r.BeforeMaxMs || -diff > r.AfterMaxMs):
				bad, timestamp = append(bad, int32(j)), true
			}
		}
		p, rej := Validate(buildGiven(Options{Codec: c}, gs), &r)
		switch {
		case len(bad) == 0:
			if rej != nil || int(p.Records) != len(gs) || p.Owned {
				t.Fatalf("batch %d, %s: %+v", i, c, rej)
			}
		case rej == nil:
			t.Fatalf("batch %d, %s: accepted, records %v are bad", i, c, bad)
		default:
			want := CodeInvalidRecord
			if timestamp {
				want = CodeInvalidTimestamp
			}
			if rej.Code != want || len(rej.Records) != len(bad) {
				t.Fatalf("batch %d, %s: %+v, want %d for %v", i, c, rej, want, bad)
			}
			for k := range bad {
				if rej.Records[k].Index != bad[k] {
					t.Fatalf("batch %d, %s: %+v, want %v", i, c, rej.Records, bad)
				}
			}
		}
	}
}

func benchmarkBatch(c Codec, size int) Batch {
	b := NewBuilder(Options{Codec: c})
	rnd := rand.New(rand.NewSource(1))
	value := make([]byte, size)
	for b.Size() < 1<<20-size-20 {
		for i := range value {
			value[i] = "abcdefgh"[rnd.Intn(8)]
		}
		b.Append(now, nil, value)
	}
	return b.Build()
}

func TestValidateAllocations(t *testing.T) {
	b := benchmarkBatch(compress.None, 100)
	for _, tt := range []TimestampType{CreateTime, LogAppendTime} {
		r := rules()
		r.TimestampType = tt
		if n := testing.AllocsPerRun(20, func() {
			if _, rej := Validate(b, &r); rej != nil {
				t.Fatal(rej.Message)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations for %d records", tt, n, b.Count())
		}
	}
	for _, c := range codecs[1:] {
		b := benchmarkBatch(c, 100)
		r := rules()
		if n := testing.AllocsPerRun(20, func() {
			if _, rej := Validate(b, &r); rej != nil {
				t.Fatal(rej.Message)
			}
		}); n > 30 {
			t.Errorf("%s: %v allocations for %d records", c, n, b.Count())
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	for _, size := range []int{100, 1000} {
		for _, c := range codecs {
			batch := benchmarkBatch(c, size)
			r := rules()
			b.Run(c.String()+"/"+map[int]string{100: "100B", 1000: "1KiB"}[size], func(b *testing.B) {
				b.SetBytes(1 << 20)
				b.ReportAllocs()
				for b.Loop() {
					if _, rej := Validate(batch, &r); rej != nil {
						b.Fatal(rej.Message)
					}
				}
			})
		}
	}
}

// BenchmarkWalk is Validate without the CRC, per record.
func BenchmarkWalk(b *testing.B) {
	batch := benchmarkBatch(compress.None, 100)
	r := rules()
	for b.Loop() {
		s := newScan(batch, &r)
		if rej := s.run(batch, &r); rej != nil {
			b.Fatal(rej.Message)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch.Count()), "ns/record")
}

func BenchmarkStampAppendTime(b *testing.B) {
	r := rules()
	r.TimestampType = LogAppendTime
	p, rej := Validate(benchmarkBatch(compress.None, 100), &r)
	if rej != nil {
		b.Fatal(rej.Message)
	}
	for b.Loop() {
		p.StampAppendTime(now)
	}
}
