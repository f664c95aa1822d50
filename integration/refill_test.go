package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/log/receipt"
)

// TestSpoiltFollowerIsFilledAnew: a follower whose replica is damaged, or taken away,
// while it is down is filled anew from its leader after the start, beside what is
// left of the old files, and is in sync again without another start. The receipts say
// so, and the damaged files are among the kept bytes.
func TestSpoiltFollowerIsFilledAnew(t *testing.T) {
	t.Parallel()
	c := startCluster(t, clusterSpec{set: []string{"replica.lag.time.max.ms=3000"}})
	parts := c.create("spoilt", 2, []int32{1, 2, 3}, "segment.bytes=1048576")
	w := c.work(parts, workSpec{idempotent: 2, consumers: 1, size: 4000, every: 2 * time.Millisecond})
	for _, p := range parts {
		c.awaitISR(p, 3)
	}
	var follower *member
	s := c.awaitLeader(parts[0])
	for _, m := range c.members {
		if int32(m.id) != s.leader {
			follower = m
		}
	}
	segments := func(p tp) []string {
		dir, err := follower.replicaDir(p)
		if err != nil {
			return nil
		}
		all, _ := filepath.Glob(filepath.Join(dir, "*.log"))
		slices.Sort(all)
		return all
	}
	eventually(t, time.Minute, "two segments of each partition are sealed", func() bool {
		return len(segments(parts[0])) > 2 && len(segments(parts[1])) > 2
	})
	follower.kill()
	if err := os.Truncate(segments(parts[0])[0], 5000); err != nil {
		t.Fatal(err)
	}
	gone, err := follower.replicaDir(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	follower.start()
	refills := make(map[int32]receipt.Receipt)
	kept := filepath.Join(follower.dir, "kept")
	eventually(t, time.Minute, "both refills have a receipt", func() bool {
		list, _, err := receipt.Read(osfs.New(), kept)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			if r.Cause == receipt.Refill && r.Topic == "spoilt" {
				refills[r.Partition] = r
			}
		}
		return len(refills) == 2
	})
	for _, p := range parts {
		c.awaitISR(p, 3)
	}
	t.Logf("in sync %s after the start", time.Since(begun).Round(time.Millisecond))
	w.flowsEverywhere()
	damaged, lost := refills[0], refills[1]
	if info, err := os.Stat(filepath.Join(kept, damaged.Kept, "00000000000000000000.log")); damaged.Kept == "" || err != nil || info.Size() != 5000 {
		t.Errorf("the damaged segment is not kept: %+v, %v", damaged, err)
	}
	if lost.Bytes != 0 || lost.Detail == "" {
		t.Errorf("%+v", lost)
	}
	eventually(t, 10*time.Second, "nothing is set aside any more", func() bool {
		left, _ := filepath.Glob(filepath.Join(follower.dir, "*", "spoilt-*-stray"))
		return len(left) == 0
	})
	w.check()
}

// TestRefusedFollowerIsFilledAnew: a follower that can't read its segment at the start,
// as often as it tries, fills the replica anew from its leader, and is in sync again
// without another start.
func TestRefusedFollowerIsFilledAnew(t *testing.T) {
	t.Parallel()
	needStrace(t)
	c := startCluster(t, clusterSpec{set: []string{"replica.lag.time.max.ms=3000"}})
	parts := c.create("refused", 2, []int32{1, 2, 3})
	w := c.work(parts, workSpec{idempotent: 1, consumers: 1, size: 1000, every: 5 * time.Millisecond})
	for _, p := range parts {
		c.awaitISR(p, 3)
	}
	s := c.awaitLeader(parts[0])
	var follower *member
	for _, m := range c.members {
		if int32(m.id) != s.leader {
			follower = m
		}
	}
	dir, err := follower.replicaDir(parts[0])
	if err != nil {
		t.Fatal(err)
	}
	segment := filepath.Join(dir, "00000000000000000000.log")
	eventually(t, time.Minute, "there are records", func() bool {
		info, err := os.Stat(segment)
		return err == nil && info.Size() > 50_000
	})
	follower.kill()
	old, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	follower.wrap = straced(t, "pread64", "error=EIO", segment)
	begun := time.Now()
	follower.start()
	kept := filepath.Join(follower.dir, "kept")
	var refill receipt.Receipt
	eventually(t, time.Minute, "the refill has a receipt", func() bool {
		list, _, err := receipt.Read(osfs.New(), kept)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			if r.Cause == receipt.Refill {
				refill = r
			}
		}
		return refill.ID != 0
	})
	for _, p := range parts {
		c.awaitISR(p, 3)
	}
	t.Logf("in sync %s after the start", time.Since(begun).Round(time.Millisecond))
	w.flowsEverywhere()
	if b, err := os.ReadFile(filepath.Join(kept, refill.Kept, filepath.Base(segment))); refill.Kept == "" || err != nil || !bytes.Equal(b, old) {
		t.Errorf("the old segment is not kept: %+v, %v", refill, err)
	}
	w.check()
}
