package host

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/receipt"
	"github.com/tidemark/tidemark/log/salvage"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/compress"
	"github.com/tidemark/tidemark/protocol/record"
)

// A segment holds batches out of order: [0, 9], [10, 19], [20, 29], and [10, 19] again,
// perhaps with more behind. Appending the index entry of the second [10, 19] fails in
// Kafka's recovery: it drops the whole segment, or, without an index file, does not
// start; or it doesn't notice, and ends the log at 20. Source: LogSegment.recover and
// LogLoader of Apache Kafka.

// disorder is one variant.
type disorder struct {
	stop     log.Stop
	interval int    // index.interval.bytes
	index    string // "sealed", "unsealed", "missing"
	codec    compress.Codec
	size     int  // of a value in bytes: large ones are indexed also every 4096 bytes
	durable  bool // the recovery point is behind [20, 29]
	more     bool // [30, 39] stands behind it
}

func (d disorder) String() string {
	return fmt.Sprintf("%s, interval %d, index %s, %s, values of %d, durable %v, more %v", d.stop, d.interval, d.index, d.codec, d.size, d.durable, d.more)
}

func disorders() (all []disorder) {
	for _, stop := range []log.Stop{log.StopClean, log.StopProcess, log.StopPower} {
		for _, interval := range []int{0, 4096} {
			for _, index := range []string{"sealed", "unsealed", "missing"} {
				for _, codec := range []compress.Codec{compress.None, compress.Gzip} {
					for _, size := range []int{10, 1500} {
						for bits := range 4 {
							all = append(all, disorder{stop, interval, index, codec, size, bits&1 > 0, bits&2 > 0})
						}
					}
				}
			}
		}
	}
	return all
}

// batch is the batch at 10*i, of equal size for all.
func (d disorder) batch(i int, o record.Options) record.Batch {
	o.Codec = d.codec
	b := record.NewBuilder(o)
	for j := range 10 {
		// Text that doesn't compress away.
		value := make([]byte, d.size)
		seed := uint64(i*10 + j + 1)
		for k := range value {
			seed = seed*6364136223846793005 + 1442695040888963407
			value[k] = byte(seed >> 40)
		}
		b.Append(1_700_000_000_000+model.Timestamp(10*i+j), nil, value)
	}
	return b.Build()
}

func TestBatchesOutOfOrder(t *testing.T) {
	cut, offline := 0, 0
	for _, d := range disorders() {
		t.Run(d.String(), func(t *testing.T) {
			if d.play(t) {
				cut++
			} else {
				offline++
			}
		})
	}
	if cut == 0 || offline == 0 {
		t.Errorf("cut %d times, offline %d times", cut, offline)
	}
}

