package compaction

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// TestTranscripts runs the stories of testdata. A story builds a log batch by
// batch and cleans it:
//
//	batch base=N [last=N] [pid=N epoch=N seq=N] [txn] [ts=N] [codec=N] [append-time]
//	  the records in the input: key=value, key (a tombstone), =value (no key)
//	marker base=N pid=N [epoch=N] commit|abort [ts=N]
//	clean [now=N] [retention=N] [from=N] [end=N] [slots=N]
//	  cleans what the log is, and tells what is left; producers are those of the
//	  whole log unless forget is given
//	reset
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var l story
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return l.run(t, d)
		})
	})
}

type story struct {
	batches []record.Batch
}

func num(d *datadriven.TestData, name string, fallback int64) int64 {
	for _, a := range d.CmdArgs {
		if a.Key == name && len(a.Vals) == 1 {
			var n int64
			if _, err := fmt.Sscan(a.Vals[0], &n); err != nil {
				panic(err)
			}
			return n
		}
	}
	return fallback
}

func (l *story) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "reset":
		l.batches = nil
	case "batch":
		l.batches = append(l.batches, batchOf(d))
	case "marker":
		o := record.Options{
			BaseOffset: model.Offset(num(d, "base", 0)), ProducerID: model.ProducerID(num(d, "pid", 0)), Idempotent: true,
			ProducerEpoch: model.ProducerEpoch(num(d, "epoch", 0)), BaseSequence: model.NoSequence, Transactional: true, Control: true,
		}
		b := record.NewBuilder(o)
		kind := record.Abort
		if d.HasArg("commit") {
			kind = record.Commit
		}
		b.AppendMarker(model.Timestamp(num(d, "ts", 0)), record.Marker{Type: kind})
		l.batches = append(l.batches, b.Build())
	case "clean":
		return l.clean(t, d)
	default:
		t.Fatalf("unknown command %s", d.Cmd)
	}
	return ""
}

func batchOf(d *datadriven.TestData) record.Batch {
	base := model.Offset(num(d, "base", 0))
	o := record.Options{
		BaseOffset: base, Codec: record.Codec(num(d, "codec", 0)), Transactional: d.HasArg("txn"),
		LeaderEpoch: model.LeaderEpoch(num(d, "leader", 0)),
	}
	if d.HasArg("pid") {
		o.Idempotent, o.ProducerID = true, model.ProducerID(num(d, "pid", 0))
		o.ProducerEpoch, o.BaseSequence = model.ProducerEpoch(num(d, "epoch", 0)), model.Sequence(num(d, "seq", 0))
	}
	ts := num(d, "ts", 100)
	if d.HasArg("append-time") {
		o.TimestampType, o.AppendTime = record.LogAppendTime, model.Timestamp(ts)
	}
	b := record.NewBuilder(o)
	for i, word := range strings.Fields(d.Input) {
		k, v, found := strings.Cut(word, "=")
		var key, value []byte
		if k != "" {
			key = []byte(k)
		}
		if found {
			value = []byte(v)
		}
		b.AppendAt(int32(i), model.Timestamp(ts+int64(i)), key, value)
	}
	if d.HasArg("last") {
		b.SetLastOffsetDelta(int32(num(d, "last", 0) - int64(base)))
	}
	return b.Build()
}

// clean runs both passes and replaces the log by what is left.
func (l *story) clean(t *testing.T, d *datadriven.TestData) string {
	end := l.batches[len(l.batches)-1].NextOffset()
	to := model.Offset(num(d, "end", int64(end)))
	c := cleaning{
		from: model.Offset(num(d, "from", 0)), to: to, slots: num(d, "slots", 1000),
		rules: Rules{
			Now: model.Timestamp(num(d, "now", 1000)), DeleteRetentionMs: num(d, "retention", 100), End: to,
			Producers: lastRecords(l.batches),
		},
	}
	if d.HasArg("forget") {
		c.rules.Producers = nil
	}
	left, pass, cleaned, err := c.clean(l.batches)
	if err != nil {
		return err.Error() + "\n"
	}
	l.batches = left
	var out strings.Builder
	for _, b := range left {
		show(&out, b)
	}
	fmt.Fprintf(&out, "cleaned to %d, %d of %d records left", cleaned, pass.Stats().RecordsKept, pass.Stats().Records)
	if n := pass.Stats().Keyless; n > 0 {
		fmt.Fprintf(&out, ", %d without key", n)
	}
	for _, a := range pass.TakeAborted() {
		fmt.Fprintf(&out, "\naborted: producer %d, %d to %d", a.ProducerID, a.First, a.Last)
	}
	out.WriteByte('\n')
	return out.String()
}

