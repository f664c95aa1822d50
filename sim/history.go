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
	// coordinated are the records of coordinators, by what they say.
	coordinated map[uint64]*payload
	pids        map[[2]int64]bool // (producer id, epoch) that were given out
	asserted    string            // an assertion failed in the product
}

// payload is one record that a client made. Its index is its id.
type payload struct {
	topic     string
	partition int32
	idem      bool  // written by an idempotent producer: at most once in a log
	part      *part // where it was shown; nil: nowhere
	offset    int64
}

// rec is a record that is known to be at an offset.
type rec struct {
	id    uint64 // 0: nothing is known
	ts    int64  // noTS: unknown
	epoch int32  // of its batch, -1: unknown
}

const noTS = -1 << 62

// place is an offset in the reign of one leader.
type place struct {
	epoch  int32
	offset int64
}

// part is what the world was told of one partition: it must stay true on
// whatever replica leads.
type part struct {
	id model.TopicIDPartition
	tp model.TopicPartition
	// recs are the records that were shown to consumers, or acknowledged by all,
	// by offset.
	recs []rec
	// acked: everything below was acknowledged by all, or shown.
	acked int64
	// placed is what any replica ever held.
	placed map[place]uint64
	// reigns are the incarnations that led, by epoch.
	reigns map[int32]reign
	// ackedAt is what acked was when a leader epoch began, as the metadata says.
	ackedAt map[int32]int64
	// lost: it has lost its end once, so producers may find gaps. lostFrom is where
	// the last loss began.
	lost     bool
	lostFrom int64
	// maimed: a disk has lost or spoilt a replica of it for good. If that one is the
	// last known member by then, nobody is elected until an administrator says so.
	maimed bool
	// stale: something that its seats depend on has changed.
	stale bool
	// gone: its topic was deleted.
	gone bool
	// sacrificed is when an unclean election was last asked for, 0 if it never was.
	sacrificed model.Instant
	// starts are the log starts that were ever seen, ascending; maxStart is the
	// greatest of them.
	starts   []int64
	maxStart int64
	// uncleanEpoch is the leader epoch of the last election that may have lost
	// records, -1 if there was none; pending until its leader, or a later one,
	// was seen.
	uncleanEpoch  int32
	uncleanLeader model.BrokerID // who was elected then, NoLeader if that is not known
	pending       bool
}

// began notes where a replica's log starts.
func (p *part) began(start int64) {
	if at, known := slices.BinarySearch(p.starts, start); !known {
		p.starts = slices.Insert(p.starts, at, start)
	}
	p.maxStart = max(p.maxStart, start)
}

// reign is who led in an epoch.
type reign struct {
	m    model.BrokerID
	life int
}

// replica is what is known of one partition on one machine.
type replica struct {
	m    *machine
	part *part
	tp   model.TopicPartition
	// recs are the records that the files hold, as far as they were looked at.
	recs []rec
	// end is the greatest log end that was published and not lost or truncated
	// since.
	end int64
	// had is what it held before honest losses.
	had had
	// floor: below it everything was said to be on the disk for good.
	floor int64
	// loadedPoint is the recovery point that this incarnation began with.
	loadedPoint int64
	// lossy: power was lost, or pages dropped, since it was last loaded.
	lossy bool
	// tainted: power was lost, or pages dropped, since it was last taken into the
	// ISR: it may have no seat.
	tainted bool
	// dark: power was lost since the broker registered last.
	dark bool
	// hit: a disk error of this incarnation touched it. drop: pages of it were
	// dropped by a failed fsync, ever since it was last found whole.
	hit, drop bool
	// deleted: an acknowledged DeleteRecords has it begin there or above.
	deleted int64
	// hurt: it is damaged for good, and why is known.
	hurt bool
	// holed: a hole in it can't be told from compaction's work, so the broker
	// serves it.
	holed bool
	// stained: a file beside its segments was spoilt, and may be still. rotten: so
	// was a batch, and nobody need have noticed.
	stained, rotten bool
	// rotAt: nothing below was spoilt, nor can it pass for that.
	rotAt int64
	// spots are the segments that were spoilt, as long as it is not made anew.
	spots []rotSpot
	// wiped: its directory was taken away, and it has not been made anew.
	wiped bool
	// removed: it was taken out of the assignment. left: its broker has heard so; a
	// log that comes after is another.
	removed, left bool
	// frozen is the incarnation in which an fsync of its log failed; its durable
	// end can't rise there.
	frozen int
	// life is the incarnation that loaded it last, 0 if it was never loaded.
	life int
	// online: this incarnation has had it online.
	online bool
	host   *host.Hosted // of the running incarnation, nil if it has none
	state  *host.State  // as last looked at
	// unheard are the min.insync.replicas that its broker's metadata has had, and
	// that it goes by or may come to go by, behind what else waits for it or for the
	// disk; nil if it has heard of all.
	unheard []int
	rider   *counter // what rides on it, in the running incarnation
	// cutting: a cut is on its way to the disk, so the files may be ahead of the
	// state.
	cutting bool
	// cutShort: the process ended with a cut under way, or done and not looked at.
	cutShort bool
	// receiptMark is the newest receipt that was looked at when it was last cut, which
	// was in the incarnation receiptLife, 0 if it never was.
	receiptMark int64
	receiptLife int
	// seams are where the log was cut: it goes on in a new file there, though the
	// last batch that was left may end below.
	seams []int64
	// batches are those of the last look at the files, from the log start on.
	batches []stored
}

