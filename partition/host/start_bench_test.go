package host

import (
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/loop/realtime"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
)

// slowSyncs is a disk in memory whose every sync takes 5 ms, however many there are at
// a time.
func slowSyncs(disk *memfs.FS) *faultfs.FS {
	return faultfs.Wrap(disk, faultfs.When(faultfs.OpIn(faultfs.OpSync, faultfs.OpSyncData, faultfs.OpSyncDir),
		faultfs.Latency(5*time.Millisecond, func(_ faultfs.Op, d time.Duration) { <-time.After(d) })))
}

// startReal starts a node as production does, on goroutines.
func (n *node) startReal(fs vfs.FS, group *lifecycle.Group, rt *realtime.Runtime) (*ReplicaManager, LoadSummary) {
	n.t.Helper()
	dirs, err := OpenDirs(DirOptions{
		FS: fs, Paths: n.paths, NodeID: 1, Rand: rand.New(rand.NewPCG(1, 2)), Logger: zap.NewNop(),
		Machine: Machine{BootID: func() string { return n.boot }, Mount: func(dir string) string { return "mount " + dir }},
	})
	if err == nil {
		err = dirs.Claim(testCluster)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	m := NewReplicaManager(Deps{
		RT: rt, FS: fs, Dirs: dirs, Self: 1, Broker: n.cfg, Logger: zap.NewNop(),
		Topic: n.settings, Rand: rand.New(rand.NewPCG(3, 4)), Group: group,
	})
	sum, err := m.Load(n.img)
	if err != nil {
		n.t.Fatal(err)
	}
	return m, sum
}

// BenchmarkSlowDisk is a broker of 200 partitions on a disk with slow syncs: how long it
// takes until all are loaded (ready-ms), and to stop again in order while nobody writes
// (stop-ms), after each kind of stop.
func BenchmarkSlowDisk(b *testing.B) {
	const parts = 200
	for _, how := range []string{"kill", "power", "clean"} {
		b.Run(how, func(b *testing.B) {
			n := newNode(b)
			n.start()
			n.register()
			n.create("t", parts)
			for p := range parts {
				n.send(n.m.Get("t", int32(p)), 1, batchOf(2, -1, 0))
			}
			switch how {
			case "clean":
				n.stop()
			case "power":
				n.boot += "+"
			}
			var ready, stop time.Duration
			for range b.N {
				fs := slowSyncs(n.disk.KillClone(memfs.Kill{}))
				group := &lifecycle.Group{}
				rt := realtime.New(group)
				began := time.Now()
				m, sum := n.startReal(fs, group, rt)
				if sum.Loaded != parts {
					b.Fatalf("%+v", sum)
				}
				ready += time.Since(began)
				began = time.Now()
				if err := m.Shutdown(true); err != nil {
					b.Fatal(err)
				}
				stop += time.Since(began)
				m.deps.Dirs.Close()
				rt.Stop()
				group.Wait()
			}
			b.ReportMetric(float64(ready.Milliseconds())/float64(b.N), "ready-ms")
			b.ReportMetric(float64(stop.Milliseconds())/float64(b.N), "stop-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
