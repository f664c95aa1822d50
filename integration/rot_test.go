package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/log/receipt"
)

// rereaders read a partition from its start again and again, each time as a client
// that knows nothing, and note what they are handed.
type rereaders struct {
	stop chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex
	seen   map[int64]stamp
	rounds int
	read   int
	bad    []string
}

// reread starts it.
func (c *cluster) reread(p tp) *rereaders {
	r := &rereaders{stop: make(chan struct{}), seen: map[int64]stamp{}}
	r.wg.Go(func() {
		for {
			select {
			case <-r.stop:
				return
			default:
			}
			r.round(c, p)
		}
	})
	return r
}

// round reads what there is for a second or two; an answer that a client's own check
// refuses is read again, from whoever leads then.
func (r *rereaders) round(c *cluster, p tp) {
	cl := c.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{p.topic: {p.n: kgo.NewOffset().At(0)}}),
		kgo.FetchMaxPartitionBytes(1<<20), kgo.FetchMaxWait(100*time.Millisecond), kgo.RequestTimeoutOverhead(2*time.Second))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 1500*time.Millisecond)
	defer cancel()
	next := int64(0)
	for ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(x *kgo.Record) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.read++
			s, err := stampOf(x.Value)
			if was, ok := r.seen[x.Offset]; err == nil && ok && was != s {
				err = fmt.Errorf("%v where %v was read before", s, was)
			}
			if err == nil && x.Offset != next {
				err = fmt.Errorf("offset %d was due", next)
			}
			if err != nil {
				r.bad = append(r.bad, fmt.Sprintf("%v offset %d: %v", p, x.Offset, err))
			}
			r.seen[x.Offset], next = s, x.Offset+1
		})
	}
	r.mu.Lock()
	r.rounds++
	r.mu.Unlock()
}

// end stops the readers and says what they were handed that was wrong.
func (r *rereaders) end(t *testing.T) {
	t.Helper()
	close(r.stop)
	r.wg.Wait()
	for i, b := range r.bad {
		if i < 10 {
			t.Errorf("handed to a reader: %s", b)
		}
	}
	t.Logf("%d records in %d readings from the start", r.read, r.rounds)
}

// rot changes bytes of a file that a process uses, and returns the content then.
func rot(t *testing.T, path string, at ...int64) []byte {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, pos := range at {
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, pos); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 0x10
		if _, err := f.WriteAt(b, pos); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// wipe kills a node, takes its replica of a partition away and starts it again, so
// that it must read all of the leader's.
func (m *member) wipe(p tp) {
	m.t.Helper()
	m.kill()
	dir, err := m.replicaDir(p)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		m.t.Fatal(err)
	}
	m.start()
}

// sealed waits until a node has closed some segments of a partition, and returns them.
func (m *member) sealed(p tp, n int) (paths []string) {
	m.t.Helper()
	eventually(m.t, time.Minute, fmt.Sprintf("%d segments of %v are sealed", n, p), func() bool {
		dir, err := m.replicaDir(p)
		if err != nil {
			return false
		}
		all, _ := filepath.Glob(filepath.Join(dir, "*.log"))
		paths = all[:max(len(all)-1, 0)]
		return len(paths) >= n
	})
	return paths
}

// awaitKept waits until a node's receipts name a refill of a partition, whose kept
// bytes hold a file as it was.
func (m *member) awaitKept(p tp, file string, content []byte) {
	m.t.Helper()
	kept := filepath.Join(m.dir, "kept")
	said := ""
	eventuallyOr(m.t, 90*time.Second, func() string { return fmt.Sprintf("node %d keeps the damaged %s: %s", m.id, file, said) }, func() bool {
		list, _, err := receipt.Read(osfs.New(), kept)
		if err != nil {
			said = err.Error()
			return false
		}
		for _, r := range list {
			if r.Cause != receipt.Refill || r.Topic != p.topic || r.Partition != p.n {
				continue
			}
			got, err := os.ReadFile(filepath.Join(kept, r.Kept, file))
			if err == nil && bytes.Equal(got, content) {
				return true
			}
			said = fmt.Sprintf("%+v: %d bytes, %v", r, len(got), err)
		}
		return false
	})
}

// prefer has the first replica of a partition lead it.
func (c *cluster) prefer(p tp) {
	c.t.Helper()
	req := kmsg.NewPtrElectLeadersRequest()
	req.ElectionType, req.TimeoutMillis = 0, 10_000
	rt := kmsg.NewElectLeadersRequestTopic()
	rt.Topic, rt.Partitions = p.topic, []int32{p.n}
	req.Topics = append(req.Topics, rt)
	if _, err := c.ask(req); err != nil {
		c.t.Logf("election of a preferred leader: %v", err)
	}
}

// TestRotUnderRunningBrokers: bytes of a closed segment turn into others beneath a
// running leader, or beneath a follower that comes to lead. No reader is handed
// records that nobody sent, or at other offsets; whoever must copy the segment does not
// take it over; the damaged replica is filled anew while its broker runs and is in sync
// again, its receipt names that, and the kept bytes hold the damaged file as it was.
func TestRotUnderRunningBrokers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		follower bool
		at       []int64 // the bytes; a batch begins at 0
	}{
		{"leader", false, []int64{700, 300_000, 700_001}},
		{"follower", true, []int64{900, 200_000}},
		// Base offset and leader epoch lie outside the CRC. Of a segment that an
		// earlier process wrote they are looked at when it is first read, which after a
		// stop in order is after the start. What the process itself has written, or
		// looked at, is not looked at again.
		{"base offset", true, []int64{6}},
		{"leader epoch", true, []int64{14}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, clusterSpec{set: []string{"replica.lag.time.max.ms=3000"}})
			p := c.create("rots", 1, []int32{1, 2, 3}, "segment.bytes=1048576")[0]
			w := c.work([]tp{p}, workSpec{idempotent: 2, consumers: 1, size: 4000, every: 2 * time.Millisecond})
			c.awaitISR(p, 3)
			sick := c.members[0]
			if tt.follower {
				sick.sealed(p, 3)
				sick.stop()
				c.awaitLeader(p, 1)
				sick.start()
				c.awaitISR(p, 3)
			} else {
				c.prefer(p)
			}
			if s := c.awaitISR(p, 3); (s.leader == 1) == tt.follower {
				t.Fatalf("node %d leads", s.leader)
			}
			paths := sick.sealed(p, 3)
			readers := c.reread(p)
			pause(500 * time.Millisecond)
			content := rot(t, paths[0], tt.at...)
			w.flows(200)
			if tt.follower {
				c.prefer(p)
				c.await(p, 30*time.Second, "the damaged replica leads", func(s state) bool { return s.leader == 1 || len(s.isr) < 3 })
			}
			pause(500 * time.Millisecond)
			c.members[2].wipe(p)
			sick.awaitKept(p, filepath.Base(paths[0]), content)
			c.awaitISR(p, 3)
			w.flowsEverywhere()
			if !sick.running() {
				t.Fatal("the broker with the damaged replica ended")
			}
			pause(2 * time.Second)
			readers.end(t)
			w.check()
			c.compare([]tp{p})
		})
	}
}
