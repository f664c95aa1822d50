package host

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/loop/realtime"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/protocol/record"
)

// counted counts answers and keeps nothing.
type counted struct{ n, failed int }

func (c *counted) ProduceDone(_ int32, r ProduceResult) {
	c.n++
	if r.Code != 0 {
		c.failed++
	}
}

// onDisk returns a leader of t-0 on a real disk with the real runtime.
func onDisk(tb testing.TB) *Hosted { return onDiskWith(tb, nil) }

func onDiskWith(tb testing.TB, overrides map[string]string) *Hosted {
	return onDiskAs(tb, overrides, config.Defaults(), osfs.New())
}

// onDiskAs is onDiskWith under other settings of the broker, and on another disk
// than the machine's if there is one.
func onDiskAs(tb testing.TB, overrides map[string]string, broker *config.Broker, disk vfs.FS) *Hosted {
	group := &lifecycle.Group{}
	rt := realtime.New(group)
	dir := tb.TempDir()
	n := newNode(tb, dir)
	n.fs = disk
	n.topic["t"] = overrides
	dirs, err := OpenDirs(DirOptions{FS: n.fs, Paths: n.paths, NodeID: 1, Rand: rand.New(rand.NewPCG(1, 2)), Logger: zap.NewNop(), Machine: ThisMachine()})
	if err != nil {
		tb.Fatal(err)
	}
	if err := dirs.Claim(testCluster); err != nil {
		tb.Fatal(err)
	}
	n.dirs, n.rt = dirs, newFakeRuntime()
	n.m = NewReplicaManager(Deps{
		RT: rt, FS: n.fs, Dirs: dirs, Self: 1, Broker: broker, Logger: zap.NewNop(),
		Topic: n.settings, Rand: rand.New(rand.NewPCG(3, 4)), Group: group,
	})
	if _, err := n.m.Load(n.img); err != nil {
		tb.Fatal(err)
	}
	n.register()
	n.create("t", 1)
	tb.Cleanup(func() {
		if err := n.m.Shutdown(true); err != nil {
			tb.Error(err)
		}
		dirs.Close()
		rt.Stop()
		group.Wait()
	})
	return n.m.Get("t", 0)
}

// BenchmarkProduce is one produce through the host on one goroutine: decision,
// append and answer. "prepared" leaves the validation out.
func BenchmarkProduce(b *testing.B) {
	for _, size := range []int{100, 16 << 10} {
		b.Run(fmt.Sprintf("prepared-%d", size), func(b *testing.B) {
			h := onDisk(b)
			builder := record.NewBuilder(record.Options{})
			builder.Append(1, nil, make([]byte, size))
			batch := builder.Build()
			rules := record.DefaultRules(2)
			prepared, reject := record.Validate(batch, &rules)
			if reject != nil {
				b.Fatal(reject)
			}
			w := &counted{}
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				h.Produce(ProduceMsg{Prepared: prepared, Acks: -1, Deadline: model.Never, Waiter: w})
			}
			b.StopTimer()
			if w.n != b.N || w.failed != 0 {
				b.Fatalf("%d answers, %d failed, of %d", w.n, w.failed, b.N)
			}
		})
	}
}

// TestProduceAllocations holds the host to a handful of allocations per produce,
// whatever the number of records: a State, a View, and what the log needs.
func TestProduceAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	h := onDisk(t)
	prepared := func(records int) record.Prepared {
		builder := record.NewBuilder(record.Options{})
		for range records {
			builder.Append(1, nil, make([]byte, 10))
		}
		rules := record.DefaultRules(2)
		p, reject := record.Validate(builder.Build(), &rules)
		if reject != nil {
			t.Fatal(reject)
		}
		return p
	}
	w := &counted{}
	for _, records := range []int{1, 1000} {
		p := prepared(records)
		got := testing.AllocsPerRun(200, func() {
			h.Produce(ProduceMsg{Prepared: p, Acks: -1, Deadline: model.Never, Waiter: w})
		})
		if got > 4 {
			t.Errorf("%v allocations for a batch of %d records, want at most 4", got, records)
		}
	}
	if w.failed != 0 {
		t.Errorf("%d produces failed", w.failed)
	}
}
