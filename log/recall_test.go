package log_test

import (
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/log/producer"
	"github.com/tidemark/tidemark/protocol/record"
)

// A producer's five batches in front of a cut are duplicates still, also where a
// segment begins: the snapshot that is there holds the last of them alone. What
// was cut off is the producer's to send again.
func TestRetriesOfWhatACutHasLeft(t *testing.T) {
	for _, to := range []model.Offset{5, 6, 7} {
		r := newRig(t)
		r.start(log.StopClean, 0)
		batch := func(o model.Offset) record.Batch {
			return logtest.Batch(logtest.Spec{Base: o, Producer: 7, Sequence: model.Sequence(o)})
		}
		for o := range model.Offset(8) {
			if o == 5 {
				r.must(r.l.Roll(model.Now{}))
			}
			r.append(batch(o))
		}
		if _, err := r.l.Truncate(to); err != nil {
			t.Fatal(err)
		}
		for o := range model.Offset(8) {
			want := producer.OutOfOrder
			switch {
			case o == to:
				want = producer.OK
			case o >= 3 && o < to: // five are remembered of eight
				want = producer.Duplicate
			}
			if got := r.l.Producers().Check(batch(o)); got.Kind != want {
				t.Errorf("cut at %d: sequence %d is %v, want %v", to, o, got.Kind, want)
			}
		}
		_ = r.l.Close(false)
	}
}
