package record

import (
	"bytes"
	"errors"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/compress"
)

func seeds(add func(b []byte)) {
	for _, c := range codecs {
		add(build(Options{Codec: c, ProducerID: 3}, 3))
		b := NewBuilder(Options{Codec: c})
		b.Append(5, nil, nil, Header{Key: []byte("k")}, Header{Key: []byte{}, Value: []byte("v")})
		b.AppendAt(9, 70, []byte{}, bytes.Repeat([]byte("x"), 300))
		add(b.Build())
	}
	m := NewBuilder(Options{Control: true, ProducerID: 1})
	m.AppendMarker(1, Marker{Commit, 2})
	add(m.Build())
	add(append(simple(2), simple(1)...))
}

// fixed repairs what a fuzzer can't guess: base offset, length and CRC.
func fixed(b []byte) Batch {
	if len(b) < HeaderSize {
		return b
	}
	n := Batch(bytes.Clone(b))
	put(n, posBaseOffset, 8, 0)
	put(n, posLength, 4, int64(len(n)-SizePrefix))
	n[posMagic] = Magic
	n.setCRC()
	return n
}

// FuzzBatch: nothing panics, and what Validate accepts, kmsg reads with the
// count that Validate told.
func FuzzBatch(f *testing.F) {
	seeds(func(b []byte) { f.Add(b, uint8(0)) })
	f.Fuzz(func(t *testing.T, b []byte, opts uint8) {
		r := DefaultRules(1 << 40)
		r.DecompressedMax = 1 << 20
		r.MaxBatchBytes = 1 << 20
		r.AfterMaxMs = 1 << 62
		r.Compacted = opts&1 != 0
		r.TimestampType = TimestampType(opts >> 1 & 1)
		if opts&4 != 0 {
			r.KeepCodec, r.Codec = false, Codec(opts>>3%5)
		}
		for _, in := range [][]byte{bytes.Clone(b), fixed(b)} {
			p, rej := Validate(in, &r)
			if rej != nil {
				if rej.Code == 0 || rej.Message == "" {
					t.Fatalf("rejection %+v", rej)
				}
				continue
			}
			if r.TimestampType == LogAppendTime {
				p.StampAppendTime(77)
			}
			Stamp(p.Batch, 1000, 3)
			if err := errors.Join(p.Batch.CheckHeader(), p.Batch.CheckCRC(), compareKmsg(p.Batch)); err != nil {
				t.Fatal(err)
			}
			if p.Records != p.Batch.Count() || p.Batch.NextOffset() != 1000+model.Offset(p.Records) || !r.KeepCodec && p.Batch.Codec() != r.Codec {
				t.Fatalf("%d records, header %x", p.Records, []byte(p.Batch[:HeaderSize]))
			}
			want := model.Offset(1000)
			if err := p.Batch.Each(0, func(rec *Record) error {
				if rec.Offset != want {
					return errors.New("offsets don't count up")
				}
				want++
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzRecords: any bytes as the records of a batch, raw and compressed by each
// codec. The walk over a slice, the walk over a stream and Each agree.
func FuzzRecords(f *testing.F) {
	for _, h := range hostileRecords() {
		if len(h.bytes) < 1000 {
			f.Add(h.bytes, h.count)
		}
	}
	seeds(func(b []byte) {
		if Batch(b).Codec() == compress.None {
			f.Add([]byte(Batch(b).Records()), Batch(b).Count())
		}
	})
	f.Fuzz(func(t *testing.T, raw []byte, count int32) {
		r := rules()
		r.MaxBatchBytes = 0
		var first *Rejection
		for i, c := range codecs {
			b := wrap(c, count, raw)
			p, rej := Validate(bytes.Clone(b), &r)
			if i == 0 {
				first = rej
			} else if (rej == nil) != (first == nil) || rej != nil && (rej.Code != first.Code || len(rej.Records) != len(first.Records)) {
				t.Fatalf("%s: %+v, uncompressed %+v", c, rej, first)
			}
			if b.CheckHeader() != nil {
				continue
			}
			eachErr := b.Each(0, func(*Record) error { return nil })
			if structural := rej != nil && rej.Records == nil; structural != (eachErr != nil) {
				t.Fatalf("%s: %+v, Each %v", c, rej, eachErr)
			}
			if rej == nil && p.Owned {
				if err := compareKmsg(p.Batch); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// FuzzIter: the batches it yields lie end to end from the start, each passes
// CheckHeader, and what is left is named.
func FuzzIter(f *testing.F) {
	seeds(func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, set []byte) {
		it := NewIter(set)
		at := 0
		for it.Next() {
			b := it.Batch()
			if it.Pos() != at || len(b) != b.Size() || b.CheckHeader() != nil || &b[0] != &set[at] {
				t.Fatalf("batch at %d, want %d", it.Pos(), at)
			}
			at += len(b)
			b.Marker()
			_ = b.Each(1<<16, func(*Record) error { return nil })
		}
		if it.Rest() != len(set)-at || it.Pos() != at {
			t.Fatalf("rest %d of %d, at %d", it.Rest(), len(set), at)
		}
		if it.Err() == nil && it.Rest() >= SizePrefix && SizeOf(set[at:]) <= int64(it.Rest()) {
			t.Fatalf("a whole batch at %d is passed over", at)
		}
	})
}
