package broker

import (
	"go.uber.org/zap"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group"
	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/compress"
	"github.com/tidemark/tidemark/protocol/record"
)

// groupRider runs the groups of one partition of offsetsTopic: a
// coordinator.Runtime in the partition's loop. It implements host.Rider.
type groupRider struct {
	g *groups
	h *host.Hosted

	// What follows belongs to the partition's loop.

	rt      coordinator.Runtime
	out     coordinator.Out
	builder *record.Builder
	epoch   model.LeaderEpoch
	leads   bool
	// waiting is every call that has no answer, should an assertion fail.
	waiting map[*groupCall]struct{}
	counted group.Stats // what the broker's counts have of the present machine
	reloads int64
}

func newGroupRider(g *groups, h *host.Hosted) *groupRider {
	return &groupRider{g: g, h: h, builder: new(record.Builder), waiting: make(map[*groupCall]struct{})}
}

// Led implements host.Attachment.
func (r *groupRider) Led(t *host.Turn, epoch model.LeaderEpoch, _ model.Offset) {
	defer r.guard(t)
	r.leads, r.epoch = true, epoch
	r.rt.Lead(epoch, &r.out)
	r.carry(t)
}

// Applied implements host.Attachment.
func (r *groupRider) Applied(t *host.Turn, highWatermark model.Offset) {
	defer r.guard(t)
	r.rt.Committed(t.Now, highWatermark, &r.out)
	r.carry(t)
}

// Unled implements host.Attachment.
func (r *groupRider) Unled(t *host.Turn) {
	defer r.guard(t)
	r.leads = false
	r.rt.Unlead(&r.out)
	r.carry(t)
}

// Command implements host.Rider.
func (r *groupRider) Command(t *host.Turn, c host.Command) {
	defer r.guard(t)
	switch c := c.(type) {
	case *groupCall:
		r.waiting[c] = struct{}{}
		c.Token = c
		r.rt.Call(t.Now, &c.Call, &r.out)
	case *groupLoad:
		r.loaded(t, c)
	case groupClose:
		r.rt.Close(&r.out)
	default:
		assert.Unreachable("command %T", c)
	}
	r.carry(t)
}

// loaded takes over what was loaded.
func (r *groupRider) loaded(t *host.Turn, l *groupLoad) {
	if l.err != nil {
		r.rt.LoadFailed(t.Now, l.load)
		return
	}
	m, sum := l.loader.Done()
	r.rt.Loaded(t.Now, l.load, m, l.loader.Next(), &r.out)
	r.g.counts.loads.Add(1)
	r.g.counts.loadedRecords.Add(sum.Records)
}

// Appended implements host.Rider.
func (r *groupRider) Appended(t *host.Turn, a *host.RideAppend) {
	defer r.guard(t)
	r.rt.Appended(t.Now, a.Token.(*coordinator.Write), a.Base, &r.out)
	r.carry(t)
}

// Ended implements host.Rider.
func (r *groupRider) Ended(t *host.Turn, a *host.RideAppend, code host.Code) {
	defer r.guard(t)
	r.rt.Done(t.Now, a.Token.(*coordinator.Write), code, &r.out)
	r.carry(t)
}

// NextDeadline implements host.Rider.
func (r *groupRider) NextDeadline() model.Instant { return r.rt.NextDeadline() }

// Tick implements host.Rider.
func (r *groupRider) Tick(t *host.Turn) {
	defer r.guard(t)
	r.rt.Tick(t.Now, &r.out)
	r.carry(t)
}

// carry does what the runtime wants done.
func (r *groupRider) carry(t *host.Turn) {
	for {
		for _, c := range r.out.Answers {
			gc := c.Token.(*groupCall)
			delete(r.waiting, gc)
			t.Add(gc)
		}
		w, load := r.out.Append, r.out.Load
		r.out.Reset()
		if load {
			t.Add(&groupLoad{r: r, load: r.rt.Load(), epoch: r.epoch})
		}
		if w == nil {
			break
		}
		if code := r.append(t, w); code != protocol.CodeNone {
			r.rt.Done(t.Now, w, code, &r.out)
			continue
		}
	}
	r.count()
}

// append has a write's records appended as one batch.
func (r *groupRider) append(t *host.Turn, w *coordinator.Write) protocol.Code {
	cfg := &r.g.b.config.Groups
	r.builder.Reset(record.Options{Codec: compress.Codec(cfg.Codec)})
	for _, rec := range w.Records {
		r.builder.Append(t.Now.Wall, rec.Key, rec.Value)
	}
	most := r.g.b.defaultTopic.MaxMessageBytes
	if s := r.h.State(); s.Config != nil {
		most = s.Config.MaxMessageBytes
	}
	batch := r.builder.Build()
	if batch == nil || len(batch) > int(most) {
		return protocol.CodeMessageTooLarge
	}
	t.Append(&host.RideAppend{Batch: batch, Records: r.builder.Count(), Timeout: w.Timeout, Token: w})
	return protocol.CodeNone
}

// guard confines a failed assertion to this partition's groups: whoever waits is
// told to look again, and the groups are loaded from the log.
func (r *groupRider) guard(t *host.Turn) {
	f := assert.Caught(recover())
	if f == nil {
		return
	}
	r.g.b.logger.Error("an assertion failed in a coordinator; its groups are loaded anew",
		zap.Stringer("partition", r.h.TopicPartition()), zap.String("assertion", f.Message), zap.Stack("stack"))
	for c := range r.waiting { // order-free: each goes to a connection of its own
		c.Code, c.Response = protocol.CodeNotCoordinator, nil
		t.Add(c)
	}
	clear(r.waiting)
	r.rt.Restart(&r.out)
	r.carry(t)
}

// count brings the broker's sums up to date.
func (r *groupRider) count() {
	var s group.Stats
	if m, ok := r.rt.Machine().(*group.Machine); ok {
		s = m.Stats()
	}
	c := &r.g.counts
	if n := r.rt.Reloads(); n != r.reloads {
		c.reloads.Add(n - r.reloads)
		r.reloads = n
	}
	if s == r.counted {
		return
	}
	old := r.counted
	r.counted = s
	for i := range s.Groups {
		c.groups[i].Add(s.Groups[i] - old.Groups[i])
	}
	c.offsets.Add(s.Offsets - old.Offsets)
	if s == (group.Stats{}) {
		return // the machine is gone; what it has counted stays
	}
	c.rebalances.Add(s.Rebalances - old.Rebalances)
	c.generations.Add(s.Generations - old.Generations)
	c.evicted.Add(s.Evicted - old.Evicted)
	c.commits.Add(s.Commits - old.Commits)
	c.expired.Add(s.Expired - old.Expired)
	c.unreadable.Add(s.Unreadable - old.Unreadable)
}