func show(out *strings.Builder, b record.Batch) {
	fmt.Fprintf(out, "[%d, %d]", b.BaseOffset(), b.LastOffset())
	if b.CheckHeader() != nil || b.CheckCRC() != nil {
		out.WriteString(" BAD")
	}
	if b.HasProducerID() {
		fmt.Fprintf(out, " p%d/%d seq %d", b.ProducerID(), b.ProducerEpoch(), b.BaseSequence())
	}
	if b.Codec() != 0 {
		fmt.Fprintf(out, " %s", b.Codec())
	}
	if b.IsTransactional() {
		out.WriteString(" txn")
	}
	fmt.Fprintf(out, " max %d", b.MaxTimestamp())
	if b.HasDeleteHorizon() {
		fmt.Fprintf(out, " until %d", b.BaseTimestamp())
	}
	out.WriteString(":")
	if b.Count() == 0 {
		out.WriteString(" empty")
	}
	if m, ok, _ := b.Marker(); ok {
		fmt.Fprintf(out, " %s\n", m.Type)
		return
	}
	err := b.Each(0, func(r *record.Record) error {
		fmt.Fprintf(out, " %d@%d:%s", r.Offset, r.Timestamp, r.Key)
		if r.Value != nil {
			fmt.Fprintf(out, "=%s", r.Value)
		}
		return nil
	})
	if err != nil {
		fmt.Fprintf(out, " %v", err)
	}
	out.WriteByte('\n')
}

// cleaning is both passes over batches in memory, as a cleaner runs them.
type cleaning struct {
	from, to model.Offset
	slots    int64
	rules    Rules
}

func (c *cleaning) clean(batches []record.Batch) (left []record.Batch, p *Pass, cleaned model.Offset, err error) {
	aborted := abortedIn(batches)
	m := NewOffsetMap(c.slots*SlotBytes, 0.9, Secret{5, 6})
	x := NewIndex(m, c.from, aborted)
	more := true
	for _, b := range batches {
		if b.LastOffset() < c.from || b.BaseOffset() >= c.to || !more {
			continue
		}
		if more, err = x.Batch(b); err != nil {
			return nil, nil, 0, err
		}
	}
	if more {
		m.Reached(c.to - 1)
	}
	p = NewPass(m, c.rules, aborted)
	for _, b := range batches {
		if b.BaseOffset() >= c.to {
			left = append(left, b)
			continue
		}
		kept, err := p.Append(nil, b)
		if err != nil {
			return nil, nil, 0, err
		}
		if kept != nil {
			left = append(left, kept)
		}
	}
	return left, p, m.Latest().Next(), nil
}

// abortedIn returns the aborted transactions of a log.
func abortedIn(batches []record.Batch) []Aborted {
	var all []Aborted
	first := make(map[model.ProducerID]model.Offset)
	for _, b := range batches {
		id := b.ProducerID()
		if b.IsTransactional() && !b.IsControl() {
			if _, open := first[id]; !open {
				first[id] = b.BaseOffset()
			}
		}
		if m, ok, _ := b.Marker(); ok {
			if at, open := first[id]; open && m.Type == record.Abort {
				all = append(all, Aborted{ProducerID: id, First: at, Last: b.BaseOffset(), Stable: b.NextOffset()})
			}
			delete(first, id)
		}
	}
	return all
}

// lastRecords returns the last batches of all producers.
func lastRecords(batches []record.Batch) map[model.ProducerID]LastRecord {
	all := make(map[model.ProducerID]LastRecord)
	for _, b := range batches {
		if !b.HasProducerID() {
			continue
		}
		last, ok := all[b.ProducerID()]
		if !ok || last.Epoch != b.ProducerEpoch() {
			last = LastRecord{Data: model.NoOffset, Epoch: b.ProducerEpoch()}
		}
		if !b.IsControl() {
			last.Data = b.LastOffset()
		}
		all[b.ProducerID()] = last
	}
	return all
}
