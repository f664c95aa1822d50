package log_test

import (
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/protocol/record"
)

// The checkpoint of the log start may be older than the epoch file: what it
// brings back to view has epochs all the same.
func TestEpochsCoverAnOlderLogStart(t *testing.T) {
	for _, stop := range []log.Stop{log.StopClean, log.StopProcess, log.StopPower} {
		for _, start := range []model.Offset{0, 5, 8, 12, 30} {
			r, _ := segmented(t)
			r.must(r.l.IncrementLogStart(31))
			r.append(logtestBatch(32))
			r.flush()
			if stop == log.StopClean {
				r.must(r.l.Close(true))
			}
			r.kill()
			r.o.LogStart = start
			r.start(stop, 33)
			for o := r.l.LogStart(); o < r.l.LogEnd(); o++ {
				if e, ok := r.l.Epochs().EpochFor(o); !ok || e != model.LeaderEpoch(min(o/8, 4)) {
					t.Errorf("%s, log start %d: epoch %d of offset %d, %v", stop, start, e, o, ok)
				}
			}
		}
	}
}

// Pages that a failed fsync dropped inside the log are damage, not the work of
// compaction: the seal knows how much there was.
func TestDroppedPagesInsideTheLogAreDamage(t *testing.T) {
	r, _ := segmented(t)
	b := r.read(r.file(16, ".log"))
	r.rewrite(r.file(16, ".log"), b[:record.Batch(b).Size()])
	if c := r.damaged(log.StopProcess, 8); c.Segment != 16 {
		t.Errorf("%+v, want damage in segment 16", c)
	}
}

// logtestBatch is one batch of one record in the epoch after those of segmented.
func logtestBatch(at model.Offset) []byte {
	return logtest.Batch(logtest.Spec{Base: at, Epoch: 4, Records: 1, Timestamp: 4000})
}
