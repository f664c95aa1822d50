package loop_test

import (
	"sync"
	"testing"

	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/loop/realtime"
	"github.com/tidemark/tidemark/internal/model"
)

// work is about 250 ns of a Handler's own.
const work = 250

type state struct {
	sum  uint64
	done *done
}

func (s *state) do(n int) {
	for i := range work {
		s.sum = s.sum*31 + uint64(i^n)
	}
}

func (s *state) Handle(_ model.Now, n int, out *loop.Outbox) {
	s.do(n)
	out.Add(s.done)
}

func (s *state) NextDeadline() model.Instant  { return model.Never }
func (s *state) Tick(model.Now, *loop.Outbox) {}

type done struct{}

func (*done) Deliver(model.Now) {}

// The same work behind a mutex, in a box, and on a goroutine that is asked and
// waited for; alone, and by callers on all processors over 64 partitions.
func BenchmarkOwner(b *testing.B) {
	b.Run("mutex", func(b *testing.B) {
		var mu sync.Mutex
		s := &state{}
		for n := range b.N {
			mu.Lock()
			s.do(n)
			mu.Unlock()
		}
	})
	b.Run("box", func(b *testing.B) {
		var group lifecycle.Group
		rt := realtime.New(&group)
		defer group.Wait()
		defer rt.Stop()
		box := loop.NewBox(&state{done: &done{}}, rt)
		for n := range b.N {
			box.Enter(n)
		}
	})
	b.Run("channel", func(b *testing.B) {
		in, out := make(chan int, 64), make(chan struct{}, 64)
		var all sync.WaitGroup
		s := &state{}
		all.Go(func() {
			for n := range in {
				s.do(n)
				out <- struct{}{}
			}
		})
		for n := range b.N {
			in <- n
			<-out
		}
		close(in)
		all.Wait()
	})
}

func BenchmarkOwner64(b *testing.B) {
	const partitions = 64
	b.Run("mutex", func(b *testing.B) {
		var mu [partitions]sync.Mutex
		var s [partitions]state
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for n := 0; pb.Next(); n += 7 {
				p := n % partitions
				mu[p].Lock()
				s[p].do(n)
				mu[p].Unlock()
			}
		})
	})
	b.Run("box", func(b *testing.B) {
		var group lifecycle.Group
		rt := realtime.New(&group)
		defer group.Wait()
		defer rt.Stop()
		var boxes [partitions]*loop.Box[int]
		for p := range boxes {
			boxes[p] = loop.NewBox(&state{done: &done{}}, rt)
		}
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for n := 0; pb.Next(); n += 7 {
				boxes[n%partitions].Enter(n)
			}
		})
	})
}