// stored is a batch as it lies in a file.
type stored struct {
	base, last int64
	epoch      int32
	crc        uint32
}

// unsound reports whether something of it may be missing that was there.
func (r *replica) unsound() bool {
	return r.tainted || r.hurt || r.hit || r.drop || r.wiped || r.rotten
}

// newPayload makes an id.
func (h *history) newPayload(topic string, partition int32, idem bool) uint64 {
	if len(h.payloads) == 0 {
		h.payloads = append(h.payloads, payload{})
	}
	h.payloads = append(h.payloads, payload{topic: topic, partition: partition, idem: idem, offset: -1})
	return uint64(len(h.payloads) - 1)
}

// payload returns what is known of a record.
func (h *history) payload(id uint64) *payload {
	if id&coordinators == 0 {
		return &h.payloads[id]
	}
	pl := h.coordinated[id]
	if pl == nil {
		if h.coordinated == nil {
			h.coordinated = make(map[uint64]*payload)
		}
		pl = &payload{topic: groupsTopic, offset: -1}
		h.coordinated[id] = pl
	}
	return pl
}

// part returns what is known of a partition.
func (h *history) part(id model.TopicIDPartition, tp model.TopicPartition) *part {
	p := h.parts[id]
	if p == nil {
		if h.parts == nil {
			h.parts = make(map[model.TopicIDPartition]*part)
		}
		p = &part{id: id, tp: tp, placed: make(map[place]uint64), reigns: make(map[int32]reign), ackedAt: make(map[int32]int64), uncleanEpoch: -1, uncleanLeader: model.NoLeader}
		h.parts[id] = p
		h.order = append(h.order, p)
	}
	return p
}

// valid checks that a record is one that some client sent to the partition.
func (h *history) valid(p *part, offset int64, id uint64, how string) *payload {
	w := h.world
	if id&coordinators != 0 {
		if p.tp.Topic != groupsTopic {
			w.fail(1, "%s: %v offset %d holds a record of a coordinator", how, p.tp, offset)
		}
		return h.payload(id)
	}
	if id == 0 || id >= uint64(len(h.payloads)) {
		w.fail(1, "%s: %s of %v at offset %d, which nobody wrote", how, fmtID(id), p.tp, offset)
	}
	pl := &h.payloads[id]
	if pl.topic != p.tp.Topic || pl.partition != p.tp.Partition {
		w.fail(1, "%s: %v offset %d holds record %d, which was sent to %s-%d", how, p.tp, offset, id, pl.topic, pl.partition)
	}
	return pl
}

// shown notes that a record is committed at an offset, and checks that nothing
// else ever was.
func (h *history) shown(p *part, epoch int32, offset int64, id uint64, ts int64, how string) {
	w := h.world
	pl := h.valid(p, offset, id, how)
	for int64(len(p.recs)) <= offset {
		p.recs = append(p.recs, rec{ts: noTS, epoch: -1})
	}
	r := &p.recs[offset]
	if r.id != 0 && r.id != id {
		w.fail(5, "%s: %v offset %d holds record %d, it was record %d", how, p.tp, offset, id, r.id)
	}
	// What DeleteRecords took away the broker may take again.
	if pl.idem && pl.part != nil && (pl.part != p || pl.offset != offset) && pl.offset >= pl.part.maxStart {
		w.fail(7, "%s: record %d of an idempotent producer is at offset %d of %v and at %d of %v", how, id, pl.offset, pl.part.tp, offset, p.tp)
	}
	if r.epoch >= 0 && epoch >= 0 && r.epoch != epoch {
		w.fail(5, "%s: %v offset %d is of epoch %d, it was of %d", how, p.tp, offset, epoch, r.epoch)
	}
	if r.ts != noTS && ts != noTS && r.ts != ts {
		w.fail(5, "%s: %v offset %d has timestamp %d, it was %d", how, p.tp, offset, ts, r.ts)
	}
	pl.part, pl.offset = p, offset
	if r.id == 0 {
		w.trace.line("shown      %v offset %d record %d: %s", p.tp, offset, id, how)
	}
	r.id, r.epoch = id, max(r.epoch, epoch)
	if ts != noTS {
		r.ts = ts
	}
	p.acked = max(p.acked, offset+1)
}

// farthest is how far a log can get between two looks, in records, at the very most.
const farthest = 1 << 22

