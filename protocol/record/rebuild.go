package record

import (
	"encoding/binary"
	"errors"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/compress"
)

// rebuild writes the records of b, which s has walked, as a new batch in the
// target codec: offset deltas count from 0, timestamps count from the first
// record's, and the producer's fields and the transactional bit are kept. It
// streams: no more than a window of records is held decompressed.
func rebuild(b Batch, r *Rules, s *scan) (Prepared, *Rejection) {
	limit := 0
	if r.MaxBatchBytes > 0 {
		limit = int(r.MaxBatchBytes)
	}
	codec := r.target(b)
	out, err := recode(b, codec, r, s, limit)
	if errors.Is(err, compress.ErrTooLarge) || err == nil && r.tooLarge(len(out)) {
		return Prepared{}, reject(CodeMessageTooLarge, "batch of %d bytes, rebuilt with codec %s, passes the limit of %d", len(b), codec, r.MaxBatchBytes)
	}
	if err != nil {
		return Prepared{}, reject(CodeUnknownServerError, "rebuilding a batch: %v", err)
	}
	n := Batch(out)
	copy(n, b[:HeaderSize])
	binary.BigEndian.PutUint32(n[posLength:], uint32(len(n)-SizePrefix))
	n.setAttributes(int16(codec) | b.Attributes()&bitTransactional)
	binary.BigEndian.PutUint64(n[posBaseTimestamp:], uint64(s.first))
	n.setMaxTimestamp(model.Timestamp(s.max))
	n.setCRC()
	p := Prepared{Batch: n, Records: s.n, Owned: true}
	if r.TimestampType == LogAppendTime {
		p.hashTail()
	}
	return p, nil
}

// recode returns room for a header followed by b's records in the new codec.
func recode(b Batch, codec Codec, r *Rules, s *scan, limit int) ([]byte, error) {
	in, err := compress.NewReader(b.Codec(), b.Records(), r.decompressedMax())
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out, err := compress.NewWriter(codec, r.Level, make([]byte, HeaderSize, max(len(b), 512)), limit)
	if err != nil {
		return nil, err
	}
	w := recoder{in: in, out: out, shift: s.base - s.first}
	for i := range s.n {
		if err = w.record(i); err != nil {
			break
		}
	}
	batch, cerr := out.Close()
	if err == nil {
		err = cerr
	}
	return batch, err
}

// recoder copies records from in to out under new deltas.
type recoder struct {
	in    *compress.Reader
	out   *compress.Writer
	shift int64 // added to each timestamp delta
	front []byte
}

// record copies the next record, as number i.
func (w *recoder) record(i int32) error {
	win, err := w.in.Peek(headMax)
	if len(win) == 0 {
		return endError(err, whyEnd)
	}
	var h head
	if why := readHead(win, &h); why != "" {
		return &CorruptError{Why: why}
	}
	delta := h.timestampDelta + w.shift
	rest := h.size - h.body // from the key's length on, copied as it is
	size := 1 + varintSize(delta) + varintSize(int64(i)) + rest
	w.front = appendVarint(w.front[:0], int64(size))
	w.front = append(w.front, 0) // attributes
	w.front = appendVarint(w.front, delta)
	w.front = appendVarint(w.front, int64(i))
	if _, err := w.out.Write(w.front); err != nil {
		return err
	}
	w.in.Advance(h.body)
	for rest > 0 {
		win, err := w.in.Peek(1)
		if len(win) == 0 {
			return endError(err, whyEnd)
		}
		n := min(rest, len(win))
		if _, err := w.out.Write(win[:n]); err != nil {
			return err
		}
		w.in.Advance(n)
		rest -= n
	}
	return nil
}
