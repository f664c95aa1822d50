package log_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/protocol/record"
)

// overwrite changes bytes under the open log, as a disk does that forgets.
func (r *rig) overwrite(path string, data []byte) {
	r.Helper()
	f, err := r.mem.OpenFile(path, os.O_RDWR, 0)
	r.must(err)
	_, err = f.WriteAt(data, 0)
	r.must(err)
	r.must(f.Close())
}

// No bit of a segment flips unnoticed under a log that is in use, be it one that
// the CRC doesn't cover; the other segments are sound meanwhile.
func TestVerifySegmentSeesEveryFlippedBit(t *testing.T) {
	r, _ := segmented(t)
	for _, base := range []model.Offset{16, 24} { // sealed, and being written
		path := r.file(base, ".log")
		whole := r.read(path)
		for at := range whole {
			for bit := range 8 {
				b := bytes.Clone(whole)
				b[at] ^= 1 << bit
				r.overwrite(path, b)
				err := r.l.View().VerifySegment(base+3, r.l.Epochs(), model.NoEpoch)
				if c := (*log.CorruptionError)(nil); !errors.As(err, &c) || c.Segment != base {
					t.Fatalf("segment %d, bit %d of byte %d: %v", base, bit, at, err)
				}
			}
		}
		for _, sound := range []model.Offset{0, 8} {
			if err := r.l.View().VerifySegment(sound, r.l.Epochs(), model.NoEpoch); err != nil {
				t.Fatal(err)
			}
		}
		r.overwrite(path, whole)
		if err := r.l.View().VerifySegment(base, r.l.Epochs(), model.NoEpoch); err != nil {
			t.Fatal(err)
		}
	}
}

// Damage that was noted is found at every later load, below the recovery point
// and above it, whatever stop came in between, until the note is gone.
func TestNotedDamageIsFoundAgain(t *testing.T) {
	for _, stop := range []log.Stop{log.StopClean, log.StopProcess, log.StopPower} {
		for _, rp := range []model.Offset{12, 32} {
			r, m := segmented(t)
			path := r.file(16, ".log")
			whole := r.read(path)
			r.overwrite(path, flip(whole, 2*record.Batch(whole).Size()+65))
			var c *log.CorruptionError
			if err := r.l.View().VerifySegment(18, r.l.Epochs(), model.NoEpoch); !errors.As(err, &c) || c.Offset != 18 {
				t.Fatalf("%v", err)
			}
			r.must(log.NoteDamage(r.fs, c))
			for range 2 {
				r.kill()
				if c := r.damaged(stop, rp); c.Segment != 16 || c.Offset != 18 {
					t.Errorf("after %s: %v", stop, c)
				}
			}
			r.rewrite(path, whole)
			r.must(r.fs.Remove(r.file(16, ".damaged")))
			r.start(stop, rp)
			r.check(m)
		}
	}
}
