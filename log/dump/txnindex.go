package dump

import (
	"errors"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log/scan"
	"github.com/tidemark/tidemark/protocol/record"
)

// txnIndex shows a transaction index. Each entry is compared with the abort
// marker at its last offset.
func (d *dumper) txnIndex() (err error) {
	b, src, err := d.index()
	if err != nil {
		return err
	}
	w := d.walk(src)
	if src != nil {
		defer func() { err = errors.Join(err, src.Close()) }()
	}
	before := model.NoOffset
	return d.entries(b, scan.AbortedSize, false, func(i int, e []byte) error {
		t := scan.DecodeAborted(e)
		d.out.begin("txnEntry", "")
		d.out.num("version", int64(t.Version))
		d.out.num("producerId", int64(t.ProducerID))
		d.out.num("firstOffset", int64(t.First))
		d.out.num("lastOffset", int64(t.Last))
		d.out.num("lastStableOffset", int64(t.Stable))
		d.out.end()
		at := int64(i * scan.AbortedSize)
		if t.Version != 0 {
			d.out.found(at, "version %d, want 0", t.Version)
		}
		if t.Last <= before || t.First > t.Last || t.Last < d.name.base {
			d.out.found(at, "a marker at %d for a transaction from %d, after a marker at %d", t.Last, t.First, before)
			w = d.walk(src)
		}
		before = t.Last
		return d.matchMarker(w, at, t)
	})
}

func (d *dumper) matchMarker(w *scan.Walker, at int64, t scan.Aborted) error {
	if w == nil {
		return nil
	}
	f, ok, err := w.Seek(t.Last)
	if err != nil {
		return err
	}
	if !ok || f.BaseOffset() > t.Last {
		d.out.found(at, "no batch at offset %d", t.Last)
		return nil
	}
	m, ok, err := f.Marker()
	switch {
	case err != nil:
		d.out.found(at, "batch at offset %d: %s", t.Last, scan.Reason(err))
	case !ok || m.Type != record.Abort || f.ProducerID() != t.ProducerID || f.LastOffset() != t.Last:
		d.out.found(at, "batch at offset %d is no abort marker of producer %d", t.Last, t.ProducerID)
	}
	return nil
}
