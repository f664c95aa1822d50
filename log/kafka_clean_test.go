//go:build compat

package log_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/compaction"
	"github.com/tidemark/tidemark/log/producer"
	"github.com/tidemark/tidemark/protocol/record"
)

// compactForKafka compacts all segments but the one that is being written, as
// the cleaner does, and returns what a reader of committed records gets.
func compactForKafka(r *rig) (want []string) {
	r.flush()
	v := r.l.View()
	segments := v.Compactable()
	active := segments[len(segments)-1].Base
	aborted := v.Aborted(0, active)
	m := compaction.NewOffsetMap(1<<20, 0.9, compaction.Secret{1, 2})
	x := compaction.NewIndex(m, 0, aborted)
	r.must(v.CheckedBatches(0, active, nil, func(next model.Offset) { m.Reached(next - 1) }, func(b record.Batch) error {
		_, err := x.Batch(b)
		return err
	}))
	rules := compaction.Rules{Now: 1_800_000_000_000, DeleteRetentionMs: 86_400_000, End: active, Producers: map[model.ProducerID]compaction.LastRecord{}}
	for _, p := range r.l.Producers().LastBelow(active, []producer.Last{}) {
		rules.Producers[p.ProducerID] = compaction.LastRecord{Data: p.Offset, Epoch: p.Epoch}
	}
	pass := compaction.NewPass(m, rules, aborted)
	closed := segments[:len(segments)-1]
	v.MeasureIndexes(closed)
	groups := compaction.Group(closed, compaction.Limits{SegmentBytes: 30_000, IndexBytes: 10 << 20})
	for _, g := range groups {
		w, err := v.StartRewrite(g[0].Base, len(g), 1<<16)
		r.must(err)
		r.must(w.Batches(nil, func(b record.Batch) error {
			return w.Append(func(dst []byte) ([]byte, error) { return pass.Append(dst, b) })
		}))
		r.must(w.Finish(pass.TakeAborted()))
		s, err := r.l.StartSwap(w)
		r.must(err)
		r.must(r.l.FinishSwap(s, s.Run()))
		_, err = s.Unlink()
		r.must(err)
	}
	if s := pass.Stats(); s.RecordsKept >= s.Records/2 || len(groups) >= len(closed) {
		r.Fatalf("%+v, %d groups of %d segments", s, len(groups), len(closed))
	}
	hidden := make(map[log.AbortedTxn]model.Offset)
	for _, a := range r.l.View().Aborted(0, r.l.LogEnd()) {
		hidden[log.AbortedTxn{ProducerID: a.ProducerID, FirstOffset: a.First}] = a.Last
	}
	r.must(r.l.View().Batches(0, nil, func(b record.Batch) error {
		if b.IsControl() {
			return nil
		}
		for a, last := range hidden { // order-free
			if b.IsTransactional() && b.ProducerID() == a.ProducerID && b.BaseOffset() >= a.FirstOffset && b.BaseOffset() < last {
				return nil
			}
		}
		return b.Each(0, func(x *record.Record) error {
			want = append(want, fmt.Sprintf("%d %s", x.Offset, x.Value))
			return nil
		})
	}))
	return want
}

// Kafka's dump tool reads what compaction leaves and finds no mismatch; only that
// offsets are missing is what compaction is about.
func TestKafkaReadsCompactedFiles(t *testing.T) {
	jars, err := kafka.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	putOurs(t, dir, true, true)
	var files []string
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{".log", ".index", ".timeindex", ".snapshot", ".txnindex"} {
		for _, f := range names {
			if filepath.Ext(f.Name()) == suffix {
				files = append(files, filepath.Join(dir, f.Name()))
			}
		}
	}
	r, err := jars.Run(t.Context(), nil, kafka.DumpLog, "--deep-iteration", "--print-data-log", "--files", strings.Join(files, ","))
	if err != nil {
		t.Fatal(err)
	}
	out := r.All()
	for _, bad := range []string{"mismatch", "Mismatch", "isvalid: false", "xception", "out of order", "not found"} {
		if i := strings.Index(out, bad); i >= 0 {
			t.Errorf("%q in\n%s", bad, out[max(0, i-200):min(len(out), i+900)])
		}
	}
	for _, good := range []string{"isvalid: true", "deleteHorizonMs: OptionalLong[1800086400000]"} {
		if !strings.Contains(out, good) {
			t.Errorf("nothing says %q", good)
		}
	}
	if r.Exit != 0 || strings.Count(out, "Dumping ") != len(files) {
		t.Errorf("exit %d, %d of %d files dumped\n%.3000s", r.Exit, strings.Count(out, "Dumping "), len(files), out)
	}
}
