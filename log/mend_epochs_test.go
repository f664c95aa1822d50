package log_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/log/logtest"
)

// led is a rig whose log was led in many epochs, which begin inside its segments.
func led(t testing.TB) (*rig, *logtest.Model) {
	r := newRig(t)
	r.o.Config.SegmentBytes, r.o.Config.IndexIntervalBytes = 400, 100
	r.start(log.StopClean, 0)
	m := &logtest.Model{}
	for _, seg := range []string{"001113ss", "ss::::<<", "<<<<<<<<", "<<IIIIJJ"} {
		var set []byte
		for i, c := range seg {
			if c == 's' {
				c = '3'
			}
			set = append(set, logtest.Batches(m.End+model.Offset(i), 1, model.LeaderEpoch(c-'0'))...)
		}
		r.append(set)
		m.Append(set)
	}
	r.flush()
	if n := len(r.l.View().Segments()); n != 4 {
		t.Fatalf("%d segments, want 4", n)
	}
	return r, m
}

func (r *rig) epochFile() string { return filepath.Join(testDir, checkpoint.EpochFile) }

// verifyAll verifies every segment, and mends the epochs where that is what is
// wrong. It returns how often, and the first damage.
func (r *rig) verifyAll() (mended int, damage error) {
	for _, s := range r.l.View().Segments() {
		err := r.l.View().VerifySegment(s.Base, r.l.Epochs(), model.NoEpoch)
		var wrong *log.WrongEpochs
		if errors.As(err, &wrong) {
			mended++
			r.must(r.l.MendEpochs(wrong))
			err = r.l.View().VerifySegment(s.Base, r.l.Epochs(), model.NoEpoch)
		}
		if err != nil && damage == nil {
			damage = err
		}
	}
	return mended, damage
}

// readAll reads as consumers do, and has a segment verified where that fails. Who
// reads the last batches of a log is given them without a look at their heads.
func (r *rig) readAll() (mended int, damage error) {
	read := func(from model.Offset) error {
		region, err := r.l.View().Read(from, r.l.LogEnd(), 1<<20, true)
		if err == nil && (region.Len() == 0 || region.Start() > from) {
			err = fmt.Errorf("%d bytes from %d on", region.Len(), region.Start())
		}
		region.Release()
		return err
	}
	for from := r.l.LogStart(); from < r.l.LogEnd(); from++ {
		if read(from) == nil {
			continue
		}
		var wrong *log.WrongEpochs
		err := r.l.View().VerifySegment(from, r.l.Epochs(), model.NoEpoch)
		if !errors.As(err, &wrong) {
			return mended, fmt.Errorf("offset %d: %w", from, err)
		}
		mended++
		r.must(r.l.MendEpochs(wrong))
		if err := read(from); err != nil {
			return mended, fmt.Errorf("offset %d, mended: %w", from, err)
		}
	}
	rest, damage := r.verifyAll()
	return mended + rest, damage
}

// withoutDigests makes the seals those of a version that knew of none.
func (r *rig) withoutDigests() {
	for _, s := range []model.Offset{0, 8, 16, 24} {
		seal := r.read(r.file(s, ".seal"))
		r.rewrite(r.file(s, ".seal"), appendCRC(append(append([]byte("TMS1"), seal[4]&1), seal[5:49]...)))
	}
}

// Whatever digit of the epoch file becomes another, a log whose segments have digests
// serves all that was written, and knows its epochs once somebody has come by; and so
// it is at the next start. Where nothing vouches for the batches, it is damage.
func TestEveryFlippedDigitOfTheEpochFile(t *testing.T) {
	first, m := led(t)
	text := first.read(first.epochFile())
	want := fmt.Sprint(first.l.Epochs().Entries())
	for _, bare := range []bool{false, true} {
		atStart, mended, damaged, silent := 0, 0, 0, 0
		for at, old := range text {
			for digit := byte('0'); digit <= '9'; digit++ {
				if old < '0' || old > '9' || digit == old {
					continue
				}
				for i, look := range []func(r *rig) (int, error){(*rig).readAll, (*rig).verifyAll} {
					r, _ := led(t)
					r.must(r.l.Close(true))
					b := []byte(string(text))
					b[at] = digit
					r.rewrite(r.epochFile(), b)
					if bare {
						r.withoutDigests()
					}
					rep := r.start(log.StopClean, 32)
					n, err := look(r)
					what := fmt.Sprintf("%q, without digests %v, look %d", b, bare, i)
					switch {
					case err != nil && bare:
						damaged++
						continue
					case err != nil:
						t.Errorf("%s: %v", what, err)
						continue
					case n > 0 && bare:
						t.Errorf("%s: batches are believed of which nobody knows how they were written", what)
					case n > 0:
						mended++
					case len(rep.Rebuilt) > 0:
						atStart++
					default:
						silent++
					}
					if err := logtest.Check(r.l, m); err != nil {
						t.Errorf("%s: %v", what, err)
					}
					if got := fmt.Sprint(r.l.Epochs().Entries()); got != want {
						t.Errorf("%s: epochs %s, want %s", what, got, want)
					}
					r.must(r.l.Close(true))
					if rep := r.start(log.StopClean, 32); len(rep.Rebuilt) > 0 || string(r.read(r.epochFile())) != string(text) {
						t.Errorf("%s: the next start finds %q, and makes anew %v", what, r.read(r.epochFile()), rep.Rebuilt)
					}
				}
			}
		}
		t.Logf("without digests %v: at the start %d, mended %d, damage %d, unnoticed %d", bare, atStart, mended, damaged, silent)
		if atStart == 0 || !bare && mended == 0 || bare && damaged == 0 {
			t.Error("the test can't fail")
		}
	}
}

