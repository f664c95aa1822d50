package sim

import (
	"slices"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition/host"
)

// history is what the clients were told and the checkers saw: what must still
// be there.
type history struct {
	world    *World
	parts    map[model.TopicIDPartition]*part
	order    []*part // in the order of their first appearance
	payloads []payload
	pids     map[[2]int64]bool // (producer id, epoch) that were given out
	imageAt  model.Offset      // the newest metadata that any incarnation had
	asserted string            // an assertion failed in the product
	// newHit are partitions that were hit before the checkers knew of them.
	newHit map[model.TopicPartition]bool
	// what explains trouble at the next load
	dirHit int // the incarnation in which something that is not one partition's was hit by an error
}

// payload is one record that a client made. Its index is its id.
type payload struct {
	topic     string
	partition int32
	idem      bool  // written by an idempotent producer: at most once in a log
	part      *part // where it was seen; nil: nowhere
	offset    int64
}

// rec is a record that is known to be at an offset.
type rec struct {
	id    uint64 // 0: nothing is known
	ts    int64  // noTS: unknown
	acked bool
}

const noTS = -1 << 62

// part is what is known of one partition.
type part struct {
	id   model.TopicIDPartition
	tp   model.TopicPartition
	recs []rec // by offset
	// end is the greatest log end that was published and not lost since.
	end int64
	// floor: below it everything was said to be on the disk for good.
	floor int64
	// loadedPoint is the recovery point that this incarnation began with.
	loadedPoint int64
	// lossy: power was lost, or pages dropped, since it was last loaded.
	lossy bool
	// hit: a disk error of this incarnation touched it. drop: pages of it were
	// dropped by a failed fsync, ever since it was last found whole.
	hit, drop bool
	// hurt: it is damaged for good, and why is known.
	hurt bool
	// holed: a hole in it can't be told from compaction's work, so the broker
	// serves it.
	holed bool
	// lost: it has lost its end once, so producers may find gaps.
	lost bool
	// gone: its topic was deleted.
	gone bool

	// frozen is the incarnation in which an fsync of its log failed; its durable
	// end can't rise there.
	frozen int
	// maxStart is the greatest log start that was ever seen.
	maxStart int64
	// online: this incarnation has had it online.
	online bool
	host   *host.Hosted
	state  *host.State // as last looked at
}

// newPayload makes an id.
func (h *history) newPayload(topic string, partition int32, idem bool) uint64 {
	if len(h.payloads) == 0 {
		h.payloads = append(h.payloads, payload{})
	}
	h.payloads = append(h.payloads, payload{topic: topic, partition: partition, idem: idem, offset: -1})
	return uint64(len(h.payloads) - 1)
}

// part returns what is known of a hosted partition.
func (h *history) part(hosted *host.Hosted) *part {
	p := h.parts[hosted.ID()]
	if p == nil {
		if h.parts == nil {
			h.parts = make(map[model.TopicIDPartition]*part)
		}
		p = &part{id: hosted.ID(), tp: hosted.TopicPartition()}
		p.hit = h.newHit[p.tp]
		delete(h.newHit, p.tp)
		h.parts[p.id] = p
		h.order = append(h.order, p)
	}
	return p
}

// learn notes that a record is at an offset, and checks that nothing else ever
// was.
func (h *history) learn(p *part, offset int64, id uint64, ts int64, acked bool, how string) {
	w := h.world
	if id == 0 || id >= uint64(len(h.payloads)) {
		w.fail(1, "%s: %s of %v at offset %d, which nobody wrote", how, fmtID(id), p.tp, offset)
	}
	for int64(len(p.recs)) <= offset {
		p.recs = append(p.recs, rec{ts: noTS})
	}
	r := &p.recs[offset]
	if r.id != 0 && r.id != id {
		w.fail(5, "%s: %v offset %d holds record %d, it was record %d", how, p.tp, offset, id, r.id)
	}
	pl := &h.payloads[id]
	if pl.topic != p.tp.Topic || pl.partition != p.tp.Partition {
		w.fail(1, "%s: %v offset %d holds record %d, which was sent to %s-%d", how, p.tp, offset, id, pl.topic, pl.partition)
	}
	// What DeleteRecords took away the broker may take again.
	if pl.idem && pl.part != nil && (pl.part != p || pl.offset != offset) && pl.offset >= pl.part.maxStart {
		w.fail(7, "%s: record %d of an idempotent producer is at offset %d of %v and at %d of %v", how, id, pl.offset, pl.part.tp, offset, p.tp)
	}
	if r.ts != noTS && ts != noTS && r.ts != ts {
		w.fail(5, "%s: %v offset %d has timestamp %d, it was %d", how, p.tp, offset, ts, r.ts)
	}
	pl.part, pl.offset = p, offset
	r.id, r.acked = id, r.acked || acked
	if ts != noTS {
		r.ts = ts
	}
}

func fmtID(id uint64) string { return "record " + utoa(id) }

func utoa(n uint64) string {
	b := []byte{}
	for ; n > 9; n /= 10 {
		b = append(b, byte('0'+n%10))
	}
	b = append(b, byte('0'+n))
	slices.Reverse(b)
	return string(b)
}

// cut forgets what was lost with the end of a log.
func (h *history) cut(p *part, end int64) {
	if int64(len(p.recs)) > end {
		for _, r := range p.recs[max(end, 0):] {
			if r.id != 0 {
				h.payloads[r.id].part, h.payloads[r.id].offset = nil, -1
			}
		}
		p.recs = p.recs[:max(end, 0)]
		p.lost = true
	}
	p.end = min(p.end, end)
}

// powerLost: from now on what was not synced may be missing.
func (h *history) powerLost() {
	for _, p := range h.order {
		p.lossy = true
	}
}

// hit notes which partition a disk error may explain the trouble of.
func (h *history) hit(path string) {
	tp, ok := dirOf(path)
	if !ok {
		h.dirHit = h.world.lives
		return
	}
	for _, p := range h.order {
		if p.tp == tp && !p.gone {
			p.hit = true
			return
		}
	}
	if h.newHit == nil {
		h.newHit = make(map[model.TopicPartition]bool)
	}
	h.newHit[tp] = true
}

// syncFailed notes that an fsync of a partition's log has failed.
func (h *history) syncFailed(path string) {
	tp, ok := dirOf(path)
	for _, p := range h.order {
		if ok && p.tp == tp && !p.gone && strings.HasSuffix(path, ".log") {
			p.frozen = h.world.lives
		}
	}
}

// dropped notes that a failed fsync has dropped pages.
func (h *history) dropped(path string) {
	tp, ok := dirOf(path)
	for _, p := range h.order {
		if ok && p.tp == tp && !p.gone {
			p.drop, p.lossy = true, true
		}
	}
}

// anyDropped reports whether pages of any partition were dropped.
func (h *history) anyDropped() bool {
	return slices.ContainsFunc(h.order, func(p *part) bool { return !p.gone && (p.drop || p.hurt) })
}
