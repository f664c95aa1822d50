package verify

import (
	"errors"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/log/producer"
	"github.com/tidemark/tidemark/log/scan"
)

// readEpochs reads the leader epoch file.
func (p *pass) readEpochs() error {
	const file = checkpoint.EpochFile
	if !p.names[file] {
		return nil
	}
	list, err := checkpoint.ReadEpochs(p.fs, p.path(file))
	var bad *checkpoint.FormatError
	if err != nil && !errors.As(err, &bad) {
		return err
	}
	if err == nil {
		p.stored, err = epoch.New(list)
	}
	if err != nil {
		p.found.add(Derived, file, -1, model.NoOffset, "%v", err)
	}
	return nil
}

// epochOf compares the epoch file with one batch. What lies before its first
// entry it may have forgotten, since that was deleted; where the log starts inside
// a batch, the first entry does as well.
func (p *pass) epochOf(f scan.Placed) {
	if p.stored == nil || p.wrong || f.LeaderEpoch() < 0 {
		return
	}
	switch e, ok := p.stored.EpochFor(f.BaseOffset()); {
	case !ok:
		first, some := p.stored.Earliest()
		p.wrong = !some || f.LastOffset() >= first.Start && first.Epoch != f.LeaderEpoch()
	default:
		p.wrong = e != f.LeaderEpoch()
	}
	if p.wrong {
		p.found.add(Derived, checkpoint.EpochFile, -1, f.BaseOffset(), "it disagrees with batch [%d, %d] of epoch %d",
			f.BaseOffset(), f.LastOffset(), f.LeaderEpoch())
	}
}

// epochsAtEnd tells of an epoch file that is missing, or reaches too far.
func (p *pass) epochsAtEnd() {
	const file = checkpoint.EpochFile
	if p.stored == nil {
		if p.report.Batches > 0 && p.lastEpoch >= 0 && !p.names[file] {
			p.found.add(Derived, file, -1, p.report.Start, "missing")
		}
		return
	}
	if last, ok := p.stored.Latest(); ok && last.Start > p.report.End {
		p.found.add(Derived, file, -1, last.Start, "epoch %d begins above the log's end, %d", last.Epoch, p.report.End)
	}
}

// snapshotsBelow compares the producer snapshots at offsets below o with what the
// batches below them have made of the producers.
func (p *pass) snapshotsBelow(o model.Offset) error {
	for len(p.snapshots) > 0 && p.snapshots[0] < o {
		at := p.snapshots[0]
		p.snapshots = p.snapshots[1:]
		file := name(at, snapshotSuffix)
		b, ok, err := p.read(file)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		list, err := producer.ReadSnapshot(b)
		var bad *producer.SnapshotError
		if errors.As(err, &bad) {
			p.found.add(Derived, file, int64(bad.Pos), at, "%s", bad.Why)
			continue
		}
		for i := range list {
			p.producer(file, at, &list[i])
		}
	}
	return nil
}

// producer compares one entry of a snapshot. Producers that the batches don't
// show are not wrong: theirs may have been deleted, or compacted away. Nor are
// those that it has forgotten: they expire.
func (p *pass) producer(file string, at model.Offset, e *producer.Entry) {
	is, ok := p.producers.Lookup(e.ProducerID)
	switch {
	case !ok || is.LastOffset() < e.LastOffset():
	case is.LastOffset() > e.LastOffset() && is.LastOffset() < at,
		is.LastOffset() == e.LastOffset() && (is.Epoch != e.Epoch || is.LastSeq() != e.LastSeq()):
		p.found.add(Derived, file, -1, at, "producer %d: epoch %d, sequence %d at offset %d; the batches say epoch %d, sequence %d at %d",
			e.ProducerID, e.Epoch, e.LastSeq(), e.LastOffset(), is.Epoch, is.LastSeq(), is.LastOffset())
	}
}