// holds notes that a replica's log has a record at an offset, written in an
// epoch, and checks that it did not change and that no replica ever had another
// there.
func (h *history) holds(r *replica, epoch int32, offset int64, id uint64, ts int64, how string) {
	w, p := h.world, r.part
	if id != 0 && offset < int64(len(r.recs)) && r.recs[offset] == (rec{id, ts, epoch}) {
		return // as at the last look
	}
	h.valid(p, offset, id, how)
	if offset > int64(len(r.recs))+farthest {
		w.fail(5, "%s: %v offset %d of broker %d, whose log ended at %d so far", how, p.tp, offset, r.m.id, len(r.recs))
	}
	for int64(len(r.recs)) <= offset {
		r.recs = append(r.recs, rec{ts: noTS, epoch: -1})
	}
	at := &r.recs[offset]
	switch {
	case at.id != 0 && at.id != id:
		w.fail(5, "%s: %v offset %d of broker %d holds record %d, it was record %d", how, p.tp, offset, r.m.id, id, at.id)
	case at.ts != noTS && ts != noTS && at.ts != ts:
		w.fail(5, "%s: %v offset %d of broker %d has timestamp %d, it was %d", how, p.tp, offset, r.m.id, ts, at.ts)
	}
	at.id, at.epoch = id, epoch
	if ts != noTS {
		at.ts = ts
	}
	key := place{epoch, offset}
	if other := p.placed[key]; other != 0 && other != id {
		w.fail(1, "%s: %v offset %d of epoch %d is record %d on broker %d, elsewhere it was record %d", how, p.tp, offset, epoch, id, r.m.id, other)
	}
	p.placed[key] = id
}

// has reports whether a partition holds a record, or has held it until
// DeleteRecords took it away: it was shown, or some replica's files have it, as far
// as they were looked at.
func (h *history) has(p *part, id uint64) bool {
	return h.payload(id).part == p || slices.ContainsFunc(h.world.machines, func(m *machine) bool {
		r := m.find(p)
		return r != nil && slices.ContainsFunc(r.recs, func(at rec) bool { return at.id == id })
	})
}

// retaken reports whether a record that is at an offset now has been at another one,
// which DeleteRecords has taken away.
func (h *history) retaken(p *part, id uint64, offset int64) bool {
	pl := h.payload(id)
	if pl.part == p && pl.offset != offset && pl.offset < p.maxStart {
		return true
	}
	return slices.ContainsFunc(h.world.machines, func(m *machine) bool {
		r := m.find(p)
		if r == nil {
			return false
		}
		gone := r.recs[:min(p.maxStart, int64(len(r.recs)))]
		at := slices.IndexFunc(gone, func(at rec) bool { return at.id == id })
		return at >= 0 && int64(at) != offset
	})
}

// unseen reports whether DeleteRecords has taken records of a partition away that
// nobody had looked at: any record may have been one of them.
func (h *history) unseen(p *part) bool {
	seen := make([]bool, p.maxStart)
	mark := func(recs []rec) {
		for o := range recs[:min(len(recs), len(seen))] {
			seen[o] = seen[o] || recs[o].id != 0
		}
	}
	mark(p.recs)
	for _, m := range h.world.machines {
		if r := m.find(p); r != nil {
			mark(r.recs)
		}
	}
	return slices.Contains(seen, false)
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

// differs reports whether a log that has record id in an epoch has parted from
// the partition here. The same record may have been written there by two leaders,
// when its producer sent it again: then the epochs tell them apart, and a follower
// of one cuts what it has of the other.
func (r *rec) differs(id uint64, epoch int32) bool {
	return r.id != 0 && (r.id != id || r.epoch >= 0 && r.epoch != epoch)
}

// cut forgets what was lost with the end of a partition: an honest loss.
func (h *history) cut(p *part, end int64) {
	if int64(len(p.recs)) > end {
		for _, r := range p.recs[max(end, 0):] {
			if r.id != 0 {
				pl := h.payload(r.id)
				pl.part, pl.offset = nil, -1
			}
		}
		p.recs = p.recs[:max(end, 0)]
		h.world.trace.line("lost       %v from %d on, for good", p.tp, end)
	}
	p.lost, p.lostFrom = true, max(end, 0)
	p.acked = min(p.acked, max(end, 0))
}

// cut forgets what was lost or truncated with the end of a log.
func (r *replica) cut(end int64) {
	if int64(len(r.recs)) > end {
		r.recs = r.recs[:max(end, 0)]
	}
	r.end, r.floor = min(r.end, end), min(r.floor, end)
}

// partedAt returns where a log was cut that has ended at end since, end if it was
// not. It may have grown again in the same event, under a leader of a later epoch:
// then what is at an offset is of another epoch than what was there. Where a batch
// was spoilt the epoch may be what has changed, and says nothing.
func (r *replica) partedAt(start, end int64, epochOf func(offset int64) int32) int64 {
	for o := start; o < min(end, int64(len(r.recs))) && !r.rotten; o++ {
		if e, at := epochOf(o), r.recs[o]; at.id != 0 && at.epoch >= 0 && e >= 0 && e != at.epoch {
			return o
		}
	}
	return end
}

// isLog reports whether a path is that of a segment.
func isLog(path string) bool { return strings.HasSuffix(path, ".log") }
