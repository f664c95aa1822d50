package scrub_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log/scrub"
)

const (
	minute = model.Timestamp(60_000)
	hour   = 60 * minute
	period = int64(24 * hour)
)

func seg(topic byte, base model.Offset, size int64) scrub.Segment {
	return scrub.Segment{Key: scrub.Key{Replica: model.TopicIDPartition{TopicID: model.TopicID{topic}}, Base: base}, Size: size}
}

func bases(d scrub.Due) (list []model.Offset) {
	for _, s := range d.Next {
		list = append(list, s.Base)
	}
	return list
}

// TestOrder tells a few days of one directory.
func TestOrder(t *testing.T) {
	var b scrub.Book
	all := []scrub.Segment{seg(1, 20, 5), seg(1, 0, 5), seg(1, 10, 5)}
	plan := func(now model.Timestamp, n int, oldest model.Timestamp, want ...model.Offset) {
		t.Helper()
		d := b.Plan(now, period, slices.Values(all), n)
		if !slices.Equal(bases(d), want) || d.OldestMs != int64(oldest) {
			t.Errorf("at %d min: %v, oldest %d min; want %v, %d", now/minute, bases(d), d.OldestMs/int64(minute), want, oldest/minute)
		}
	}
	now := 1000 * hour
	plan(now, 2, 0, 0, 10)
	b.Verified(all[1], now+minute)
	b.Verified(all[2], now+2*minute)
	plan(now+3*minute, 2, 3*minute, 20)
	b.Tried(all[0], now+3*minute)
	plan(now+4*minute, 2, 4*minute) // not again at once
	plan(now+14*minute, 2, 14*minute, 20)
	b.Verified(all[0], now+15*minute)
	plan(now+16*minute, 9, 15*minute) // nothing is due
	plan(now+24*hour, 9, 24*hour-minute)
	plan(now+24*hour+2*minute, 9, 24*hour+minute, 0, 10)
	b.Verified(all[1], now+24*hour+3*minute)

	all = append(all, seg(1, 30, 7)) // a new one comes first
	plan(now+25*hour, 9, 24*hour+58*minute, 30, 10, 20)
	all[1].Size = 4 // one is compacted, one deleted
	all = all[:3]
	b.Verified(seg(1, 0, 5), now+25*hour) // what was verified is not what is there now
	plan(now+25*hour+minute, 9, 24*hour+59*minute, 0, 10, 20)
	all = append(all, seg(1, 30, 7)) // it is another one
	plan(now+25*hour+2*minute, 2, 25*hour, 0, 30)
}

// TestClock: times from the future say nothing, and don't keep anything from being
// verified for ever.
func TestClock(t *testing.T) {
	var b scrub.Book
	all := []scrub.Segment{seg(1, 0, 5), seg(1, 10, 5)}
	now := 1000 * hour
	b.Plan(now, period, slices.Values(all), 9)
	b.Verified(all[0], now)
	b.Tried(all[1], now)
	if d := b.Plan(now-500*hour, period, slices.Values(all), 9); len(d.Next) != 2 || d.OldestMs != 0 {
		t.Errorf("after the clock was set back: %+v", d)
	}
}

// TestResume: what was verified is known to the next process; what is no file of
// ours is as if there were none.
func TestResume(t *testing.T) {
	var b, next scrub.Book
	all := []scrub.Segment{seg(2, 0, 5), seg(1, 10, 6), seg(1, 0, 7)}
	now := 1000 * hour
	b.Plan(now, period, slices.Values(all), 9)
	if b.Changed() {
		t.Error("nothing was verified")
	}
	b.Verified(all[0], now)
	b.Verified(all[2], now+1)
	if !b.Changed() {
		t.Error("something was verified")
	}
	file := b.Marshal()
	if b.Changed() {
		t.Error("that was told")
	}
	if err := next.Unmarshal(file, now+2); err != nil {
		t.Fatal(err)
	}
	if d := next.Plan(now+2, period, slices.Values(all), 9); !slices.Equal(bases(d), []model.Offset{10}) || d.OldestMs != 2 {
		t.Errorf("%+v", d)
	}
	if again := next.Marshal(); !bytes.Equal(again, file) {
		t.Errorf("%x, want %x", again, file)
	}
	for at := range file {
		bad := bytes.Clone(file)
		bad[at] ^= 1
		for _, bad := range [][]byte{bad, file[:at]} {
			var none scrub.Book
			if err := none.Unmarshal(bad, now+2); !errors.Is(err, scrub.ErrNoBook) {
				t.Fatalf("%x: %v", bad, err)
			}
			if d := none.Plan(now+2, period, slices.Values(all), 9); len(d.Next) != 3 {
				t.Fatalf("%x: %+v", bad, d)
			}
		}
	}
}

// TestEverySegmentHasItsTurn: whatever comes and goes, no segment that stays waits
// for longer than it takes to verify all that there are.
func TestEverySegmentHasItsTurn(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var b scrub.Book
	var all []scrub.Segment
	waits := make(map[scrub.Key]int)
	now := 1000 * hour
	for range 3000 {
		now++
		if len(all) == 0 || len(all) < 30 && r.IntN(3) == 0 {
			all = append(all, seg(byte(r.IntN(3)), model.Offset(r.IntN(1<<30)), 5))
		}
		if len(all) > 1 && r.IntN(10) == 0 {
			i := r.IntN(len(all))
			delete(waits, all[i].Key)
			all = slices.Delete(all, i, i+1)
		}
		for _, s := range all {
			waits[s.Key]++
		}
		d := b.Plan(now, 1, slices.Values(all), 1)
		if len(d.Next) == 0 {
			continue
		}
		// New ones come first, one in three turns at most.
		if n := waits[d.Next[0].Key]; n > 120 {
			t.Fatalf("a segment waited for %d turns", n)
		}
		waits[d.Next[0].Key] = 0
		b.Verified(d.Next[0], now)
	}
}

// TestBucket: over any time no more is read than the rate allows, but for a burst.
func TestBucket(t *testing.T) {
	b := scrub.Bucket{Rate: 1000}
	now := model.Instant(5e9)
	read := 0
	for range 1000 {
		until := b.Take(now, 100)
		read += 100
		if until > 0 {
			now = until
		}
		if spent := float64(now-5e9) / 1e9; float64(read) > 1000*(spent+0.3)+100 {
			t.Fatalf("%d bytes in %.1f s", read, spent)
		}
	}
	if took := now - 5e9; took < 98e9 || took > 101e9 {
		t.Errorf("100,000 bytes took %d ms", took/1e6)
	}
	if until := b.Take(now+3600e9, 299); until != 0 {
		t.Errorf("after a rest: paused until %d", until)
	}
	b.Rate = 0
	if until := b.Take(now, 1<<40); until <= 0 {
		t.Error("a rate of nothing does not pause")
	}
}

// FuzzBook: whatever the file holds, it is read or refused.
func FuzzBook(f *testing.F) {
	var b scrub.Book
	s := seg(1, 10, 5)
	b.Plan(9, period, slices.Values([]scrub.Segment{s}), 1)
	b.Verified(s, 9)
	f.Add(b.Marshal())
	f.Fuzz(func(t *testing.T, text []byte) {
		var b, again scrub.Book
		if b.Unmarshal(text, 1<<50) != nil {
			return
		}
		if err := again.Unmarshal(b.Marshal(), 1<<50); err != nil || !bytes.Equal(again.Marshal(), b.Marshal()) {
			t.Errorf("%x: %v", text, err)
		}
	})
}
