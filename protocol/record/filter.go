package record

import (
	"encoding/binary"
	"fmt"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/compress"
)

// Glance is what compaction looks at in a record. Key is valid only until the
// function that was given the Glance returns.
type Glance struct {
	Offset    model.Offset
	Timestamp model.Timestamp
	Key       []byte // nil means null; an empty key is not nil
	// Tombstone: the value is null.
	Tombstone bool
}

// EachGlance is Each for those who need no values: it reads a record's key and
// checks its structure. It allocates nothing for an uncompressed batch.
func (b Batch) EachGlance(limit int64, fn func(g *Glance) error) error {
	return b.eachRaw(limit, func(_ []byte, _ *head, g *Glance) error { return fn(g) })
}

// eachRaw calls fn with the bytes of every record, and what stands in them.
func (b Batch) eachRaw(limit int64, fn func(raw []byte, h *head, g *Glance) error) error {
	if b.Count() == 0 {
		return nil
	}
	if b.Codec() == compress.None {
		return b.eachPlain(fn)
	}
	in, err := compress.NewReader(b.Codec(), b.Records(), limit)
	if err != nil {
		return &CorruptError{Why: err.Error()}
	}
	defer in.Close()
	w := walker{batch: b, in: in}
	var h head
	var g Glance
	for i := range b.Count() {
		raw, err := w.next()
		if err != nil {
			return fmt.Errorf("record %d of %d: %w", i, b.Count(), err)
		}
		if why := b.glance(raw, &h, &g); why != "" {
			return fmt.Errorf("record %d of %d: %w", i, b.Count(), &CorruptError{Why: why})
		}
		if err := fn(raw, &h, &g); err != nil {
			return err
		}
		in.Advance(w.shown)
	}
	rest, err := in.Peek(1)
	if len(rest) > 0 {
		return &CorruptError{Why: whyTrailing}
	}
	return endError(err, "")
}

// eachPlain is eachRaw for an uncompressed batch.
func (b Batch) eachPlain(fn func(raw []byte, h *head, g *Glance) error) error {
	rest := b.Records()
	var h head
	var g Glance
	for i := range b.Count() {
		size, _, why := readSize(rest)
		if why == "" && size > len(rest) {
			why = whyEnd
		}
		if why == "" {
			why = b.glance(rest[:size], &h, &g)
		}
		if why != "" {
			return fmt.Errorf("record %d of %d: %w", i, b.Count(), &CorruptError{Why: why})
		}
		if err := fn(rest[:size], &h, &g); err != nil {
			return err
		}
		rest = rest[size:]
	}
	if len(rest) > 0 {
		return &CorruptError{Why: whyTrailing}
	}
	return nil
}

// glance fills h and g from the bytes of one record.
func (b Batch) glance(raw []byte, h *head, g *Glance) (why string) {
	if why := readHead(raw, h); why != "" {
		return why
	}
	if why := readTail(raw, h); why != "" {
		return why
	}
	g.Offset = b.BaseOffset() + model.Offset(h.offsetDelta)
	g.Timestamp = b.timestamp(h.timestampDelta)
	var i int
	g.Key, i = field(raw, h.body)
	n, _ := varint32(raw, i)
	g.Tombstone = n < 0
	return ""
}

// FilterOptions say what Filter does beside keeping and dropping.
type FilterOptions struct {
	// Limit bounds what a batch may decompress to; ≤ 0: no cap.
	Limit int64
	// Horizon is the delete horizon that a batch gets that has none, if it keeps
	// a tombstone or Mark is set. Source: KIP-534.
	Horizon model.Timestamp
	// Mark gives a batch a horizon also without a tombstone.
	Mark bool
}

// Filter copies batches without some of their records. It keeps its memory from
// batch to batch, about the size of the largest one decompressed. The zero value
// is ready for use.
type Filter struct {
	kept  []byte // the records that stay, as they were
	again []byte // the same under another base timestamp
	front []byte
}

// Kept counts what is left of a batch.
type Kept struct {
	Records, Dropped int32
	// Tombstones are those among Records with a null value.
	Tombstones int32
}

