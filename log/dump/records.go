package dump

import (
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log/scan"
	"github.com/tidemark/tidemark/protocol/record"
)

// records shows the records of a batch as far as they can be decoded.
func (d *dumper) records(f scan.Placed) {
	last := f.BaseOffset() - 1
	err := f.Each(record.DefaultDecompressedMax, func(r *record.Record) error {
		d.record(f, r)
		if r.Offset <= last || r.Offset > f.LastOffset() {
			d.out.found(f.Pos, "record at offset %d follows %d in a batch of %d to %d",
				r.Offset, last, f.BaseOffset(), f.LastOffset())
		}
		last = r.Offset
		return nil
	})
	if err != nil {
		d.out.found(f.Pos, "records: %s", scan.Reason(err))
	}
}

func (d *dumper) record(f scan.Placed, r *record.Record) {
	p := &d.out
	p.begin("record", "| ")
	p.num("offset", int64(r.Offset))
	p.time(f.TimestampType(), r.Timestamp)
	p.num("keySize", size(r.Key))
	p.num("valueSize", size(r.Value))
	seq := model.NoSequence
	if base := f.BaseSequence(); base >= 0 {
		seq = base.Add(int32(r.Offset - f.BaseOffset()))
	}
	p.num("sequence", int64(seq))
	keys := make([]string, len(r.Headers))
	for i, h := range r.Headers {
		keys[i] = textOf(h.Key)
	}
	p.names("headerKeys", keys)
	switch {
	case f.IsControl():
		d.control(r)
	case d.data && d.ofGroups() && d.group(r):
	case d.data:
		if r.Key != nil {
			p.bytes("key", r.Key)
		}
		if r.Value != nil {
			p.bytes("payload", r.Value)
		}
	}
	p.end()
}

// control shows what a control record says.
func (d *dumper) control(r *record.Record) {
	m, ok, err := record.DecodeMarker(r.Key, r.Value)
	switch {
	case err != nil:
		d.out.str("controlError", scan.Reason(err))
	case ok:
		d.out.str("endTxnMarker", m.Type.String())
		d.out.num("coordinatorEpoch", int64(m.CoordinatorEpoch))
	default:
		d.out.str("controlType", m.Type.String())
	}
}

// size is that of a field, −1 for null.
func size(b []byte) int64 {
	if b == nil {
		return -1
	}
	return int64(len(b))
}
