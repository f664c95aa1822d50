package quorum

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
)

// A voter of several whose metadata log can't be written for want of room stands
// aside (aside.go): another takes over. A voter that is alone looks for room before
// it promises anything, and refuses what would write while there is none; what
// writes nothing, heartbeats above all, is answered as ever.

const (
	// roomMax is how much must be free: more than a group of commands takes, and
	// enough for what producers may append on the same disk meanwhile. Of a small
	// disk it is a part, but not less than roomMin.
	roomMax = 8 << 20
	roomMin = 64 << 10
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
	free, enough := r.n.room()
	r.full = !enough
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

// keepsBroker reports whether a command is one that brings a broker into the cluster
// or keeps it there: a few hundred bytes that are tried even so, since a broker that
// can't start can't have anything deleted either.
func keepsBroker(req kmsg.Request) bool {
	switch req.(type) {
	case *kmsg.BrokerRegistrationRequest, *kmsg.BrokerHeartbeatRequest:
		return true
	}
	return false
}

// makesRoom reports whether a command is one that frees more than it takes, and was
// given what it takes.
func (n *Node) makesRoom(req kmsg.Request) bool {
	_, deletes := req.(*kmsg.DeleteTopicsRequest)
	return deletes && n.config.SpareRoom != nil && n.config.SpareRoom()
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