// Append appends to dst what keep leaves of b, and returns it with what is left.
// Base offset, last offset, epoch, producer and sequences stay, so that offsets
// and duplicates are judged as before; of a batch with CreateTime the greatest
// timestamp becomes that of the records that are left. When no record is left,
// dst is returned as it was: see AppendEmpty. Undecodable bytes are a
// *CorruptError.
func (f *Filter) Append(dst []byte, b Batch, o FilterOptions, keep func(g *Glance) bool) ([]byte, Kept, error) {
	var k Kept
	plain := b.Codec() == compress.None
	newest := model.NoTimestamp
	f.kept = f.kept[:0]
	err := b.eachRaw(o.Limit, func(raw []byte, _ *head, g *Glance) error {
		if !keep(g) {
			if k.Dropped == 0 && plain {
				// All before it stayed, and stood there in one piece.
				f.kept = append(f.kept, b.Records()[:plainBefore(b, raw)]...)
			}
			k.Dropped++
			return nil
		}
		k.Records++
		if g.Tombstone {
			k.Tombstones++
		}
		newest = max(newest, g.Timestamp)
		if !plain || k.Dropped > 0 {
			f.kept = append(f.kept, raw...)
		}
		return nil
	})
	if err != nil || k.Records == 0 {
		return dst, k, err
	}
	mark := (k.Tombstones > 0 || o.Mark) && !b.HasDeleteHorizon()
	if k.Dropped == 0 && !mark {
		return append(dst, b...), k, nil
	}
	kept := f.kept
	if plain && k.Dropped == 0 {
		kept = b.Records()
	}
	if mark {
		if kept, err = f.rebase(kept, k.Records, int64(b.BaseTimestamp())-int64(o.Horizon)); err != nil {
			return dst, k, err
		}
	}
	at := len(dst)
	dst = append(dst, b[:HeaderSize]...)
	if dst, err = compress.Compress(dst, b.Codec(), 0, kept); err != nil {
		return dst[:at], k, err
	}
	n := Batch(dst[at:])
	binary.BigEndian.PutUint32(n[posLength:], uint32(len(n)-SizePrefix))
	binary.BigEndian.PutUint32(n[posCount:], uint32(k.Records))
	if mark {
		n.setAttributes(n.Attributes() | bitDeleteHorizon)
		binary.BigEndian.PutUint64(n[posBaseTimestamp:], uint64(o.Horizon))
	}
	if b.TimestampType() == CreateTime {
		n.setMaxTimestamp(newest)
	}
	n.setCRC()
	return dst, k, nil
}

// plainBefore returns how many bytes of an uncompressed batch's records lie
// before one of them.
func plainBefore(b Batch, raw []byte) int { return cap(b.Records()) - cap(raw) }

// rebase writes records anew under a base timestamp that is by shift less than
// the one that they count from.
func (f *Filter) rebase(recs []byte, n int32, shift int64) ([]byte, error) {
	f.again = f.again[:0]
	var h head
	for range n {
		if why := readHead(recs, &h); why != "" {
			return nil, &CorruptError{Why: why}
		}
		delta := h.timestampDelta + shift
		f.front = append(f.front[:0], 0) // attributes
		f.front = appendVarint(f.front, delta)
		f.front = appendVarint(f.front, int64(h.offsetDelta))
		f.again = appendVarint(f.again, int64(len(f.front)+h.size-h.body))
		f.again = append(f.again, f.front...)
		f.again = append(f.again, recs[h.body:h.size]...)
		recs = recs[h.size:]
	}
	return f.again, nil
}

// AppendEmpty appends b without its records: what tells its offsets, its epoch
// and its producer's place. Kafka leaves the same.
func AppendEmpty(dst []byte, b Batch) []byte {
	at := len(dst)
	dst = append(dst, b[:HeaderSize]...)
	n := Batch(dst[at:])
	binary.BigEndian.PutUint32(n[posLength:], HeaderSize-SizePrefix)
	n.setAttributes(b.Attributes() & (bitLogAppendTime | bitTransactional | bitControl))
	noTime := model.NoTimestamp
	binary.BigEndian.PutUint64(n[posBaseTimestamp:], uint64(noTime))
	binary.BigEndian.PutUint32(n[posCount:], 0)
	n.setCRC()
	return dst
}
