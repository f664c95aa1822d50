package dump

import (
	"errors"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log/scan"
	"github.com/tidemark/tidemark/protocol/record"
)

// segment shows the batches of a segment or of a metadata snapshot.
func (d *dumper) segment() (err error) {
	src, err := scan.Open(d.fs, d.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	if d.name.epoch == model.NoEpoch {
		d.cutOff(src.Size())
	}
	// A metadata snapshot has offsets of its own, below the one in its name.
	floor := d.name.base - 1
	if d.name.epoch != model.NoEpoch {
		floor = -1
	}
	s := shown{last: floor, epoch: model.NoEpoch}
	w := scan.NewWalker(src, floor)
	w.Skipped = func(pos, n int64, why string) { d.skipped(src, pos, n, why) }
	for {
		f, ok, err := w.Next()
		if err != nil || !ok {
			return err
		}
		d.batch(f)
		d.judge(f, &s)
		if d.deep {
			d.records(f)
		}
	}
}

// skipped tells of bytes that are no batch.
func (d *dumper) skipped(src *scan.Source, pos, n int64, why string) {
	switch {
	case pos+n < src.Size():
		d.out.found(pos, "%s; %d bytes skipped", why, n)
	case src.Zeros(pos):
		d.out.found(pos, "%d zero bytes at the end", n)
	default:
		d.out.found(pos, "%d invalid bytes at the end: %s", n, why)
	}
}

// batch shows the header of a batch.
func (d *dumper) batch(f scan.Placed) {
	p := &d.out
	p.begin("batch", "")
	p.num("baseOffset", int64(f.BaseOffset()))
	p.num("lastOffset", int64(f.LastOffset()))
	p.num("count", int64(f.Count()))
	p.num("baseSequence", int64(f.BaseSequence()))
	p.num("lastSequence", int64(f.LastSequence()))
	p.num("producerId", int64(f.ProducerID()))
	p.num("producerEpoch", int64(f.ProducerEpoch()))
	p.num("partitionLeaderEpoch", int64(f.LeaderEpoch()))
	p.flag("isTransactional", f.IsTransactional())
	p.flag("isControl", f.IsControl())
	p.optional("deleteHorizonMs", int64(f.BaseTimestamp()), f.HasDeleteHorizon())
	p.num("position", f.Pos)
	p.time(f.TimestampType(), f.MaxTimestamp())
	p.num("size", int64(len(f.Batch)))
	p.num("magic", int64(f.Magic()))
	p.str("compresscodec", f.Codec().String())
	p.num("crc", int64(f.CRC()))
	p.flag("isvalid", f.Valid)
	p.end()
}

// time writes a timestamp under the name of its type, as Kafka does in text.
func (p *printer) time(t record.TimestampType, ts model.Timestamp) {
	if p.json {
		p.str("timestampType", t.String())
		p.num("timestamp", int64(ts))
		return
	}
	p.num(t.String(), int64(ts))
}

// shown is what a batch is compared with.
type shown struct {
	last  model.Offset // last offset of the batch before
	epoch model.LeaderEpoch
	any   bool
}

// judge tells what is wrong with a batch and its place.
func (d *dumper) judge(f scan.Placed, s *shown) {
	switch {
	case !f.Valid:
		d.out.found(f.Pos, "crc is %d, bytes hash to %d", f.CRC(), f.Sum)
	case f.BaseOffset() <= s.last && s.any:
		d.out.found(f.Pos, "base offset %d is not above %d, the last offset before it", f.BaseOffset(), s.last)
	case f.BaseOffset() <= s.last:
		d.out.found(f.Pos, "base offset %d is below the segment's base %d", f.BaseOffset(), s.last+1)
	case f.BaseOffset() > s.last+1 && s.any:
		d.out.note(f.Pos, "offset %d is followed by %d", s.last, f.BaseOffset())
	}
	if !f.Valid {
		return // nothing in it can be trusted
	}
	if f.LeaderEpoch() < s.epoch {
		d.out.found(f.Pos, "leader epoch %d follows %d", f.LeaderEpoch(), s.epoch)
	}
	s.last, s.epoch, s.any = max(s.last, f.LastOffset()), max(s.epoch, f.LeaderEpoch()), true
}
