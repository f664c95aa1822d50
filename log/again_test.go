package log_test

import (
	"testing"

	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
)

// What a start after an orderly stop has found damaged, the next one finds too, though
// no orderly stop came between.
func TestDamagedEpochIsFoundAgain(t *testing.T) {
	for _, epoch := range []byte{5, 6} {
		r := newRig(t)
		r.o.Dense = true
		r.o.Config.SegmentBytes = 600
		r.start(log.StopClean, 0)
		for r.l.LogEnd() < 240 {
			r.append(logtest.Batch(logtest.Spec{Base: r.l.LogEnd(), Epoch: 4, Records: 30}))
		}
		r.must(r.l.Close(true))
		segs := r.l.View().Segments()
		last := segs[len(segs)-1]
		end := r.l.LogEnd()
		file := r.file(last.Base, ".log")
		b := r.read(file)
		if len(places(b)) != 1 {
			t.Fatalf("%d batches in the last segment: the next one tells", len(places(b)))
		}
		b[15] = epoch
		r.rewrite(file, b)
		r.damaged(log.StopClean, end)
		for _, stop := range []log.Stop{log.StopProcess, log.StopPower} {
			if c := r.damaged(stop, end); c.Offset != last.Base {
				t.Errorf("%s: %+v", stop, c)
			}
		}
	}
}
