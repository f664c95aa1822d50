package dump

import (
	"encoding/binary"
	"errors"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// abortedTxn is one entry of a transaction index.
type abortedTxn struct {
	version             int16
	producer            model.ProducerID
	first, last, stable model.Offset
}

func decodeAborted(e []byte) abortedTxn {
	be := binary.BigEndian
	return abortedTxn{
		version:  int16(be.Uint16(e)),
		producer: model.ProducerID(be.Uint64(e[2:])),
		first:    model.Offset(be.Uint64(e[10:])),
		last:     model.Offset(be.Uint64(e[18:])),
		stable:   model.Offset(be.Uint64(e[26:])),
	}
}

// txnIndex shows a transaction index. Each entry is compared with the abort
// marker at its last offset.
func (d *dumper) txnIndex() (err error) {
	b, src, err := d.index()
	if err != nil {
		return err
	}
	w := &walker{src: src, last: d.name.base - 1}
	if src != nil {
		defer func() { err = errors.Join(err, src.close()) }()
	}
	before := model.NoOffset
	return d.entries(b, txnEntrySize, false, func(i int, e []byte) error {
		t := decodeAborted(e)
		d.out.begin("txnEntry", "")
		d.out.num("version", int64(t.version))
		d.out.num("producerId", int64(t.producer))
		d.out.num("firstOffset", int64(t.first))
		d.out.num("lastOffset", int64(t.last))
		d.out.num("lastStableOffset", int64(t.stable))
		d.out.end()
		at := int64(i * txnEntrySize)
		if t.version != 0 {
			d.out.found(at, "version %d, want 0", t.version)
		}
		if t.last <= before || t.first > t.last || t.last < d.name.base {
			d.out.found(at, "a marker at %d for a transaction from %d, after a marker at %d", t.last, t.first, before)
			w = &walker{src: src, last: d.name.base - 1}
		}
		before = t.last
		return d.matchMarker(w, at, t)
	})
}

func (d *dumper) matchMarker(w *walker, at int64, t abortedTxn) error {
	if w.src == nil {
		return nil
	}
	f, ok, err := w.seek(t.last)
	if err != nil {
		return err
	}
	if !ok || f.BaseOffset() > t.last {
		d.out.found(at, "no batch at offset %d", t.last)
		return nil
	}
	m, ok, err := f.Marker()
	switch {
	case err != nil:
		d.out.found(at, "batch at offset %d: %s", t.last, reason(err))
	case !ok || m.Type != record.Abort || f.ProducerID() != t.producer || f.LastOffset() != t.last:
		d.out.found(at, "batch at offset %d is no abort marker of producer %d", t.last, t.producer)
	}
	return nil
}
