package log_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/protocol/record"
)

// scrub looks through a sealed segment with nothing but the digest to go by for
// what no CRC covers: the epoch cache is empty.
func (r *rig) scrub(base model.Offset) (log.Scrubbed, error) {
	return r.l.View().Scrub(base, log.Scrubbing{Epochs: &epoch.Cache{}, Newest: model.NoEpoch, Buf: make([]byte, 128)})
}

// mend stores what was made anew.
func (r *rig) mend() {
	r.Helper()
	m := r.l.StartMend()
	if m == nil {
		r.Fatal("nothing to mend")
	}
	r.must(m.Run())
	r.l.FinishMend(m)
}

// spoilt is the damage of a batch whose head has a flipped bit.
func spoilt(r *rig, base model.Offset, n, byteAt int) error {
	path := r.file(base, ".log")
	b := r.read(path)
	at := 0
	for range n {
		at += record.Batch(b[at:]).Size()
	}
	r.overwrite(path, flip(b, at+byteAt))
	_, err := r.scrub(base)
	var c *log.CorruptionError
	if !errors.As(err, &c) {
		return fmt.Errorf("a flipped bit in byte %d of batch %d of segment %d: %v", byteAt, n, base, err)
	}
	r.overwrite(path, b)
	_, err = r.scrub(base)
	return err
}

// raisedOffsetIsFound: where compaction may have left gaps nothing but the digest
// tells that a base offset was changed.
func raisedOffsetIsFound(t testing.TB) error {
	r, _ := segmented(t)
	if err := compact(r.l, 8, 1, thin); err != nil {
		return err
	}
	b := r.read(r.file(8, ".log"))
	b[7]-- // the first batch of what compaction has left, 9, is at 8
	r.overwrite(r.file(8, ".log"), b)
	_, err := r.scrub(8)
	if c := (*log.CorruptionError)(nil); !errors.As(err, &c) || c.Offset != 8 {
		return fmt.Errorf("base offset 9 has become 8: %v", err)
	}
	return nil
}

// loweredOffsetIsFound: an offset that lies in what was there before.
func loweredOffsetIsFound(t testing.TB) error {
	r, _ := segmented(t)
	return spoilt(r, 8, 2, 7)
}

// Every flipped bit of a sealed segment is found by a scrub, and of those in a
// head, which its batch is named for, the place.
func TestScrubSeesEveryFlippedBit(t *testing.T) {
	r, _ := segmented(t)
	for _, base := range []model.Offset{0, 16} {
		path := r.file(base, ".log")
		whole := r.read(path)
		for at := range whole {
			for bit := range 8 {
				b := bytes.Clone(whole)
				b[at] ^= 1 << bit
				r.overwrite(path, b)
				_, err := r.scrub(base)
				if c := (*log.CorruptionError)(nil); !errors.As(err, &c) || c.Segment != base {
					t.Fatalf("segment %d, bit %d of byte %d: %v", base, bit, at, err)
				}
			}
		}
		r.overwrite(path, whole)
		if got, err := r.scrub(base); err != nil || got.Unvouched || len(got.Wrong) > 0 || got.Bytes != int64(len(whole)) {
			t.Errorf("segment %d as it was: %+v %v", base, got, err)
		}
	}
}

// The batch is named whose epoch was raised, though the batches around it and their
// CRCs agree.
func TestScrubNamesTheBatch(t *testing.T) {
	r, _ := segmented(t)
	path := r.file(16, ".log")
	b := r.read(path)
	pos := 0
	for range 3 {
		pos += record.Batch(b[pos:]).Size()
	}
	b[pos+12+3] ^= 1 // leader epoch 2 becomes 3
	r.overwrite(path, b)
	_, err := r.scrub(16)
	c := (*log.CorruptionError)(nil)
	if !errors.As(err, &c) || c.Pos != int64(pos) || c.Offset != 19 || !strings.Contains(c.Error(), "bit 0 of the leader epoch") {
		t.Errorf("%v", err)
	}
	b[pos+12+2] ^= 6 // three bits
	r.overwrite(path, b)
	if _, err = r.scrub(16); !errors.As(err, &c) || c.Segment != 16 || !strings.Contains(c.Error(), "some of 7 batches") {
		t.Errorf("%v", err)
	}
}

