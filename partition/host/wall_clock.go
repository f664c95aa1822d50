package host

import (
	"sync"
	"time"

	"github.com/tidemark/tidemark/internal/model"
)

// wallClock tells whether the wall clock can be believed where records would be
// deleted for their age. A clock that jumps ahead would make everything old at
// once.
type wallClock struct {
	mu    sync.Mutex
	known bool
	// ahead is by how many milliseconds the wall clock was ahead of the monotonic
	// one when it was believed last.
	ahead int64
	// doubted is since when it isn't, 0 while it is.
	doubted model.Instant
}

// A jump by more than wallJump is not believed before wallDoubt has passed: time
// enough for whoever watches over the machine, and no more than that for a clock
// that was set right.
const (
	wallJump  = int64(time.Hour / time.Millisecond)
	wallDoubt = model.Instant(24 * time.Hour)
)

// steady reports whether the wall clock went like the monotonic one since it was
// believed last. Falling back makes nothing older, but what it later catches up
// is no reason to doubt it then.
func (c *wallClock) steady(now model.Now) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ahead := int64(now.Wall) - int64(now.Mono)/int64(time.Millisecond)
	jump := ahead - c.ahead
	switch {
	case !c.known, -wallJump <= jump && jump <= wallJump:
	case c.doubted == 0:
		c.doubted = now.Mono
		return false
	case now.Mono-c.doubted < wallDoubt:
		return false
	}
	c.known, c.ahead, c.doubted = true, ahead, 0
	return true
}

// held reports whether nothing is deleted for its age at present.
func (c *wallClock) held() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doubted != 0
}
