package log

import (
	"path/filepath"
	"slices"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/protocol/record"
)

// Removal describes bytes that left the log.
type Removal struct {
	// Why is one of the constants.
	Why string
	// File and Pos say where the bytes begin; Bytes counts all of them.
	File  string
	Pos   int64
	Bytes int64
	// Parts lists every file that holds some of them, oldest first.
	Parts []Part
	// Start and End bound the offsets that left: [Start, End). End is Start if
	// no whole batch was among the bytes.
	Start, End model.Offset
	// FirstEpoch and LastEpoch are those of the whole batches among the bytes,
	// NoEpoch without one.
	FirstEpoch, LastEpoch model.LeaderEpoch
	// Batches and Records count what is whole.
	Batches, Records int64
	// Epochs are the leader epochs of the whole batches, each with the first
	// offset that left in it.
	Epochs []epoch.Entry
	// Producers are the idempotent producers of the whole batches, in the order of
	// their first one; MoreProducers counts the batches of those beyond the
	// first producersMax.
	Producers     []RemovedProducer
	MoreProducers int
}

// RemovedProducer is what of one producer's batches left the log.
type RemovedProducer struct {
	ID    model.ProducerID
	Epoch model.ProducerEpoch // of its last batch
	// First and Last are the sequences of its first and last record; of a producer
	// of which only control batches left, NoSequence.
	First, Last model.Sequence
	// Open: its last batch belongs to a transaction whose end is not among the
	// batches.
	Open bool
}

// producersMax bounds how many producers a Removal names.
const producersMax = 100

// Why something leaves a log.
const (
	// WhyTruncate and WhyRestart: somebody called Truncate, TruncateFullyAndStartAt.
	WhyTruncate = "truncate"
	WhyRestart  = "truncate fully"
	// WhyCrashTail: what stood behind the last whole batch at a start; WhyCrashHole:
	// what stood behind a hole that a loss of power had left.
	WhyCrashTail = "crash tail"
	WhyCrashHole = "crash hole"
	// WhyUnfinishedCut: a cut that a crash had interrupted was finished.
	WhyUnfinishedCut = "unfinished cut"
	// WhyBelowStart: the log ended below its start.
	WhyBelowStart = "below the log's start"
	// WhyRefill: a damaged replica was filled anew, and its old files go.
	WhyRefill = "refill"
	// WhyUnreadable: a small file made no sense and is about to be replaced.
	WhyUnreadable = "unreadable file"
)

// unreadable describes such a file.
func unreadable(path string, size int64) Removal {
	return Removal{
		Why: WhyUnreadable, File: path, Bytes: size, FirstEpoch: model.NoEpoch, LastEpoch: model.NoEpoch,
		Parts: []Part{{File: path, Bytes: size}},
	}
}

// Empty reports whether nothing was removed.
func (r *Removal) Empty() bool { return r.Bytes == 0 && r.End <= r.Start }

// Part is a range of bytes of one file.
type Part struct {
	File  string
	Pos   int64
	Bytes int64
	// First is the offset of the first whole batch among the bytes; the base of the
	// segment if there is none.
	First model.Offset
}

// removal describes the bytes of segments i and later from pos on, which begin
// at offset start. Batches that can't be read are part of the bytes only.
func (v *View) removal(why string, i int, pos int64, start model.Offset) Removal {
	r := Removal{Why: why, Start: start, End: v.end, FirstEpoch: model.NoEpoch, LastEpoch: model.NoEpoch}
	for k := i; k < len(v.segments); k++ {
		from := int64(0)
		if k == i {
			from = pos
		}
		if v.limit(k) > from {
			r.add(v.segments[k].file, from, v.limit(k))
		}
	}
	return r
}

// add describes the bytes of a file from pos to end.
func (r *Removal) add(file *segmentFile, pos, end int64) {
	name := file.name()
	if r.Bytes == 0 {
		r.File, r.Pos = name, pos
	}
	r.Bytes += end - pos
	base, _, _ := parseName(filepath.Base(name))
	r.Parts = append(r.Parts, Part{File: name, Pos: pos, Bytes: end - pos, First: base})
	part := &r.Parts[len(r.Parts)-1]
	f, err := file.pin(0)
	if err != nil {
		return
	}
	defer file.unpin()
	sc := scanner{f: f, limit: end, buf: make([]byte, min(end-pos, scanBufferSize))}
	for {
		b, err := sc.next(pos)
		if b == nil || err != nil {
			return
		}
		if part != nil {
			part.First, part = b.BaseOffset(), nil
		}
		r.count(b)
		pos += int64(len(b))
	}
}

func (r *Removal) count(b record.Batch) {
	if r.Batches == 0 {
		r.FirstEpoch = b.LeaderEpoch()
		r.Start = min(r.Start, b.BaseOffset()) // the cut went through this batch
	}
	if n := len(r.Epochs); n == 0 || r.Epochs[n-1].Epoch != b.LeaderEpoch() {
		r.Epochs = append(r.Epochs, epoch.Entry{Epoch: b.LeaderEpoch(), Start: b.BaseOffset()})
	}
	r.countProducer(b)
	r.LastEpoch = b.LeaderEpoch()
	r.Batches++
	r.Records += int64(b.Count())
	r.End = max(r.End, b.NextOffset())
}

// countProducer notes whose batch left.
func (r *Removal) countProducer(b record.Batch) {
	if !b.HasProducerID() {
		return
	}
	i := slices.IndexFunc(r.Producers, func(p RemovedProducer) bool { return p.ID == b.ProducerID() })
	if i < 0 && len(r.Producers) == producersMax {
		r.MoreProducers++
		return
	}
	if i < 0 {
		i = len(r.Producers)
		r.Producers = append(r.Producers, RemovedProducer{ID: b.ProducerID(), First: model.NoSequence, Last: model.NoSequence})
	}
	p := &r.Producers[i]
	p.Epoch, p.Open = b.ProducerEpoch(), b.IsTransactional() && !b.IsControl()
	if b.IsControl() {
		return
	}
	if p.First == model.NoSequence {
		p.First = b.BaseSequence()
	}
	p.Last = b.LastSequence()
}

func (r *Removal) renamed(from, to string) {
	if r.File == from {
		r.File = to
	}
	for i := range r.Parts {
		if r.Parts[i].File == from {
			r.Parts[i].File = to
		}
	}
}
