package integration

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark/tidemark/protocol/record"
)

// commitFor commits an offset of t-0 for a group, as its administrator.
func commitFor(t *testing.T, adm *kadm.Client, group string, at int64) {
	t.Helper()
	var os kadm.Offsets
	os.AddOffset("t", 0, at, -1)
	eventually(t, 20*time.Second, "a commit of "+group, func() bool {
		r, err := adm.CommitOffsets(t.Context(), group, os)
		return err == nil && r.Error() == nil
	})
}

// offsetOf is what a group has committed of t-0, -1 if nothing.
func offsetOf(t *testing.T, adm *kadm.Client, group string) int64 {
	t.Helper()
	at := int64(-1)
	eventually(t, 20*time.Second, "the offsets of "+group, func() bool {
		r, err := adm.FetchOffsets(t.Context(), group)
		if err != nil || r.Error() != nil {
			return false
		}
		if o, ok := r.Lookup("t", 0); ok {
			at = o.At
		}
		return true
	})
	return at
}

// damageCommit changes the batch in which a group committed: its record's value,
// with a checksum that fits, or any byte, with one that doesn't.
func damageCommit(t *testing.T, name, group string, checksum bool) {
	t.Helper()
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	pos := 0
	for it := record.NewIter(file); it.Next(); {
		b := it.Batch()
		found := false
		if err := b.Each(1<<20, func(r *record.Record) error {
			found = found || bytes.Contains(r.Key, []byte(group))
			if found {
				at := bytes.Index(file[pos:], r.Value)
				binary.BigEndian.PutUint16(file[pos+at:], 99) // a version of nobody
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if found {
			batch := file[pos : pos+b.Size()]
			if checksum {
				binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli)))
			}
			if err := os.WriteFile(name, file, 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		pos += b.Size()
	}
	t.Fatalf("no commit of %s in %s", group, name)
}

// TestDamagedGroupRecords: a record of __consumer_offsets that can't be read costs
// its key, and so does a batch whose checksum is wrong; both are told of, and all
// else is served.
func TestDamagedGroupRecords(t *testing.T) {
	n := newNode(t, "offsets.topic.num.partitions=1")
	n.start()
	cl := n.client()
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	for i, group := range []string{"first", "second", "third", "fourth"} {
		commitFor(t, adm, group, int64(i+1))
	}
	n.stop()
	segments, err := filepath.Glob(filepath.Join(n.dir, "*", "__consumer_offsets-0", "*.log"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("%v, %v", segments, err)
	}
	damageCommit(t, segments[0], "second", true)
	damageCommit(t, segments[0], "third", false)
	n.start()
	for group, want := range map[string]int64{"first": 1, "second": -1, "third": -1, "fourth": 4} {
		if got := offsetOf(t, adm, group); got != want {
			t.Errorf("%s has %d, want %d", group, got, want)
		}
	}
	said := n.p.Stderr.String()
	for _, want := range []string{"some records of groups could not be read", `"records": 1`, `"batches": 1`} {
		if !strings.Contains(said, want) {
			t.Errorf("nothing is said of %q:\n%s", want, said)
		}
	}
	commitFor(t, adm, "second", 22)
	commitFor(t, adm, "third", 33)
	n.stop()
	n.start()
	for group, want := range map[string]int64{"first": 1, "second": 22, "third": 33, "fourth": 4} {
		if got := offsetOf(t, adm, group); got != want {
			t.Errorf("%s has %d in the end, want %d", group, got, want)
		}
	}
}