// flippedEpochIsNoWrongEpoch: a batch that has another epoch than was written is
// damage, though the epochs rise with it.
func flippedEpochIsNoWrongEpoch(t testing.TB) error {
	r, _ := led(t)
	b := r.read(r.file(0, ".log"))
	b[places(b)[4]+15] = 2 // 1 was written, 3 follows
	r.overwrite(r.file(0, ".log"), b)
	err := r.l.View().VerifySegment(0, r.l.Epochs(), model.NoEpoch)
	var wrong *log.WrongEpochs
	var damage *log.CorruptionError
	if errors.As(err, &wrong) || !errors.As(err, &damage) || damage.Offset != 4 {
		return fmt.Errorf("a batch of epoch 1 has become one of epoch 2: %v", err)
	}
	return nil
}

// With both wrong, the epoch file and a batch, it is damage.
func TestWrongEpochsAndDamage(t *testing.T) {
	for what, harm := range map[string]func(b []byte, at []int){ // order-free
		"epoch":   func(b []byte, at []int) { b[at[5]+15] = 2 },
		"records": func(b []byte, at []int) { b[at[6]+65] ^= 4 },
		"offset":  func(b []byte, at []int) { b[at[3]+7] ^= 1 },
		"CRC":     func(b []byte, at []int) { b[at[0]+17] ^= 1 },
	} {
		r, _ := led(t)
		r.must(r.l.Close(true))
		b := r.read(r.file(0, ".log"))
		r.rewrite(r.epochFile(), []byte("0\n7\n0 0\n1 3\n3 5\n10 10\n12 14\n25 26\n26 30\n"))
		harm(b, places(b))
		r.rewrite(r.file(0, ".log"), b)
		r.start(log.StopClean, 32)
		for range 2 {
			_, scrubbed := r.l.View().Scrub(0, log.Scrubbing{Epochs: r.l.Epochs(), Newest: model.NoEpoch, Buf: make([]byte, 128)})
			for _, err := range []error{scrubbed, r.l.View().VerifySegment(0, r.l.Epochs(), model.NoEpoch)} {
				var wrong *log.WrongEpochs
				if err == nil || errors.As(err, &wrong) {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
	}
}

// A mended cache keeps what the segment says nothing of, above all the epoch in which
// nothing was written yet, and nothing of a segment that has changed meanwhile counts.
func TestMendEpochsOfALogInUse(t *testing.T) {
	const bad = "0\n7\n0 0\n1 3\n3 5\n10 11\n12 14\n25 26\n26 30\n" // 1 began at 2, 10 at 10
	right := []epoch.Entry{{Epoch: 0, Start: 0}, {Epoch: 1, Start: 2}, {Epoch: 3, Start: 5}, {Epoch: 10, Start: 10}, {Epoch: 12, Start: 14}, {Epoch: 25, Start: 26}, {Epoch: 26, Start: 30}}
	for _, tc := range []struct {
		name      string
		meanwhile func(r *rig)
		stale     bool
		want      []epoch.Entry
	}{
		{"a new leader that has written nothing", func(r *rig) { r.must(r.l.AssignEpoch(30, 32)) }, false, append(right[:7:7], epoch.Entry{Epoch: 30, Start: 32})},
		{"a new leader that has written", func(r *rig) { r.append(logtest.Batches(32, 2, 31)) }, false, append(right[:7:7], epoch.Entry{Epoch: 31, Start: 32})},
		{"a cut behind it", func(r *rig) { r.must(cut(r.l, 24)) }, false, right[:5]},
		{"a cut inside", func(r *rig) { r.must(cut(r.l, 12)) }, true, []epoch.Entry{right[0], {Epoch: 1, Start: 3}, right[2], {Epoch: 10, Start: 11}}},
		{"deleted in front", func(r *rig) { r.must(r.l.IncrementLogStart(9)) }, false, append([]epoch.Entry{{Epoch: 3, Start: 9}}, right[3:]...)},
		{"deleted inside", func(r *rig) { r.must(r.l.IncrementLogStart(13)) }, false, append([]epoch.Entry{{Epoch: 10, Start: 13}}, right[4:]...)},
		{"compacted", func(r *rig) { r.must(compact(r.l, 8, 1, thin)) }, true, nil},
	} {
		r, _ := led(t)
		r.must(r.l.Close(true))
		r.rewrite(r.epochFile(), []byte(bad))
		r.start(log.StopClean, 32)
		r.must(r.l.View().VerifySegment(16, r.l.Epochs(), model.NoEpoch))
		_, err := r.l.View().Scrub(8, log.Scrubbing{Epochs: r.l.Epochs().Clone(), Newest: model.NoEpoch, Buf: make([]byte, 128)})
		var wrong *log.WrongEpochs
		if !errors.As(err, &wrong) || wrong.Damage.Offset != 10 || wrong.File != r.epochFile() {
			t.Fatalf("%s: %v", tc.name, err)
		}
		tc.meanwhile(r)
		before := fmt.Sprint(r.l.Epochs().Entries())
		err = r.l.MendEpochs(wrong)
		if errors.Is(err, log.ErrStaleView) != tc.stale || err != nil && !tc.stale {
			t.Errorf("%s: %v", tc.name, err)
		}
		got := r.l.Epochs().Entries()
		if tc.stale && fmt.Sprint(got) != before {
			t.Errorf("%s: %v, it was %s", tc.name, got, before)
		}
		if tc.want == nil {
			continue
		}
		if !tc.stale && r.l.LogStart() == 0 { // the other one is found on its own
			if n, err := r.verifyAll(); n != 1 || err != nil {
				t.Errorf("%s: mended %d more, %v", tc.name, n, err)
			}
			got = r.l.Epochs().Entries()
		}
		if fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
		if _, err := epoch.New(got); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func cut(l *log.Log, to model.Offset) error {
	_, err := l.Truncate(to)
	return err
}

// A kill between the mending and the flush that stores it costs that it is found
// once more.
func TestMendedEpochsAndAKill(t *testing.T) {
	r, m := led(t)
	r.must(r.l.Close(true))
	r.rewrite(r.epochFile(), []byte("0\n7\n0 0\n1 3\n3 5\n10 10\n12 14\n25 26\n26 30\n"))
	r.start(log.StopClean, 32)
	for _, flush := range []bool{false, true, true} {
		n, err := r.verifyAll()
		if err != nil || n > 1 {
			t.Fatalf("mended %d, %v", n, err)
		}
		r.check(m)
		if flush && n > 0 {
			r.mend()
		}
		r.kill()
		r.start(log.StopProcess, 32)
	}
	if n, err := r.verifyAll(); n != 0 || err != nil {
		t.Errorf("mended %d, %v", n, err)
	}
}

// A compaction vouches for its output with what it has read. So it takes nothing from
// a segment that is not as it was written, and vouches for nothing where that is not known.
func TestCompactionKeepsWhatIsVouchedFor(t *testing.T) {
	r, _ := led(t)
	whole := r.read(r.file(0, ".log"))
	b := r.read(r.file(0, ".log"))
	b[places(b)[4]+15] = 2
	r.overwrite(r.file(0, ".log"), b)
	var damage *log.CorruptionError
	if err := compact(r.l, 0, 2, thin); !errors.As(err, &damage) || damage.Segment != 0 {
		t.Errorf("a batch of another epoch is compacted: %v", err)
	}
	r.overwrite(r.file(0, ".log"), whole)
	r.must(r.l.Close(true))
	r.withoutDigests()
	r.start(log.StopClean, 32)
	r.must(compact(r.l, 0, 2, thin))
	if got, err := r.scrub(0); err != nil || !got.Unvouched {
		t.Errorf("%+v, %v", got, err)
	}
}

// Nor does a start that has to read a segment for want of its indexes.
func TestRescannedSegmentIsNotVouchedFor(t *testing.T) {
	r, _ := led(t)
	r.must(r.l.Close(true))
	r.must(r.mem.Remove(r.file(0, ".seal")))
	r.must(r.mem.Remove(r.file(0, ".index")))
	b := r.read(r.file(0, ".log"))
	b[places(b)[4]+15] = 2
	r.rewrite(r.file(0, ".log"), b)
	r.start(log.StopClean, 32)
	err := r.l.View().VerifySegment(0, r.l.Epochs(), model.NoEpoch)
	var wrong *log.WrongEpochs
	if err == nil || errors.As(err, &wrong) {
		t.Errorf("a batch of another epoch is believed: %v", err)
	}
}
