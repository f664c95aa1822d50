package golden_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark/tidemark/compat/golden"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/protocol/record"
)

// openings are the ways in which a log directory of Kafka's may be opened. What
// a killed Kafka leaves is whole whatever we believe about how it ended, since
// the machine lived on.
var openings = []struct {
	dir  string
	stop log.Stop
}{
	{"clean", log.StopClean},
	{"clean", log.StopProcess},
	{"clean", log.StopPower},
	{"killed", log.StopProcess},
	{"killed", log.StopPower},
}

// Every record that Kafka served from these directories is served by our log,
// with the same bounds, epochs, transactions and look-ups by time.
func TestLogOpensWhatKafkaWrote(t *testing.T) {
	for _, o := range openings {
		t.Run(fmt.Sprintf("%s as %s", o.dir, o.stop), func(t *testing.T) {
			all, err := golden.Partitions(o.dir)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(golden.Dir(o.dir))); err != nil {
				t.Fatal(err)
			}
			fs := osfs.New()
			points, err := checkpoint.ReadOffsets(fs, filepath.Join(dir, checkpoint.RecoveryPointFile))
			if err != nil {
				t.Fatal(err)
			}
			starts, err := checkpoint.ReadOffsets(fs, filepath.Join(dir, checkpoint.LogStartFile))
			if err != nil {
				t.Fatal(err)
			}
			cleaned, err := checkpoint.ReadOffsets(fs, filepath.Join(dir, checkpoint.CleanerFile))
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range all {
				if o.dir == "killed" && p.Topic == "trimmed" {
					// Kafka checkpoints what DeleteRecords did once a minute: a
					// kill before that brings the records back.
					p = golden.Partition{Topic: p.Topic, LogStart: 0, LogEnd: p.LogEnd, HighWatermark: p.LogEnd, LastStable: p.LogEnd}
				}
				tp := model.TopicPartition{Topic: p.Topic, Partition: p.Partition}
				options := log.Options{
					FS: fs, Dir: filepath.Join(dir, tp.String()), Partition: tp, Config: log.DefaultConfig(),
					Stop: o.stop, RecoveryPoint: points[tp], LogStart: starts[tp], CleanedTo: cleaned[tp],
				}
				t.Run(tp.String(), func(t *testing.T) { openTwice(t, options, p) })
			}
		})
	}
}

// openTwice opens a log as it was left and, after an orderly close, once more.
func openTwice(t *testing.T, o log.Options, p golden.Partition) {
	for _, again := range []bool{false, true} {
		if again {
			o.Stop, o.RecoveryPoint = log.StopClean, model.Offset(p.LogEnd)
		}
		l, report, err := log.Open(o)
		if err != nil {
			t.Fatalf("again %v: %v", again, err)
		}
		if len(report.Removed) > 0 {
			t.Errorf("again %v: removed %+v", again, report.Removed)
		}
		checkLog(t, l, p)
		if err := l.Close(true); err != nil {
			t.Fatal(err)
		}
	}
}

func checkLog(t *testing.T, l *log.Log, p golden.Partition) {
	t.Helper()
	if l.LogStart() != model.Offset(p.LogStart) || l.LogEnd() != model.Offset(p.LogEnd) {
		t.Errorf("log from %d to %d, want %d to %d", l.LogStart(), l.LogEnd(), p.LogStart, p.LogEnd)
	}
	checkEpochs(t, l, p)
	l.Producers().AdvanceHighWatermark(model.Offset(p.HighWatermark))
	stable := model.Offset(p.HighWatermark)
	if first, open := l.Producers().FirstUnstable(); open {
		stable = first
	}
	if stable != model.Offset(p.LastStable) {
		t.Errorf("last stable offset %d, want %d", stable, p.LastStable)
	}
	if p.Records == nil {
		return
	}
	checkRecords(t, l.View(), p)
	checkTimes(t, l.View(), p)
	checkAborted(t, l.View(), p)
}

