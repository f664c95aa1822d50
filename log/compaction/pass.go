package compaction

import (
	"slices"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/protocol/record"
)

// Index is the first pass: it reads the dirty section into a map.
type Index struct {
	m    *OffsetMap
	from model.Offset
	txns txns
	full bool
	// ahead are keys that were met and are not in the map yet.
	ahead []hashed
	read  int64 // what warming has read
	// Records counts those that were looked at.
	Records int64
}

// NewIndex returns the first pass over a section that begins at from, which may
// lie inside a batch. aborted are all aborted transactions that reach into it.
func NewIndex(m *OffsetMap, from model.Offset, aborted []Aborted) *Index {
	// The marker of one that ended before will not be met.
	ahead := slices.DeleteFunc(slices.Clone(aborted), func(a Aborted) bool { return a.Last < from })
	return &Index{m: m, from: from, txns: newTxns(ahead)}
}

// Batch takes the next batch in. It reports false when the map is full: then it
// knows the log up to OffsetMap.Latest, and the pass is over.
func (x *Index) Batch(b record.Batch) (more bool, err error) {
	if b.IsControl() {
		if _, err := x.txns.control(b); err != nil {
			return false, err
		}
	} else if !x.txns.data(b) {
		err := b.EachGlance(record.DefaultDecompressedMax, x.record)
		if err == nil {
			err = x.flush()
		}
		x.ahead = x.ahead[:0]
		if err != nil && !x.full {
			return false, err
		}
	}
	x.Records += int64(b.Count())
	if x.full {
		return false, nil
	}
	if b.LastOffset() >= x.from {
		x.m.Reached(b.LastOffset())
	}
	return true, nil
}

func (x *Index) record(g *record.Glance) error {
	if g.Key == nil || g.Offset < x.from {
		return nil
	}
	if x.ahead = append(x.ahead, x.m.hash(g.Key, g.Offset)); len(x.ahead) == together {
		return x.flush()
	}
	return nil
}

// flush enters the keys that were met.
func (x *Index) flush() error {
	x.read ^= x.m.warm(x.ahead)
	for _, k := range x.ahead {
		if !x.m.put(k) {
			x.full = true
			return errFull
		}
	}
	x.ahead = x.ahead[:0]
	return nil
}

// fullError ends the walk over a batch.
type fullError struct{}

func (fullError) Error() string { return "there is no room for more keys" }

var errFull = fullError{}

// Rules are what a Pass goes by.
type Rules struct {
	// Now is the wall clock when the cleaning began.
	Now model.Timestamp
	// DeleteRetentionMs is how long a tombstone stays after the cleaning that
	// meets it first (delete.retention.ms).
	DeleteRetentionMs int64
	// End is where the part of the log ends that could have been cleaned. The
	// batch that ends there stays in any case.
	End model.Offset
	// Producers says which batch of a known producer tells its state.
	Producers map[model.ProducerID]LastRecord
}

// LastRecord says which batch is the last one of a producer.
type LastRecord struct {
	// Data is the offset of its last record, NoOffset if it has only a marker.
	Data model.Offset
	// Epoch is the producer's epoch.
	Epoch model.ProducerEpoch
}

// Stats count what a Pass has seen.
type Stats struct {
	Records, RecordsKept int64
	Bytes, BytesKept     int64
	// Keyless are records without a key. They are dropped.
	Keyless int64
	// Tombstones are those that stayed.
	Tombstones int64
}

// Pass is the second pass: it gives back what is left of each batch.
type Pass struct {
	m     *OffsetMap
	rules Rules
	txns  txns
	f     record.Filter
	stats Stats

	// What keep needs of the batch at hand.
	dropAll, control, expired bool
	// ahead are the keys of the batch at hand, hashed; keep takes them one by one.
	ahead, rest []hashed
	read        int64 // what warming has read
}

// NewPass returns a pass over a log from its first batch on. aborted are all
// aborted transactions that begin below the end of the section; the markers of
// those may lie beyond.
func NewPass(m *OffsetMap, rules Rules, aborted []Aborted) *Pass {
	return &Pass{m: m, rules: rules, txns: newTxns(aborted)}
}

// Stats returns the counts so far.
func (p *Pass) Stats() Stats { return p.stats }

