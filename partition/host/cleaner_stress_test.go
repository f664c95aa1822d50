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

// TestCleaningUnderLoad runs producers, readers, the cleaner, retention and real
// fsyncs together. Each producer has keys of its own and counts up: a reader never
// sees a key's values fall, and in the end each key has its last one.
func TestCleaningUnderLoad(t *testing.T) {
	for _, threads := range []int32{1, 2} {
		t.Run(fmt.Sprint("threads ", threads), func(t *testing.T) {
			cfg := config.Defaults()
			cfg.Storage.Cleaner.Backoff, cfg.Storage.Cleaner.Threads = 2*time.Millisecond, threads
			cfg.Storage.Cleaner.BytesPerSecond = 50e6
			cfg.Storage.RetentionCheckInterval = 3 * time.Millisecond
			h := onDiskAs(t, map[string]string{
				"cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0.1", "delete.retention.ms": "1", "file.delete.delay.ms": "1", "retention.ms": "-1", "retention.bytes": "200000",
			}, cfg, memfs.New())
			topic := *h.State().Config
			topic.SegmentBytes = 5000
			h.box.Enter(&configMsg{topic: &topic})
			const producers, keys = 3, 20
			const runs, most = 4, 200_000
			done := make(chan struct{})
			var working, reading sync.WaitGroup
			last := [producers]int{}
			for p := range producers {
				working.Go(func() {
					c := &collector{results: make(map[int32][]ProduceResult)}
					for i := 0; i < most && h.m.CleanerStats().Runs < runs; i++ {
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
						last[p] = i
					}
				})
			}
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
			working.Wait()
			close(done)
			reading.Wait()
			if s := h.m.CleanerStats(); s.Runs < runs || s.Failures > 0 {
				t.Fatalf("%+v", s)
			}
			got := readTable(t, h)
			for p := range producers {
				for k := range keys {
					want := last[p] - (last[p]-k)%keys
					if v := got[fmt.Sprintf("%d-%d", p, k)]; last[p] >= keys && v != fmt.Sprintf("%08d", want) {
						t.Errorf("producer %d key %d is %s, want %08d of %d", p, k, v, want, last[p])
					}
				}
			}
		})
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
