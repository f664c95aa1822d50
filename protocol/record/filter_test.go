package record

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/compress"
)

// plainRecord is a Record that may be kept.
type plainRecord struct {
	offset     model.Offset
	ts         model.Timestamp
	key, value []byte
	headers    string
}

func recordsOf(b Batch) (all []plainRecord, err error) {
	err = b.Each(1<<20, func(r *Record) error {
		all = append(all, plainRecord{r.Offset, r.Timestamp, bytes.Clone(r.Key), bytes.Clone(r.Value), fmt.Sprintf("%q", r.Headers)})
		return nil
	})
	return all, err
}

func (r *plainRecord) same(o *plainRecord) bool {
	return r.offset == o.offset && r.ts == o.ts && bytes.Equal(r.key, o.key) && (r.key == nil) == (o.key == nil) &&
		bytes.Equal(r.value, o.value) && (r.value == nil) == (o.value == nil) && r.headers == o.headers
}

// checkFilter filters b and compares with what Each tells of it.
func checkFilter(f *Filter, b Batch, o FilterOptions, keep func(o model.Offset) bool) error {
	all, eachErr := recordsOf(b)
	out, kept, err := f.Append([]byte("front"), b, o, func(g *Glance) bool { return keep(g.Offset) })
	if (err != nil) != (eachErr != nil) {
		return fmt.Errorf("filter: %v, each: %v", err, eachErr)
	}
	if !bytes.HasPrefix(out, []byte("front")) {
		return errors.New("what stood there before is gone")
	}
	out = out[len("front"):]
	if err != nil {
		if len(out) > 0 {
			return errors.New("a batch in spite of an error")
		}
		return nil
	}
	want := slices.DeleteFunc(slices.Clone(all), func(r plainRecord) bool { return !keep(r.offset) })
	if int(kept.Records) != len(want) || int(kept.Dropped) != len(all)-len(want) {
		return fmt.Errorf("kept %+v, want %d of %d", kept, len(want), len(all))
	}
	if len(want) == 0 {
		if len(out) > 0 {
			return errors.New("an empty batch was written")
		}
		return checkEmpty(b)
	}
	n := Batch(out)
	if err := errors.Join(n.CheckHeader(), n.CheckCRC()); err != nil {
		return err
	}
	if n.BaseOffset() != b.BaseOffset() || n.LastOffset() != b.LastOffset() || n.LeaderEpoch() != b.LeaderEpoch() ||
		n.ProducerID() != b.ProducerID() || n.ProducerEpoch() != b.ProducerEpoch() || n.BaseSequence() != b.BaseSequence() ||
		n.Codec() != b.Codec() || n.TimestampType() != b.TimestampType() || n.IsTransactional() != b.IsTransactional() || n.IsControl() != b.IsControl() {
		return fmt.Errorf("header %x, was %x", []byte(n[:HeaderSize]), []byte(b[:HeaderSize]))
	}
	got, err := recordsOf(n)
	if err != nil || !slices.EqualFunc(got, want, func(a, b plainRecord) bool { return a.same(&b) }) {
		return fmt.Errorf("records %v, want %v; %v", got, want, err)
	}
	tombs := int32(0)
	for _, r := range want {
		if r.value == nil {
			tombs++
		}
	}
	mark := (tombs > 0 || o.Mark) && !b.HasDeleteHorizon()
	if n.HasDeleteHorizon() != (mark || b.HasDeleteHorizon()) || mark && n.BaseTimestamp() != o.Horizon || !mark && n.BaseTimestamp() != b.BaseTimestamp() {
		return fmt.Errorf("horizon %v at %d; %d tombstones", n.HasDeleteHorizon(), n.BaseTimestamp(), tombs)
	}
	if kept.Dropped == 0 && !mark && !bytes.Equal(n, b) {
		return errors.New("a batch that keeps all was changed")
	}
	return nil
}

func checkEmpty(b Batch) error {
	n := Batch(AppendEmpty(nil, b))
	if err := errors.Join(n.CheckHeader(), n.CheckCRC()); err != nil {
		return err
	}
	if len(n) != HeaderSize || n.Count() != 0 || n.LastOffset() != b.LastOffset() || n.LastSequence() != b.LastSequence() ||
		n.MaxTimestamp() != b.MaxTimestamp() || n.Codec() != compress.None || n.HasDeleteHorizon() || n.IsControl() != b.IsControl() {
		return fmt.Errorf("empty header %x of %x", []byte(n), []byte(b[:HeaderSize]))
	}
	return nil
}