// checkEpochs compares epochs and their starts. A start may also be anywhere up
// to the first record of its epoch that compaction left: where the file of
// epochs is not trusted, the batches are all there is.
func checkEpochs(t *testing.T, l *log.Log, p golden.Partition) {
	t.Helper()
	if len(p.Records) == 0 {
		return // nothing but Kafka's file knows of an epoch in which nothing was written
	}
	got := l.Epochs().Entries()
	ok := len(got) == len(p.Epochs)
	for i := 0; ok && i < len(got); i++ {
		first := int64(got[i].Start)
		for _, r := range p.Records {
			if r.LeaderEpoch >= p.Epochs[i].Epoch {
				first = r.Offset
				break
			}
		}
		ok = int32(got[i].Epoch) == p.Epochs[i].Epoch && int64(got[i].Start) >= p.Epochs[i].Start && int64(got[i].Start) <= first
	}
	if !ok {
		t.Errorf("epochs %v, want %v", got, p.Epochs)
	}
}

func checkRecords(t *testing.T, v *log.View, p golden.Partition) {
	t.Helper()
	var got []golden.Record
	err := v.Batches(model.Offset(p.LogStart), nil, func(b record.Batch) error {
		if err := b.CheckCRC(); err != nil {
			return err
		}
		return b.Each(1<<20, func(r *record.Record) error {
			if int64(r.Offset) >= p.LogStart {
				got = append(got, recordOf(b, r))
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(p.Records) {
		t.Fatalf("%d records, want %d", len(got), len(p.Records))
	}
	for i, want := range p.Records {
		want.Aborted = false // checked by checkAborted
		if fmt.Sprintf("%+v", got[i]) != fmt.Sprintf("%+v", want) ||
			(got[i].Key == nil) != (want.Key == nil) || (got[i].Value == nil) != (want.Value == nil) {
			t.Fatalf("record %d\n got %+v\nwant %+v", i, got[i], want)
		}
	}
}

func recordOf(b record.Batch, r *record.Record) golden.Record {
	g := golden.Record{
		Offset: int64(r.Offset), Timestamp: int64(r.Timestamp), AppendTime: b.TimestampType() == record.LogAppendTime, Codec: b.Codec().String(),
		LeaderEpoch: int32(b.LeaderEpoch()), ProducerID: int64(b.ProducerID()), ProducerEpoch: int16(b.ProducerEpoch()),
		Transactional: b.IsTransactional(), Control: b.IsControl(), Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value),
	}
	for _, h := range r.Headers {
		g.Headers = append(g.Headers, golden.Header{Key: string(h.Key), Value: bytes.Clone(h.Value)})
	}
	return g
}

// checkTimes compares look-ups by time with a plain search.
func checkTimes(t *testing.T, v *log.View, p golden.Partition) {
	t.Helper()
	for _, r := range p.Records {
		for _, at := range []int64{r.Timestamp, r.Timestamp + 1} {
			want := int64(-1)
			for _, c := range p.Records {
				if c.Timestamp >= at {
					want = c.Offset
					break
				}
			}
			got, found, err := v.OffsetForTimestamp(model.Timestamp(at), v.End())
			if err != nil || found != (want >= 0) || int64(got.Offset) != want {
				t.Fatalf("at %d: offset %d (%v), want %d", at, got.Offset, err, want)
			}
		}
	}
}

// checkAborted replays what a reader of committed records does with the list of
// aborted transactions, and compares what it hides.
func checkAborted(t *testing.T, v *log.View, p golden.Partition) {
	t.Helper()
	aborted := v.AbortedTxns(model.Offset(p.LogStart), model.Offset(p.LastStable))
	open := map[int64]bool{}
	for _, r := range p.Records {
		if r.Offset >= p.LastStable {
			break
		}
		for _, a := range aborted {
			if int64(a.FirstOffset) == r.Offset {
				open[int64(a.ProducerID)] = true
			}
		}
		if hidden := r.Transactional && !r.Control && open[r.ProducerID]; hidden != r.Aborted {
			t.Fatalf("record %d of producer %d: hidden %v, Kafka hides it: %v", r.Offset, r.ProducerID, hidden, r.Aborted)
		}
		if r.Control {
			open[r.ProducerID] = false
		}
	}
}
