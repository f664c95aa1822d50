package log

import (
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// Removal describes bytes that left the log.
type Removal struct {
	// Why names the reason: "truncate", "crash tail", "unfinished cut", ….
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
}

// Empty reports whether nothing was removed.
func (r *Removal) Empty() bool { return r.Bytes == 0 && r.End <= r.Start }

// Part is a range of bytes of one file.
type Part struct {
	File  string
	Pos   int64
	Bytes int64
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
	r.Parts = append(r.Parts, Part{File: name, Pos: pos, Bytes: end - pos})
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
		r.count(b)
		pos += int64(len(b))
	}
}

func (r *Removal) count(b record.Batch) {
	if r.FirstEpoch == model.NoEpoch {
		r.FirstEpoch = b.LeaderEpoch()
	}
	r.LastEpoch = b.LeaderEpoch()
	r.Batches++
	r.Records += int64(b.Count())
	r.End = max(r.End, b.NextOffset())
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