func TestFilter(t *testing.T) {
	var f Filter
	r := rand.New(rand.NewPCG(1, 9))
	for i := range 3000 {
		o := Options{Codec: codecs[r.IntN(len(codecs))], BaseOffset: model.Offset(r.IntN(1000)), LeaderEpoch: 4, ProducerID: model.ProducerID(r.IntN(3)), BaseSequence: 9}
		if r.IntN(4) == 0 {
			o.TimestampType, o.AppendTime = LogAppendTime, 12345
		}
		b := NewBuilder(o)
		for range 1 + r.IntN(9) {
			var key, value []byte
			if r.IntN(5) > 0 {
				key = make([]byte, r.IntN(300))
			}
			if r.IntN(3) > 0 {
				value = bytes.Repeat([]byte{byte(i)}, r.IntN(100)*r.IntN(100))
			}
			var hs []Header
			if r.IntN(4) == 0 {
				hs = append(hs, Header{Key: []byte("h"), Value: []byte("v")})
			}
			b.AppendAt(b.next+int32(r.IntN(3)), model.Timestamp(1_700_000_000_000+r.Int64N(1e9)), key, value, hs...)
		}
		b.SetLastOffsetDelta(b.next + int32(r.IntN(4)))
		batch := b.Build()
		keep := map[model.Offset]bool{}
		pct := []int{0, 20, 50, 90, 100}[r.IntN(5)]
		for d := range model.Offset(100) {
			keep[batch.BaseOffset()+d] = r.IntN(100) < pct
		}
		opts := FilterOptions{Horizon: model.Timestamp(1_800_000_000_000 + r.Int64N(1000)), Mark: r.IntN(5) == 0}
		if err := checkFilter(&f, batch, opts, func(o model.Offset) bool { return keep[o] }); err != nil {
			t.Fatalf("batch %d: %v", i, err)
		}
		// What came out once goes through again.
		if again, kept, err := f.Append(nil, batch, opts, func(g *Glance) bool { return keep[g.Offset] }); err == nil && kept.Records > 0 {
			opts.Horizon++
			if err := checkFilter(&f, Batch(bytes.Clone(again)), opts, func(o model.Offset) bool { return o%2 == 0 }); err != nil {
				t.Fatalf("batch %d, again: %v", i, err)
			}
		}
	}
}

// The timestamps of a compacted batch reach into the far past and future.
func TestFilterTimestamps(t *testing.T) {
	var f Filter
	for _, ts := range []model.Timestamp{0, -1, 1, 1 << 40, -(1 << 40), 1<<62 - 1} {
		b := NewBuilder(Options{})
		b.Append(ts, []byte("k"), nil)
		b.Append(ts+5, []byte("l"), []byte("v"))
		for _, horizon := range []model.Timestamp{0, 1 << 41} {
			if err := checkFilter(&f, b.Build(), FilterOptions{Horizon: horizon}, func(model.Offset) bool { return true }); err != nil {
				t.Errorf("timestamp %d, horizon %d: %v", ts, horizon, err)
			}
		}
	}
}

func TestGlanceCostsNoAllocation(t *testing.T) {
	b := simple(5)
	n := 0
	if a := testing.AllocsPerRun(100, func() {
		_ = b.EachGlance(0, func(g *Glance) error { n += len(g.Key); return nil })
	}); a > 3 {
		t.Errorf("%v allocations", a)
	}
}

// FuzzFilter: any bytes as the records of a batch. Filter refuses what Each
// refuses, and gives a batch of the records that stay.
func FuzzFilter(f *testing.F) {
	seeds(func(b []byte) { f.Add(b, uint64(0x5555), int64(1<<40), false) })
	f.Fuzz(func(t *testing.T, in []byte, keep uint64, horizon int64, mark bool) {
		b := fixed(in)
		if len(b) < HeaderSize || b.CheckHeader() != nil {
			return
		}
		var flt Filter
		o := FilterOptions{Limit: 1 << 20, Horizon: model.Timestamp(horizon), Mark: mark}
		if err := checkFilter(&flt, b, o, func(o model.Offset) bool { return keep>>(uint64(o)%64)&1 != 0 }); err != nil {
			t.Fatal(err)
		}
	})
}