// TakeAborted returns the aborted transactions whose markers stayed since the
// last call, by the offset of the marker: the transaction index of what was
// written since.
func (p *Pass) TakeAborted() []Aborted {
	kept := p.txns.kept
	p.txns.kept = nil
	return kept
}

// Append appends to dst what is left of the next batch, and returns it; the
// batch's CRC has been checked. An error says that its records can't be read.
func (p *Pass) Append(dst []byte, b record.Batch) ([]byte, error) {
	p.stats.Bytes += int64(len(b))
	p.stats.Records += int64(b.Count())
	at := len(dst)
	dst, err := p.append(dst, b)
	p.stats.BytesKept += int64(len(dst) - at)
	return dst, err
}

func (p *Pass) append(dst []byte, b record.Batch) ([]byte, error) {
	idle := false
	if p.control = b.IsControl(); p.control {
		var err error
		if idle, err = p.txns.control(b); err != nil {
			return dst, err
		}
		p.dropAll = idle && b.HasDeleteHorizon() && b.BaseTimestamp() <= p.rules.Now
	} else {
		p.dropAll = p.txns.data(b)
	}
	p.expired = b.HasDeleteHorizon() && b.BaseTimestamp() <= p.rules.Now
	empty := p.tellsSequence(b) || b.NextOffset() == p.rules.End
	if mutant.On("compaction-forget-sequences") {
		empty = false
	}
	if p.dropAll {
		if empty {
			return record.AppendEmpty(dst, b), nil
		}
		return dst, nil
	}
	p.look(b)
	dst, kept, err := p.f.Append(dst, b, record.FilterOptions{
		Limit: record.DefaultDecompressedMax, Mark: p.control && idle,
		Horizon: p.rules.Now + model.Timestamp(p.rules.DeleteRetentionMs),
	}, p.keep)
	if err != nil {
		return dst, err
	}
	p.stats.RecordsKept += int64(kept.Records)
	p.stats.Tombstones += int64(kept.Tombstones)
	if kept.Records == 0 && empty {
		dst = record.AppendEmpty(dst, b)
	}
	return dst, nil
}

// aheadMost bounds the keys that are hashed before they are needed.
const aheadMost = 64 * together

// look hashes the keys of a batch before they are needed. It does not for a
// compressed one, which it would have to decompress, nor for one that can't be
// read, which is told of later.
func (p *Pass) look(b record.Batch) {
	p.ahead, p.rest = p.ahead[:0], nil
	if p.control || b.Codec() != 0 {
		return
	}
	err := b.EachGlance(record.DefaultDecompressedMax, func(g *record.Glance) error {
		if len(p.ahead) == aheadMost {
			return errFull
		}
		if g.Key != nil {
			p.ahead = append(p.ahead, p.m.hash(g.Key, g.Offset))
		}
		return nil
	})
	if err == nil || len(p.ahead) == aheadMost {
		p.rest = p.ahead
	}
}

// latest looks a record's key up.
func (p *Pass) latest(g *record.Glance) (model.Offset, bool) {
	if len(p.rest) == 0 || p.rest[0].offset != g.Offset {
		return p.m.Get(g.Key)
	}
	if done := len(p.ahead) - len(p.rest); done%together == 0 {
		p.read ^= p.m.warm(p.rest[:min(together, len(p.rest))])
	}
	k := p.rest[0]
	p.rest = p.rest[1:]
	return p.m.get(k)
}

// tellsSequence reports whether a batch tells the state of a known producer.
func (p *Pass) tellsSequence(b record.Batch) bool {
	if !b.HasProducerID() {
		return false
	}
	last, ok := p.rules.Producers[b.ProducerID()]
	switch {
	case !ok:
		return false
	case last.Data != model.NoOffset:
		return b.LastOffset() == last.Data
	}
	return b.IsControl() && b.ProducerEpoch() == last.Epoch
}

// keep decides about one record.
func (p *Pass) keep(g *record.Glance) bool {
	switch {
	case p.control, g.Offset > p.m.Latest():
		return true
	case g.Key == nil:
		p.stats.Keyless++
		return false
	}
	if latest, ok := p.latest(g); ok && g.Offset < latest {
		return false
	}
	if mutant.On("compaction-drop-tombstones") {
		return !g.Tombstone
	}
	return !g.Tombstone || !p.expired
}
