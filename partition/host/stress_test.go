package host

import (
	"slices"
	"sync"
	"testing"

	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/record"
)

// collector takes answers from any goroutine.
type collector struct {
	mu      sync.Mutex
	results map[int32][]ProduceResult
	left    sync.WaitGroup
	ready   chan struct{}
}

func (c *collector) ProduceDone(slot int32, r ProduceResult) {
	c.mu.Lock()
	c.results[slot] = append(c.results[slot], r)
	c.mu.Unlock()
	c.left.Done()
}

func (c *collector) FetchReady(int32) { c.ready <- struct{}{} }

// TestManyProducersOneReader runs producers, a long-polling reader and real
// fsyncs together: each produce is answered once, each producer's records have
// rising offsets without holes between all of them, and the reader sees every
// end that was acknowledged.
func TestManyProducersOneReader(t *testing.T) {
	for _, flush := range []string{"1", "100000"} {
		t.Run("flush.messages="+flush, func(t *testing.T) {
			h := onDiskWith(t, map[string]string{"flush.messages": flush})
			const producers, each = 8, 60
			c := &collector{results: make(map[int32][]ProduceResult), ready: make(chan struct{}, 1)}
			c.left.Add(producers * each)
			var sending sync.WaitGroup
			for p := range producers {
				sending.Add(1)
				go func() {
					defer sending.Done()
					for i := range each {
						b := batchOf(1, model.ProducerID(p), model.Sequence(i))
						rules := record.DefaultRules(1_700_000_000_000)
						prepared, reject := record.Validate(b, &rules)
						h.Produce(ProduceMsg{
							Prepared: prepared, Reject: reject, Acks: int16(1 - 2*(i%2)), Deadline: model.Never,
							Waiter: c, Slot: int32(p*each + i),
						})
					}
				}()
			}
			for s := h.State(); s.HighWatermark < producers*each; s = h.State() {
				h.Wait(&FetchWait{Waiter: c, From: s.HighWatermark, Bound: partition.BoundHighWatermark, Seen: s})
				<-c.ready
				if next := h.State(); next.HighWatermark < s.HighWatermark {
					t.Errorf("high watermark fell from %d to %d", s.HighWatermark, next.HighWatermark)
				}
			}
			sending.Wait()
			c.left.Wait()
			var bases []model.Offset
			for p := range producers {
				last := model.Offset(-1)
				for i := range each {
					r := c.results[int32(p*each+i)]
					if len(r) != 1 || r[0].Code != 0 || r[0].BaseOffset <= last {
						t.Fatalf("producer %d batch %d: %+v after offset %d", p, i, r, last)
					}
					last = r[0].BaseOffset
					bases = append(bases, last)
				}
			}
			slices.Sort(bases)
			for i, o := range bases {
				if o != model.Offset(i) {
					t.Fatalf("offset %d was given twice or never", i)
				}
			}
		})
	}
}

// jobFunc is a DiskJob that notes what happens.
type jobFunc struct {
	name string
	note func(string)
	gate chan struct{}
}

func (j *jobFunc) Run() {
	if j.gate != nil {
		<-j.gate
	}
	j.note("run " + j.name)
}
func (j *jobFunc) Done() { j.note("done " + j.name) }

func TestFlusherRunsEverythingOnce(t *testing.T) {
	group := &lifecycle.Group{}
	f := NewFlusher("/data", group)
	var mu sync.Mutex
	counts := map[string]int{}
	note := func(s string) {
		mu.Lock()
		counts[s]++
		mu.Unlock()
	}
	gate := make(chan struct{})
	f.Submit(&jobFunc{"slow", note, gate}, false)
	f.Submit(&jobFunc{"background", note, nil}, false)
	urgent := make(chan struct{})
	f.Submit(&jobFunc{"urgent", func(s string) {
		note(s)
		if s == "done urgent" {
			close(urgent)
		}
	}, nil}, true)
	<-urgent // though a background job is stuck before it
	mu.Lock()
	if counts["run background"] != 0 {
		t.Error("two background jobs ran at a time")
	}
	mu.Unlock()
	close(gate)
	f.Stop()
	for _, want := range []string{"slow", "background", "urgent"} {
		if counts["run "+want] != 1 || counts["done "+want] != 1 {
			t.Errorf("%s: %v, want run and done once", want, counts)
		}
	}
	group.Wait()
}