// What was written is known of every way to write: appended at once or across
// starts, compacted, resealed behind a cut.
func TestScrubKnowsWhatWasWritten(t *testing.T) {
	for name, do := range map[string]func(r *rig) model.Offset{
		"appended": func(*rig) model.Offset { return 0 },
		"compacted": func(r *rig) model.Offset {
			r.must(compact(r.l, 0, 2, thin))
			return 0
		},
		"another start": func(r *rig) model.Offset {
			r.kill()
			r.start(log.StopProcess, 32)
			return 8
		},
		"appended across a clean stop": func(r *rig) model.Offset {
			r.must(r.l.Close(true))
			r.start(log.StopClean, 32)
			r.append(logtest.Batches(32, 1, 3))
			r.must(r.l.Roll(model.Now{}))
			return 24
		},
		"appended across a kill": func(r *rig) model.Offset {
			r.kill()
			r.start(log.StopProcess, 16)
			r.append(logtest.Batches(32, 1, 3))
			r.must(r.l.Roll(model.Now{}))
			return 24
		},
		"behind a cut": func(r *rig) model.Offset {
			_, err := r.l.Truncate(24)
			r.must(err)
			r.append(logtest.Batches(24, 2, 4))
			return 16
		},
	} { // order-free
		t.Run(name, func(t *testing.T) {
			r, _ := segmented(t)
			base := do(r)
			got, err := r.scrub(base)
			if err != nil || got.Unvouched || len(got.Wrong) > 0 {
				t.Fatalf("%+v, %v", got, err)
			}
			for at := range 21 {
				if err := spoilt(r, base, 1, at); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Of a segment that came without a digest, as from Kafka, the first scrub makes
// one, which is stored with the seal; damage is found from then on, also by the
// next process. A seal of an earlier version lacks it too.
func TestScrubDerivesADigest(t *testing.T) {
	r, m := segmented(t)
	r.kill()
	for _, base := range []model.Offset{0, 8, 16} {
		seal := r.read(r.file(base, ".seal"))
		old := append([]byte("TMS1"), seal[4]&1)
		old = append(old, seal[5:49]...)
		old = appendCRC(old)
		r.rewrite(r.file(base, ".seal"), old)
	}
	r.must(r.fs.Remove(r.file(16, ".seal")))
	r.start(log.StopProcess, 32)
	r.check(m)
	for _, base := range []model.Offset{0, 16} {
		if got, err := r.scrub(base); err != nil || !got.Unvouched {
			t.Fatalf("first: %+v, %v", got, err)
		}
		if got, err := r.scrub(base); err != nil || got.Unvouched {
			t.Fatalf("second: %+v, %v", got, err)
		}
	}
	r.mend()
	r.kill()
	r.start(log.StopProcess, 32)
	for _, base := range []model.Offset{0, 16} {
		if got, err := r.scrub(base); err != nil || got.Unvouched || len(got.Wrong) > 0 {
			t.Fatalf("another process: %+v, %v", got, err)
		}
		if err := spoilt(r, base, 3, 7); err != nil {
			t.Error(err)
		}
	}
	if got, err := r.scrub(8); err != nil || !got.Unvouched {
		t.Errorf("not scrubbed before: %+v, %v", got, err)
	}
	r.check(m)
}

// Every flipped bit and every missing file beside a segment is found, and the file
// is as it was once it was mended.
func TestScrubMendsSideFiles(t *testing.T) {
	for _, suffix := range []string{".index", ".timeindex", ".txnindex", ".seal"} {
		r, m := segmented(t)
		path := r.file(8, suffix)
		good := r.read(path)
		name := path[strings.LastIndexByte(path, '/')+1:]
		for at := -1; at < len(good); at++ {
			if at < 0 {
				r.must(r.fs.Remove(path))
			} else {
				r.overwrite(path, flip(good, at))
			}
			got, err := r.scrub(8)
			if err != nil || len(got.Wrong) != 1 || got.Wrong[0] != name {
				t.Fatalf("%s, byte %d: %+v, %v", suffix, at, got, err)
			}
			r.mend()
			if !bytes.Equal(r.read(path), good) {
				t.Fatalf("%s, byte %d: not as it was", suffix, at)
			}
		}
		if got, err := r.scrub(8); err != nil || len(got.Wrong) > 0 {
			t.Errorf("%s: %+v, %v", suffix, got, err)
		}
		r.check(m)
	}
}

// What becomes of a segment while it is read is no damage, and never waits for the
// reading.
func TestScrubBesideChanges(t *testing.T) {
	for name, do := range map[string]func(r *rig){
		"cut": func(r *rig) {
			_, err := r.l.Truncate(10)
			r.must(err)
			if left, err := r.l.Reclaim(); left > 0 || err != nil {
				r.Fatalf("%d wait, %v", left, err)
			}
		},
		"dropped": func(r *rig) {
			r.must(r.l.IncrementLogStart(24))
			_, _, err := r.l.DropBelow()
			r.must(err)
			if left, err := r.l.Reclaim(); left > 0 || err != nil {
				r.Fatalf("%d wait, %v", left, err)
			}
		},
		"dropped, not unlinked": func(r *rig) {
			r.must(r.l.IncrementLogStart(24))
			d := r.l.StartDrop(24)
			r.must(r.l.FinishDrop(d, d.Run()))
		},
		"compacted": func(r *rig) { r.must(compact(r.l, 8, 1, thin)) },
		"emptied": func(r *rig) {
			_, err := r.l.TruncateFullyAndStartAt(100)
			r.must(err)
		},
	} { // order-free
		t.Run(name, func(t *testing.T) {
			for when := range 7 {
				r, _ := segmented(t)
				n := 0
				view := r.l.View()
				_, err := view.Scrub(8, log.Scrubbing{Epochs: r.l.Epochs().Clone(), Newest: model.NoEpoch, Buf: make([]byte, 80), Spend: func(int) error {
					if n++; n == when+1 {
						do(r)
					}
					return nil
				}})
				if n <= when || !errors.Is(err, log.ErrStaleView) {
					t.Fatalf("after batch %d: %v", when, err)
				}
				if view.Holds(r.l.View(), 8) {
					t.Error("the segment is said to be the same")
				}
			}
		})
	}
}

// Spend ends a scrub.
func TestScrubEnds(t *testing.T) {
	r, _ := segmented(t)
	enough := errors.New("enough")
	_, err := r.l.View().Scrub(8, log.Scrubbing{Epochs: &epoch.Cache{}, Newest: model.NoEpoch, Spend: func(int) error { return enough }})
	if !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	if _, err := r.scrub(24); !errors.Is(err, log.ErrStaleView) {
		t.Errorf("the segment that is being written: %v", err)
	}
}

func appendCRC(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}
