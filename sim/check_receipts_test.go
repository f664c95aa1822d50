package sim

import (
	"fmt"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// What was cut off is named by receipts, from where DeleteRecords has left off.
func TestWhatReceiptsName(t *testing.T) {
	id := model.TopicIDPartition{TopicID: model.TopicID{7}}
	line := func(n, start, end int64) string {
		return fmt.Sprintf(`{"id":%d,"topicId":%q,"partition":0,"start":%d,"end":%d}`+"\n", n, id.TopicID.String(), start, end)
	}
	for name, c := range map[string]struct {
		journal string
		deleted int64 // below
		want    bool
	}{
		"nothing":                 {"", 0, false},
		"all":                     {line(1, 0, 9), 0, true},
		"in two":                  {line(1, 4, 9) + line(2, 0, 4), 0, true},
		"not the middle":          {line(1, 0, 4) + line(2, 5, 9), 0, false},
		"from the log start on":   {line(1, 6, 9), 6, true},
		"not from there":          {line(1, 7, 9), 6, false},
		"only what is deleted":    {"", 9, true},
		"long ago, before a look": {line(0, 0, 9), 0, false},
	} {
		w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
		m := w.machines[0]
		r := m.replica(w.h.part(id, model.TopicPartition{Topic: "d0"}))
		r.part.maxStart = c.deleted
		if err := m.disk.MkdirAll(keptDir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := vfs.WriteFileAtomic(m.disk, keptDir+"/receipts-1", []byte(c.journal)); err != nil {
			t.Fatal(err)
		}
		w.guarded(func() { r.receipted(0, 9) })
		if got := w.failure == nil; got != c.want {
			t.Errorf("%s: named %v, want %v: %v", name, got, c.want, w.failure)
		}
	}
}

// Kept bytes may have given way to a full disk since a replica was last looked at,
// but for those of the cut that is looked at.
func TestKeptBytesGiveWay(t *testing.T) {
	id := model.TopicIDPartition{TopicID: model.TopicID{7}}
	for _, tc := range []struct {
		full, looked int // the lives in which the disk was full, and the replica last looked at
		older, newer string
		want         bool
	}{
		{0, 0, "", "", true}, {0, 0, "gone", "", false}, {2, 1, "gone", "", true}, {2, 3, "gone", "", false},
		{2, 1, "gone", "gone", false}, {5, 4, "gone", "gone", true},
	} {
		w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
		m := w.machines[0]
		m.lives, m.fullLife = 6, tc.full
		r := m.replica(w.h.part(id, model.TopicPartition{Topic: "d0"}))
		r.receiptLife = tc.looked
		line := func(n, start, end int64, kept string) string {
			return fmt.Sprintf(`{"id":%d,"topicId":%q,"partition":0,"start":%d,"end":%d,"kept":%q,"parts":[{"name":"a"}]}`+"\n", n, id.TopicID.String(), start, end, kept)
		}
		if err := m.disk.MkdirAll(keptDir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := vfs.WriteFileAtomic(m.disk, keptDir+"/receipts-1", []byte(line(1, 20, 30, tc.older)+line(2, 0, 9, tc.newer))); err != nil {
			t.Fatal(err)
		}
		w.guarded(func() { r.receipted(0, 9) })
		if got := w.failure == nil; got != tc.want {
			t.Errorf("%+v: %v", tc, w.failure)
		}
	}
}
