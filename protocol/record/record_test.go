package record

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/compress"
)

// given is a record as a test wants it, owning its bytes.
type given struct {
	delta      int32
	ts         model.Timestamp
	key, value []byte
	headers    []Header
}

func randomBytes(r *rand.Rand, most int) []byte {
	switch r.Intn(5) {
	case 0:
		return nil
	case 1:
		return []byte{}
	}
	b := make([]byte, r.Intn(most+1))
	r.Read(b[:len(b)/2]) // half noise, half zeros
	return b
}

func randomRecords(r *rand.Rand, n, most int) []given {
	gs := make([]given, n)
	for i := range gs {
		g := given{delta: int32(i), ts: model.Timestamp(r.Int63n(1 << 42)), key: randomBytes(r, most), value: randomBytes(r, most)}
		if r.Intn(10) == 0 {
			g.ts = -1
		}
		for range r.Intn(4) * r.Intn(2) {
			h := Header{Key: randomBytes(r, 20), Value: randomBytes(r, most/4)}
			if h.Key == nil {
				h.Key = []byte{}
			}
			g.headers = append(g.headers, h)
		}
		gs[i] = g
	}
	return gs
}

func buildGiven(o Options, gs []given) Batch {
	b := NewBuilder(o)
	for _, g := range gs {
		b.AppendAt(g.delta, g.ts, g.key, g.value, g.headers...)
	}
	return b.Build()
}

// same compares two fields, telling null from empty.
func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func checkEach(b Batch, gs []given) error {
	i := 0
	err := b.Each(0, func(r *Record) error {
		if i >= len(gs) {
			return errors.New("too many records")
		}
		g := gs[i]
		want := g.ts
		if b.TimestampType() == LogAppendTime {
			want = b.MaxTimestamp()
		}
		if r.Offset != b.BaseOffset()+model.Offset(g.delta) || r.Timestamp != want || !same(r.Key, g.key) || !same(r.Value, g.value) {
			return fmt.Errorf("record %d: offset %d, time %d, want %d and %d", i, r.Offset, r.Timestamp, g.delta, want)
		}
		if len(r.Headers) != len(g.headers) {
			return fmt.Errorf("record %d: %d headers, want %d", i, len(r.Headers), len(g.headers))
		}
		for j, h := range r.Headers {
			if !same(h.Key, g.headers[j].Key) || !same(h.Value, g.headers[j].Value) {
				return fmt.Errorf("record %d header %d", i, j)
			}
		}
		i++
		return nil
	})
	if err == nil && i != len(gs) {
		err = fmt.Errorf("%d records, want %d", i, len(gs))
	}
	return err
}

func TestBuilderRoundTrip(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for _, c := range codecs {
		for i := range 40 {
			most := []int{10, 300, 10, 5000, 10, 300, 300, 200_000}[i%8]
			gs := randomRecords(r, 1+r.Intn(30), most)
			o := Options{Codec: c, Level: r.Intn(4), BaseOffset: model.Offset(r.Int63n(1 << 40)), LeaderEpoch: 7}
			if i%3 == 0 {
				o.Idempotent, o.ProducerID, o.ProducerEpoch, o.BaseSequence, o.Transactional = true, model.ProducerID(r.Int63()), 3, 99, true
			}
			if i%5 == 0 {
				o.TimestampType, o.AppendTime = LogAppendTime, 12345
			}
			b := buildGiven(o, gs)
			if err := errors.Join(b.CheckHeader(), b.CheckCRC(), checkEach(b, gs)); err != nil {
				t.Fatalf("%s batch %d: %v", c, i, err)
			}
			if b.HasProducerID() != o.Idempotent || b.IsTransactional() != o.Transactional || b.TimestampType() != o.TimestampType ||
				b.BaseOffset() != o.BaseOffset || b.LeaderEpoch() != 7 || b.Codec() != c {
				t.Fatalf("%s batch %d: header %x", c, i, []byte(b[:HeaderSize]))
			}
		}
	}
}

