package quorum

import (
	"time"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
)

// A write of the metadata log that fails for want of space ends the node: what the
// consensus library was promised can't be taken back. In a quorum of several that is
// as well, since another voter takes over. A voter that is alone looks for room
// before it promises anything, and refuses what would write while there is none;
// what writes nothing, heartbeats above all, is answered as ever.

const (
	// roomLeast is how much must be free: more than a group of commands takes, and
	// enough for what producers may append on the same disk meanwhile.
	roomLeast = 8 << 20
	// roomAgain is how soon the disk is looked at again for what is due by itself.
	roomAgain = model.Instant(500 * time.Millisecond)
)

// roomLeft says whether the disk has room, asking it once and only if need be.
type roomLeft struct {
	n     *Node
	now   model.Now
	asked bool
	full  bool
}

// none reports that there is none.
func (r *roomLeft) none() bool {
	if r.asked || !r.n.sole() {
		return r.full
	}
	r.asked = true
	free, _, err := r.n.config.FS.Free(r.n.dir)
	r.full = err == nil && free < roomLeast
	switch {
	case r.full && r.n.fullUntil == 0:
		r.n.logger.Error("no room for metadata; changes are refused until there is", zap.Int64("free_bytes", free))
	case !r.full && r.n.fullUntil != 0:
		r.n.logger.Warn("there is room for metadata again")
	}
	r.n.fullUntil = 0
	if r.full {
		r.n.fullUntil = r.now.Mono + roomAgain
	}
	return r.full
}

// expire is the controller's Expire, unless there is no room for what it decides.
func (n *Node) expire(now model.Now, view *metadata.Image, room *roomLeft) (controller.Result, bool) {
	if n.fullUntil != 0 && (now.Mono < n.fullUntil || room.none()) {
		return controller.Result{}, false
	}
	if n.ctl.NextDeadline() <= now.Mono && room.none() {
		return controller.Result{}, false
	}
	return n.ctl.Expire(now, view)
}
