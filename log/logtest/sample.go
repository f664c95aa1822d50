package logtest

import (
	"bytes"
	"fmt"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/protocol/record"
)

// Sample makes, in a directory of that name, the log of a partition that has
// every kind of file: several segments with their indexes and seals, all codecs,
// three leader epochs, committed and aborted transactions, producer snapshots,
// and a clean end.
func Sample(fs vfs.FS, dir string) error {
	now := model.Now{Wall: 1_700_000_000_000}
	l, _, err := log.Open(log.Options{
		FS: fs, Dir: dir, Partition: model.TopicPartition{Topic: "t"}, Now: now,
		Config: log.Config{SegmentBytes: 700, IndexBytes: 1000, IndexIntervalBytes: 0},
	})
	if err != nil {
		return err
	}
	add := func(o record.Options, fill func(b *record.Builder)) {
		o.BaseOffset = l.LogEnd()
		b := record.NewBuilder(o)
		fill(b)
		if err == nil {
			_, err = l.Append(now, b.Build())
		}
		now.Wall += 10
	}
	for i := range 30 {
		plain := record.Options{LeaderEpoch: model.LeaderEpoch(i / 10), Codec: record.Codec(i % 5)}
		add(plain, func(b *record.Builder) {
			for j := range 3 {
				b.Append(now.Wall, fmt.Appendf(nil, "k%d", j), bytes.Repeat([]byte("v"), 20))
			}
		})
		txn := record.Options{
			LeaderEpoch: plain.LeaderEpoch, ProducerID: 7, BaseSequence: model.Sequence(i), Transactional: true,
		}
		add(txn, func(b *record.Builder) { b.Append(now.Wall, nil, []byte("t")) })
		if i%3 == 2 {
			end := record.Marker{Type: record.Abort}
			if i%6 == 2 {
				end.Type = record.Commit
			}
			txn.Control, txn.BaseSequence = true, model.NoSequence
			add(txn, func(b *record.Builder) { b.AppendMarker(now.Wall, end) })
		}
	}
	if err != nil {
		return err
	}
	return l.Close(true)
}