// play makes the log, disorders it, and starts a broker on it. It returns whether the
// log was cut.
func (d disorder) play(t *testing.T) (cut bool) {
	n := newNode(t)
	n.topic["t"] = map[string]string{"index.interval.bytes": fmt.Sprint(d.interval)}
	n.start()
	n.register()
	n.create("t", 1)
	n.create("other", 1)
	for i := range 3 {
		n.send(n.m.Get("t", 0), 1, d.batch(i, record.Options{})).want(t, 0, model.Offset(10*i))
	}
	n.send(n.m.Get("other", 0), 1, batchOf(3, -1, 0)).want(t, 0, 0)
	n.stop()
	segment := "/data/t-0/00000000000000000000.log"
	whole := contentOf(t, n.disk, segment)
	at := batchesOf(whole)
	bad := append(bytes.Clone(whole), whole[at[1][0]:at[1][1]]...)
	stored := [][]byte{whole[:at[0][1]], whole[at[1][0]:at[1][1]], whole[at[2][0]:]}
	if d.more {
		b := d.batch(3, record.Options{BaseOffset: 30, LeaderEpoch: record.Batch(whole).LeaderEpoch()})
		bad, stored = append(bad, b...), append(stored, b)
	}
	d.disorder(t, n, segment, bad)
	if d.stop == log.StopPower {
		n.boot += "+"
	}

	for range 2 {
		sum := n.start()
		if sum.Loaded+sum.Offline != 2 || n.m.Get("other", 0).State().LogEnd != 3 {
			t.Fatalf("%+v: %s", sum, n.m.Get("other", 0).State().Reason)
		}
		n.register()
		n.send(n.m.Get("other", 0), 1, batchOf(1, -1, 0)).want(t, 0, 3)
		s := look(n.m.Get("t", 0).State())
		cut = !s.offline()
		sources := []string{"/data/t-0"}
		if cut {
			if s.end != 30 || !equalBatches(s.batches, asBatches(stored[:3])) {
				t.Fatalf("[%d, %d) in %d batches", s.start, s.end, len(s.batches))
			}
			r := n.onlyReceipt()
			if r.Cause != receipt.CrashTail || r.End < 30 || r.Bytes != int64(len(bad)-len(whole)) {
				t.Fatalf("%+v", r)
			}
			for _, p := range r.Parts {
				sources = append(sources, path.Join(keptDir, r.Kept, p.Name))
			}
		} else if s.reason == "" || !bytes.Equal(contentOf(t, n.disk, segment), bad) {
			t.Fatalf("offline for %q, and the file changed: %v", s.reason, !bytes.Equal(contentOf(t, n.disk, segment), bad))
		}
		if mayCut := d.stop == log.StopPower && !d.durable; cut != mayCut {
			t.Fatalf("cut: %v; %s", cut, s.reason)
		}
		d.salvage(t, n.disk, sources, stored)
		if !cut {
			n.send(n.m.Get("t", 0), 1, batchOf(1, -1, 0)).want(t, partition.CodeStorageError, -1)
		}
		n.disk = n.disk.Fork()
		n.kill()
		other := n.m.Get("other", 0).State().LogEnd
		if other != 4 {
			t.Fatalf("the other log ends at %d", other)
		}
		n.rewind(t)
	}
	return cut
}

// rewind takes the record that a round has written to the other partition.
func (n *node) rewind(t *testing.T) {
	segment := "/data/other-0/00000000000000000000.log"
	b := contentOf(t, n.disk, segment)
	if err := vfs.WriteFileAtomic(n.disk, segment, b[:batchesOf(b)[0][1]]); err != nil {
		t.Fatal(err)
	}
}

func asBatches(all [][]byte) (list []record.Batch) {
	for _, b := range all {
		list = append(list, b)
	}
	return list
}

// disorder puts the bad segment in place, and takes away what the variant lacks.
func (d disorder) disorder(t *testing.T, n *node, segment string, bad []byte) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(vfs.WriteFileAtomic(n.disk, segment, bad))
	stem := segment[:len(segment)-len(".log")]
	if d.index != "sealed" {
		must(n.disk.Remove(stem + ".seal"))
	}
	if d.index == "missing" {
		must(n.disk.Remove(stem + ".index"))
	}
	if d.stop != log.StopClean {
		must(n.disk.Remove("/data/" + checkpoint.CleanShutdownFile))
	}
	points, err := checkpoint.ReadOffsets(n.disk, "/data/"+checkpoint.RecoveryPointFile)
	must(err)
	if !d.durable {
		points = maps.Clone(points)
		delete(points, model.TopicPartition{Topic: "t"})
		must(checkpoint.WriteOffsets(n.disk, "/data/"+checkpoint.RecoveryPointFile, points))
	}
	must(n.disk.SyncDir("/data/t-0"))
	must(n.disk.SyncDir("/data"))
}

// salvage gets every batch out, once and in order, of the log and what was kept of it.
func (d disorder) salvage(t *testing.T, disk vfs.FS, sources []string, want [][]byte) {
	t.Helper()
	s, err := salvage.Look(disk, sources)
	if err != nil {
		t.Fatal(err)
	}
	out := "/saved/t-0"
	if _, err := s.Export(disk, out); err != nil {
		t.Fatal(err)
	}
	l, _, err := log.Open(log.Options{FS: disk, Dir: out, Stop: log.StopPower})
	if err != nil {
		t.Fatal(err)
	}
	var got []record.Batch
	err = l.View().Batches(0, nil, func(b record.Batch) error {
		got = append(got, slices.Clone(b))
		return b.CheckCRC()
	})
	if err != nil || !equalBatches(got, asBatches(want)) {
		t.Fatalf("%d batches were salvaged of %d: %v", len(got), len(want), err)
	}
	if err := disk.RemoveAll("/saved"); err != nil {
		t.Fatal(err)
	}
}
