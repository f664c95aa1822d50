package record

import (
	"fmt"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/compress"
)

// Header is one of a record's headers. Value nil means null. Source: KIP-82.
type Header struct {
	Key   []byte
	Value []byte
}

// Record is one record of a batch. Its slices and Headers are valid only until
// the function that was given the record returns.
type Record struct {
	Offset    model.Offset
	Timestamp model.Timestamp
	Key       []byte // nil means null; an empty key is not nil
	Value     []byte // nil means null, which is a tombstone on a compacted topic
	Headers   []Header
}

// Each calls fn for every record in order and stops at fn's first error, which
// it returns. Compressed records are decompressed by streaming, at most limit
// bytes in all (≤ 0: no cap): beyond that the error wraps
// compress.ErrTooLarge. Undecodable bytes are a *CorruptError. The batch must
// have passed CheckHeader.
func (b Batch) Each(limit int64, fn func(r *Record) error) error {
	if b.Count() == 0 {
		return nil // compaction has emptied it: there is no stream either
	}
	in, err := compress.NewReader(b.Codec(), b.Records(), limit)
	if err != nil {
		return &CorruptError{Why: err.Error()}
	}
	defer in.Close()
	w := walker{batch: b, in: in}
	for i := range b.Count() {
		raw, err := w.next()
		if err != nil {
			return fmt.Errorf("record %d of %d: %w", i, b.Count(), err)
		}
		if why := w.decode(raw); why != "" {
			return fmt.Errorf("record %d of %d: %w", i, b.Count(), &CorruptError{Why: why})
		}
		if err := fn(&w.rec); err != nil {
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

// walker is the state of one Each.
type walker struct {
	batch Batch
	in    *compress.Reader
	shown int    // bytes of the window that the current record takes
	spill []byte // a record that no window holds
	rec   Record
}

// next returns the bytes of the next record, from the window if it fits.
func (w *walker) next() ([]byte, error) {
	win, err := w.in.Peek(5)
	if len(win) == 0 {
		return nil, endError(err, whyEnd)
	}
	size, _, why := readSize(win)
	if why != "" {
		return nil, &CorruptError{Why: why}
	}
	fits := size <= compress.WindowSize || w.batch.Codec() == compress.None
	if len(win) < size && fits {
		win, err = w.in.Peek(size)
	}
	switch {
	case len(win) >= size:
		w.shown = size
		return win[:size], nil
	case fits:
		return nil, endError(err, whyEnd)
	}
	w.shown = 0
	return w.collect(size)
}

// collect copies a record that is larger than the window. The buffer grows
// with the bytes that arrive, not with what the record's length claims.
func (w *walker) collect(size int) ([]byte, error) {
	w.spill = w.spill[:0]
	for len(w.spill) < size {
		win, err := w.in.Peek(1)
		if len(win) == 0 {
			return nil, endError(err, whyEnd)
		}
		n := min(len(win), size-len(w.spill))
		w.spill = append(w.spill, win[:n]...)
		w.in.Advance(n)
	}
	return w.spill, nil
}

// decode fills w.rec from one whole record.
func (w *walker) decode(raw []byte) (why string) {
	var h head
	if why := readHead(raw, &h); why != "" {
		return why
	}
	if why := readTail(raw, &h); why != "" {
		return why
	}
	r := &w.rec
	r.Offset = w.batch.BaseOffset() + model.Offset(h.offsetDelta)
	r.Timestamp = w.batch.timestamp(h.timestampDelta)
	var i int
	r.Key, i = field(raw, h.body)
	r.Value, i = field(raw, i)
	n, i := varint32(raw, i)
	r.Headers = r.Headers[:0]
	for ; n > 0; n-- {
		var hd Header
		hd.Key, i = field(raw, i)
		hd.Value, i = field(raw, i)
		r.Headers = append(r.Headers, hd)
	}
	return ""
}

// timestamp is that of a record with the given delta.
func (b Batch) timestamp(delta int64) model.Timestamp {
	if b.TimestampType() == LogAppendTime {
		return b.MaxTimestamp()
	}
	return b.BaseTimestamp() + model.Timestamp(delta)
}

// field cuts a length-prefixed field out of a record that readTail has walked.
func field(b []byte, i int) ([]byte, int) {
	n, i := varint32(b, i)
	if n < 0 {
		return nil, i
	}
	end := i + int(n)
	return b[i:end:end], end
}

// endError is what a reader's error means where more bytes were needed: an
// orderly end is corruption named why, or nothing if why is empty.
func endError(err error, why string) error {
	switch {
	case isEOF(err) && why == "":
		return nil
	case isEOF(err):
		return &CorruptError{Why: why}
	case isTooLarge(err):
		return err
	}
	return &CorruptError{Why: err.Error()}
}
