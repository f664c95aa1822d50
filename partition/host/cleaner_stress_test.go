package host

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/protocol/record"
)

// TestCleaningUnderLoad runs producers, readers, the cleaner and the flusher
// together. Each producer has keys of its own and counts up: a reader never
// sees a key's values fall, and in the end each key has its last one.
func TestCleaningUnderLoad(t *testing.T) {
	for _, threads := range []int32{1, 2} {
		t.Run(fmt.Sprint("threads ", threads), func(t *testing.T) {
			cfg := config.Defaults()
			cfg.Storage.Cleaner.Backoff, cfg.Storage.Cleaner.Threads = 2*time.Millisecond, threads
			cfg.Storage.Cleaner.BytesPerSecond = 50e6
			cfg.Storage.RetentionCheckInterval = 3 * time.Millisecond
			h := onDiskAs(t, map[string]string{
				"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "delete.retention.ms": "1", "file.delete.delay.ms": "1",
			}, cfg, memfs.New())
			topic := *h.State().Config
			topic.SegmentBytes = 5000
			h.box.Enter(&configMsg{topic: &topic})
			const producers, keys, rounds, each = 3, 20, 5, 200
			done := make(chan struct{})
			var reading sync.WaitGroup
			for range 2 {
				reading.Go(func() {
					for {
						select {
						case <-done:
							return
						default:
							readTable(t, h)
						}
					}
				})
			}
			for round := range rounds {
				before := h.m.CleanerStats().Runs
				var working sync.WaitGroup
				for p := range producers {
					working.Go(func() { countUp(t, h, p, keys, round*each, each) })
				}
				working.Wait()
				for h.m.CleanerStats().Runs == before {
					readTable(t, h)
				}
			}
			close(done)
			reading.Wait()
			if s := h.m.CleanerStats(); s.Failures > 0 {
				t.Fatalf("%+v", s)
			}
			got := readTable(t, h)
			for p := range producers {
				for k := range keys {
					want := fmt.Sprintf("%08d", (rounds*each-1-k)/keys*keys+k)
					if v := got[fmt.Sprintf("%d-%d", p, k)]; v != want {
						t.Errorf("producer %d key %d is %s, want %s", p, k, v, want)
					}
				}
			}
		})
	}
}

// countUp appends numbers from first on under the keys of a producer.
func countUp(t *testing.T, h *Hosted, p, keys, first, n int) {
	c := &collector{results: make(map[int32][]ProduceResult)}
	for i := first; i < first+n; i++ {
		b := record.NewBuilder(record.Options{Idempotent: true, ProducerID: model.ProducerID(p), BaseSequence: model.Sequence(i), Codec: record.Codec(i % 5)})
		b.Append(1_700_000_000_000, fmt.Appendf(nil, "%d-%d", p, i%keys), fmt.Appendf(nil, "%08d", i))
		rules := record.DefaultRules(1_700_000_000_000)
		prepared, reject := record.Validate(b.Build(), &rules)
		c.left.Add(1)
		h.Produce(ProduceMsg{Prepared: prepared, Reject: reject, Acks: 1, Deadline: model.Never, Waiter: c, Slot: int32(i)})
		c.left.Wait()
		if r := c.results[int32(i)]; r[0].Code != 0 {
			t.Errorf("producer %d: %+v", p, r)
			return
		}
	}
}

// readTable reads the log from the start, as it is at one moment.
func readTable(t *testing.T, h *Hosted) map[string]string {
	table := make(map[string]string)
	s := h.State()
	next := s.LogStart
	err := s.View.Batches(s.LogStart, nil, func(b record.Batch) error {
		if b.LastOffset() < next {
			return fmt.Errorf("batch at %d after %d", b.BaseOffset(), next)
		}
		next = b.NextOffset()
		return b.Each(0, func(r *record.Record) error {
			if was := table[string(r.Key)]; was >= string(r.Value) && was != "" {
				return fmt.Errorf("%s falls from %s to %s", r.Key, was, r.Value)
			}
			table[string(r.Key)] = string(r.Value)
			return b.CheckCRC()
		})
	})
	if err != nil && !errors.Is(err, log.ErrStaleView) {
		t.Error(err)
	}
	return table
}