func TestBuilder(t *testing.T) {
	b := NewBuilder(Options{})
	if got := b.Build(); got.Count() != 0 || got.CheckHeader() != nil || got.HasProducerID() || got.BaseSequence() != model.NoSequence {
		t.Errorf("empty: %x", []byte(got))
	}
	b.AppendAt(3, 50, nil, []byte("x"))
	b.AppendAt(7, 20, nil, nil)
	b.SetLastOffsetDelta(9)
	got := b.BuildTo([]byte("before"))
	if got.LastOffsetDelta() != 9 || got.Count() != 2 || got.MaxTimestamp() != 50 || got.BaseTimestamp() != 50 || b.Size() != len(got) || b.Count() != 2 {
		t.Errorf("holes: %x", []byte(got))
	}
	if err := checkEach(got, []given{{3, 50, nil, []byte("x"), nil}, {7, 20, nil, nil, nil}}); err != nil {
		t.Error(err)
	}
	b.Reset(Options{Codec: 6})
	if b.Count() != 0 || b.Build() != nil {
		t.Error("codec 6 is built")
	}
}

func TestEachStopsAndLimits(t *testing.T) {
	for _, c := range codecs {
		b := build(Options{Codec: c}, 1000)
		stop := errors.New("stop")
		n := 0
		if err := b.Each(0, func(*Record) error {
			if n++; n == 10 {
				return stop
			}
			return nil
		}); err != stop || n != 10 {
			t.Errorf("%s: %v after %d", c, err, n)
		}
		err := b.Each(5000, func(*Record) error { return nil })
		if c != compress.None && !errors.Is(err, compress.ErrTooLarge) {
			t.Errorf("%s limit: %v", c, err)
		}
	}
	emptied := edit(build(Options{Codec: compress.Gzip}, 3)[:HeaderSize], func(b Batch) { put(b, posCount, 4, 0) })
	if err := emptied.Each(0, func(*Record) error { return errors.New("called") }); err != nil {
		t.Error(err)
	}
}

// TestEachRefuses feeds damaged records; every damage is a *CorruptError.
func TestEachRefuses(t *testing.T) {
	hs := hostileRecords()
	maps.Copy(hs, hostileLong())
	for name, raw := range hs {
		for _, c := range codecs {
			b := wrap(c, raw.count, raw.bytes)
			err := b.Each(1<<20, func(*Record) error { return nil })
			var ce *CorruptError
			if !errors.As(err, &ce) {
				t.Errorf("%s, %s: %v", name, c, err)
			}
		}
	}
}

