package sim

import (
	"fmt"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition/host"
)

// counter rides on every partition, as a coordinator would: a state machine
// whose state is what the records below the high watermark say. It loads when
// its replica comes to lead, follows while it leads, and unloads; whatever it
// has applied must have been applied by all who lead later.
type counter struct {
	r *replica
	n *node

	led     bool
	epoch   model.LeaderEpoch
	loadTo  model.Offset // the log's end when the reign began
	told    model.Offset // everything below is replicated
	applied int64        // everything below is part of the state
	records int64
}

// Led implements host.Attachment.
func (c *counter) Led(_ *host.Turn, epoch model.LeaderEpoch, end model.Offset) {
	if c.led && epoch <= c.epoch {
		c.broken("led in epoch %d and again in epoch %d", c.epoch, epoch)
	}
	*c = counter{r: c.r, n: c.n, led: true, epoch: epoch, loadTo: end}
}

// Applied implements host.Attachment.
func (c *counter) Applied(_ *host.Turn, highWatermark model.Offset) {
	switch {
	case !c.led:
		c.broken("told of high watermark %d without leading", highWatermark)
	case highWatermark < c.told:
		c.broken("told of high watermark %d after %d", highWatermark, c.told)
	}
	c.told = max(c.told, highWatermark)
}

// Unled implements host.Attachment.
func (c *counter) Unled(*host.Turn) { c.led = false }

// broken notes what is wrong; it is in the partition's loop, where nothing may
// unwind.
func (c *counter) broken(format string, args ...any) {
	if h := &c.n.world.h; h.asserted == "" && c.n.alive() {
		h.asserted = fmt.Sprintf("%v: what rides on broker %d's replica is ", c.r.tp, c.n.m.id) + fmt.Sprintf(format, args...)
	}
}

// follow applies what is replicated by now, outside the loop.
func (c *counter) follow() {
	w, s := c.n.world, c.r.state
	if !c.led || s == nil || s.View == nil || !c.r.leads() || s.LeaderEpoch != c.epoch || int64(c.told) <= c.applied || c.r.holed || c.r.hit {
		return
	}
	at := max(c.applied, int64(s.LogStart))
	for at < int64(c.told) {
		region, err := s.View.Read(model.Offset(at), s.LogEnd, 1<<20, true)
		if err != nil && (c.r.hit || c.r.rotten) {
			return
		}
		if err != nil {
			w.fail(13, "%v: read from %d on broker %d: %v", c.r.tp, at, c.n.m.id, err)
		}
		b := make([]byte, region.Len())
		_, err = region.ReadAt(b, 0)
		region.Release()
		if err == nil {
			_, err = eachBatch(b, func(h *batchHead, raw []byte) error {
				if h.last >= int64(c.told) {
					return errCutAway
				}
				at = h.last + 1
				return eachRecord(h, raw, func(g gotRecord) error { return c.apply(h.epoch, g) })
			})
		}
		if err == errCutAway {
			break
		}
		if err != nil && (c.r.hit || c.r.rotten) {
			return
		}
		if err != nil {
			w.fail(13, "%v: records from %d on broker %d: %v", c.r.tp, at, c.n.m.id, err)
		}
	}
	c.applied = at
}

func (c *counter) apply(epoch int32, g gotRecord) error {
	if g.offset >= c.applied {
		c.records++
		if !c.r.surpassed(epoch, g.offset) {
			c.n.world.h.shown(c.r.part, epoch, g.offset, g.id, g.ts, "what rides on a leader")
		}
	}
	return nil
}
