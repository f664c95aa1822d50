package scrub

import (
	"math"

	"github.com/tidemark/tidemark/internal/model"
)

// burst is how long a rest is made up for by going faster.
const burst = model.Instant(300e6)

// Bucket spreads reading over time.
type Bucket struct {
	// Rate is in bytes a second; 0 or less stands still at about one a second.
	Rate float64
	// free is when what was read so far is paid for.
	free model.Instant
}

// Take notes that n bytes were read, and returns until when to pause, 0 for not at
// all.
func (b *Bucket) Take(now model.Instant, n int) model.Instant {
	cost := math.Min(float64(n)/max(b.Rate, 1)*1e9, 3600e9)
	b.free = max(b.free, now-burst) + model.Instant(cost)
	if b.free <= now {
		return 0
	}
	return b.free
}