func TestMarkers(t *testing.T) {
	for _, want := range []Marker{{Abort, 0}, {Commit, 17}, {Commit, math.MaxInt32}} {
		for _, c := range codecs {
			b := NewBuilder(Options{Codec: c, Control: true, Transactional: true, ProducerID: 5, ProducerEpoch: 2, BaseSequence: -1})
			b.AppendMarker(77, want)
			batch := b.Build()
			m, ok, err := batch.Marker()
			if m != want || !ok || err != nil || !batch.IsControl() {
				t.Errorf("%s %v: %v %v %v", c, want, m, ok, err)
			}
		}
	}
	b := NewBuilder(Options{Control: true})
	b.AppendControl(0, LeaderChange, []byte{1})
	if m, ok, err := b.Build().Marker(); ok || err != nil || m.Type != LeaderChange {
		t.Error(m, ok, err)
	}
	if _, ok, err := simple(1).Marker(); ok || err != nil {
		t.Error("a data batch has a marker")
	}
	for name, kv := range map[string][2][]byte{
		"short key":     {{0, 0, 0}, {0, 0, 0, 0, 0, 1}},
		"null key":      {nil, {0, 0, 0, 0, 0, 1}},
		"key version":   {{0xff, 0xff, 0, 0}, {0, 0, 0, 0, 0, 1}},
		"short value":   {{0, 0, 0, 1}, {0, 0, 0, 0, 0}},
		"null value":    {{0, 0, 0, 1}, nil},
		"value version": {{0, 0, 0, 1}, {0xff, 0xff, 0, 0, 0, 1}},
	} {
		b := NewBuilder(Options{Control: true})
		b.Append(0, kv[0], kv[1])
		if m, ok, err := b.Build().Marker(); ok || err == nil {
			t.Errorf("%s: %v", name, m)
		}
	}
	if ct, err := DecodeControlKey([]byte{0, 1, 0, 42}); ct != UnknownControl || err != nil {
		t.Error("a newer control type", ct, err)
	}
	cut := wrap(compress.None, 1, []byte{20, 0, 0})
	cut.setAttributes(bitControl)
	if _, ok, err := cut.Marker(); ok || err == nil {
		t.Error("a cut record has a marker")
	}
	mb := NewBuilder(Options{Control: true})
	mb.AppendMarker(1, Marker{Commit, 3})
	batch := mb.Build()
	if n := testing.AllocsPerRun(100, func() { batch.Marker() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// wrap makes a batch around raw records, with a right CRC.
func wrap(c Codec, count int32, raw []byte) Batch {
	b := make([]byte, HeaderSize)
	b, err := compress.Compress(b, c, 0, raw)
	if err != nil {
		return nil
	}
	n := Batch(b)
	put(n, posLength, 4, int64(len(n)-SizePrefix))
	n[posMagic] = Magic
	n.setAttributes(int16(c))
	put(n, posLastOffsetDelta, 4, int64(count)-1)
	put(n, posProducerID, 8, -1)
	put(n, posProducerEpoch, 2, -1)
	put(n, posBaseSequence, 4, -1)
	put(n, posCount, 4, int64(count))
	n.setCRC()
	return n
}

type hostile struct {
	count int32
	bytes []byte
}

// rec prefixes a record's body with its length.
func rec(body ...byte) []byte { return append(appendVarint(nil, int64(len(body))), body...) }

// hostileRecords are records that no reader may take. H17 and H21 of the list
// of faults.
func hostileRecords() map[string]hostile {
	good := rec(0, 0, 0, 1, 1, 0) // null key and value, no headers
	two := append(rec(0, 0, 0, 1, 1, 0), rec(0, 0, 2, 1, 1, 0)...)
	m := map[string]hostile{
		"no bytes":                    {1, nil},
		"fewer than promised":         {3, two},
		"more than promised":          {1, two},
		"2^31-1 promised":             {math.MaxInt32, two},
		"one byte behind":             {2, append(bytes.Clone(two), 0)},
		"length negative":             {1, append([]byte{0x01}, good[1:]...)},
		"length 0":                    {1, append([]byte{0x00}, good[1:]...)},
		"length 5":                    {1, append([]byte{0x0a}, good[1:]...)},
		"length one less":             {1, append([]byte{0x0a, 0}, good[1:]...)},
		"length one more":             {1, append([]byte{0x0e}, good[1:]...)},
		"length one more, filled":     {1, append(append([]byte{0x0e}, good[1:]...), 0)},
		"length 2^31-1":               {1, append([]byte{0xfe, 0xff, 0xff, 0xff, 0x0f}, good[1:]...)},
		"length -2^31":                {1, append([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, good[1:]...)},
		"length overlong":             {1, append([]byte{0x8c, 0x80, 0x80, 0x80, 0x80, 0x00}, good[1:]...)},
		"length cut":                  {1, []byte{0x80}},
		"timestamp overlong":          {1, rec(0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0, 1, 1, 0)},
		"offset overlong":             {1, rec(0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 1, 1, 0)},
		"key length -2":               {1, rec(0, 0, 0, 3, 1, 0)},
		"key length -5":               {1, rec(0, 0, 0, 9, 1, 0)},
		"key passes the record":       {1, rec(0, 0, 0, 8, 1, 0)},
		"key length 2^31-1":           {1, rec(0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0x0f, 1, 0)},
		"value length -2":             {1, rec(0, 0, 0, 1, 3, 0)},
		"value passes the record":     {1, rec(0, 0, 0, 1, 4, 0)},
		"value takes the count":       {1, rec(0, 0, 0, 1, 2, 0)},
		"header count -1":             {1, rec(0, 0, 0, 1, 1, 1)},
		"header count 2^31-1":         {1, rec(0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f)},
		"header count over the bytes": {1, rec(0, 0, 0, 1, 1, 6, 0, 1)},
		"one header too few":          {1, rec(0, 0, 0, 1, 1, 4, 0, 1)},
		"header key null":             {1, rec(0, 0, 0, 1, 1, 2, 1, 1)},
		"header key passes":           {1, rec(0, 0, 0, 1, 1, 2, 6, 1)},
		"header value -2":             {1, rec(0, 0, 0, 1, 1, 2, 0, 3)},
		"header value passes":         {1, rec(0, 0, 0, 1, 1, 2, 0, 6)},
		"second record cut":           {2, two[:len(two)-1]},
	}
	// The same faults in a record that no window holds.
	big := make([]byte, 3*compress.WindowSize)
	large := func(tail ...byte) []byte {
		body := append([]byte{0, 0, 0}, appendVarint(nil, int64(len(big)))...)
		return rec(append(append(body, big...), tail...)...)
	}
	value := append(appendVarint(nil, int64(len(big))), big...)
	with := func(tail ...byte) []byte { return large(append(bytes.Clone(value), tail...)...) }
	for name, b := range map[string][]byte{
		"value length -2": large(3, 0), "value passes": large(4, 0), "value missing": large(),
		"header count -1": with(1), "header count over the bytes": with(6, 0, 1), "header count missing": with(),
		"header key null": with(2, 1, 1), "header key passes": with(2, 6, 1), "header value -2": with(2, 0, 3),
		"header value passes": with(2, 0, 6), "too long": with(0, 0), "bytes behind": append(with(0), 0),
		"cut in the key": with(0)[:compress.WindowSize*2], "cut in the value": with(0)[:compress.WindowSize*5], "cut at the end": with(0)[:len(with(0))-1],
	} {
		m["large, "+name] = hostile{1, b}
	}
	return m
}

// hostileLong are damaged records that are long enough for the quick walk, and
// some that a reader which goes on behind the damage would find whole again.
func hostileLong() map[string]hostile {
	key := append([]byte{0, 0, 0, 40}, "twenty bytes of key."...)
	long := func(tail ...byte) []byte { return rec(append(bytes.Clone(key), tail...)...) }
	null := func(lens ...byte) []byte {
		return rec(append(append([]byte{0, 0, 0}, lens...), "twenty bytes of data"...)...)
	}
	good := long(1, 0)
	whole := rec(0, 0, 2, 1, 1, 0)
	big := append(appendVarint([]byte{0, 0, 0}, 3*compress.WindowSize), make([]byte, 3*compress.WindowSize)...)
	return map[string]hostile{
		"long, longer than its fields":      {1, long(1, 0, 0)},
		"long, value -2":                    {1, long(3, 0)},
		"long, value missing":               {1, long()},
		"long, count missing":               {1, long(1)},
		"long, value passes by one":         {1, long(4, 0)},
		"long, value takes the count":       {1, long(2, 0)},
		"long, header missing":              {1, long(1, 2)},
		"long, key -2":                      {1, null(3, 40, 0)},
		"long, key -5":                      {1, null(9, 40, 0)},
		"long, key -2 over a byte":          {1, rec(append([]byte{0, 0, 0, 3, 7, 40}, "twenty bytes of data\x00"...)...)},
		"long, value -2 over a byte":        {1, long(3, 7, 0)},
		"long, null key and too long":       {1, append(null(1, 38), 0)},
		"long, fewer than promised":         {2, good},
		"long, more than promised":          {1, append(bytes.Clone(good), good...)},
		"long, negative length":             {1, append([]byte{good[0] + 1}, good[1:]...)},
		"long, a record inside":             {2, long(append([]byte{1, 0}, whole...)...)},
		"long, a record behind a value":     {2, append(long(1, 0, whole[0]), whole[1:]...)},
		"larger than a window, one inside":  {2, rec(append(append(big, 1, 0), whole...)...)},
		"larger than a window, null inside": {2, rec(append(append(bytes.Clone(big), 3, 0), whole...)...)},
	}
}
