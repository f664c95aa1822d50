package log_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
)

// listings counts how often a directory was listed.
type listings struct {
	vfs.FS
	n int
}

func (f *listings) List(dir string) ([]string, error) {
	f.n++
	return f.FS.List(dir)
}

// A roll removes snapshots of producers that no segment begins with. It lists the
// directory only if there may be some, since that takes longer the more segments there
// are.
func TestRollListsOnlyForStrays(t *testing.T) {
	r := newRig(t)
	fs := &listings{FS: r.mem}
	r.fs = fs
	r.o.Config.SegmentBytes = 600
	snapshots := func() (found []string) {
		names, err := r.mem.List(testDir)
		r.must(err)
		for _, name := range names {
			if strings.HasSuffix(name, ".snapshot") {
				found = append(found, strings.TrimLeft(strings.TrimSuffix(name, ".snapshot"), "0"))
			}
		}
		return found
	}
	add := func(n int) {
		t.Helper()
		for range n {
			b := logtest.Batch(logtest.Spec{Base: r.l.LogEnd(), Records: 1, ValueSize: 100, Producer: 7, Sequence: model.Sequence(r.l.LogEnd())})
			r.append(b)
		}
	}
	rolls := func(listed int, want ...string) {
		t.Helper()
		before := fs.n
		add(8)
		if got := fs.n - before; got != listed {
			t.Errorf("the directory was listed %d times, want %d", got, listed)
		}
		for _, at := range want {
			if slices.Contains(snapshots(), at) {
				t.Errorf("the snapshot at %s is still there", at)
			}
		}
	}
	r.start(log.StopClean, 0)
	rolls(0)
	add(2)
	stray := r.l.LogEnd()
	r.must(r.l.SnapshotProducers())
	if base := r.l.View().Segments()[len(r.l.View().Segments())-1].Base; base == stray {
		t.Fatalf("a segment begins at %d", stray)
	}
	rolls(1, strconv.FormatInt(int64(stray), 10))
	rolls(0)
	add(2)
	stray = r.l.LogEnd()
	r.must(r.l.SnapshotProducers())
	r.must(r.l.Close(true))
	r.start(log.StopClean, stray)
	rolls(1, strconv.FormatInt(int64(stray), 10))
	rolls(0)
}
