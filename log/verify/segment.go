package verify

import (
	"errors"
	"math"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log/scan"
	"github.com/tidemark/tidemark/protocol/record"
)

// segment is the pass through one segment.
type segment struct {
	*pass
	base model.Offset
	file string
	// next is the base of the following segment, MaxInt64 for the last one.
	next model.Offset
	last bool
	// limit is where the segment ends; its file may be longer after a cut that
	// was not finished.
	limit int64
	cut   bool
	// heads is the digest of the heads of the batches so far; want, what the seal
	// says of all, nil if it says nothing. torn: a fault was found that changes it.
	heads uint32
	want  *uint32
	torn  bool

	offsets *offsetIndex
	times   *timeIndex
	txns    *txnIndex
}

// segment reads segment i, and compares all that stands beside it.
func (p *pass) segment(i int) (err error) {
	s := &segment{pass: p, base: p.bases[i], next: math.MaxInt64, last: i == len(p.bases)-1}
	if !s.last {
		s.next = p.bases[i+1]
	}
	s.file = name(s.base, logSuffix)
	src, err := scan.Open(p.fs, p.path(s.file))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	s.limit = src.Size()
	if err := s.openSides(); err != nil {
		return err
	}
	switch {
	case s.base < p.expected:
		// The one before reaches into this one and was to be cut there: its own
		// pass has said so.
	case s.base > p.expected && i > 0:
		p.found.add(Note, s.file, -1, s.base, "nothing is stored in [%d, %d)", p.expected, s.base)
	}
	p.expected = s.base
	if err := s.walk(src); err != nil {
		return err
	}
	return s.closeSides()
}

// walk goes through the batches.
func (s *segment) walk(src *scan.Source) error {
	w := scan.NewWalker(src, s.base-1)
	w.Skipped = func(pos, n int64, why string) { s.skipped(src, pos, n, why) }
	for {
		f, ok, err := w.Next()
		if err != nil || !ok {
			return err
		}
		if f.Pos >= s.limit || f.Valid && f.BaseOffset() >= s.next && s.expected == s.next {
			s.unfinished(f.Pos, src.Size())
			return nil
		}
		if f.Valid && f.LastOffset() >= s.next && f.BaseOffset() < s.next {
			s.unfinished(f.Pos, src.Size())
			return nil
		}
		s.heads = scan.DigestOn(s.heads, f.Batch[:scan.HeadSize])
		if err := s.batch(f, src.Size()); err != nil {
			return err
		}
	}
}

// vouched compares the heads of all batches with what was written.
func (s *segment) vouched() {
	if s.want != nil && !s.torn && *s.want != s.heads {
		s.found.add(Damage, s.file, -1, s.base, "offsets, lengths, epochs or checksums of batches are not those that were written")
	}
}

// unfinished notes that the file is longer than the segment.
func (s *segment) unfinished(pos, size int64) {
	if !s.cut {
		s.found.add(Note, s.file, pos, s.expected, "the log was cut here; %d bytes no longer belong to it", size-pos)
	}
	s.cut = true
}

// skipped judges bytes that are no batch.
func (s *segment) skipped(src *scan.Source, pos, n int64, why string) {
	end := pos+n == src.Size()
	s.torn = s.torn || pos < s.limit
	switch {
	case pos >= s.limit || s.expected == s.next:
		s.unfinished(pos, src.Size())
	case end && s.last && src.Zeros(pos):
		s.found.add(Tail, s.file, pos, s.expected, "%d zero bytes at the end", n)
	case end && s.last:
		s.found.add(Tail, s.file, pos, s.expected, "%d bytes at the end are no batch: %s", n, why)
	default:
		s.found.add(Damage, s.file, pos, s.expected, "%d bytes are no batch: %s", n, why)
	}
}

// batch judges one batch, and hands it to all that is derived from it.
func (s *segment) batch(f scan.Placed, size int64) error {
	if !f.Valid {
		s.torn = true
		grade := Damage
		if s.last && f.Pos+int64(len(f.Batch)) == size {
			grade = Tail
		}
		s.found.add(grade, s.file, f.Pos, s.expected, "batch [%d, %d]: crc is %d, its bytes hash to %d",
			f.BaseOffset(), f.LastOffset(), f.CRC(), f.Sum)
		return nil
	}
	if why := s.misplaced(f); why != "" {
		s.torn = true
		s.found.add(Damage, s.file, f.Pos, s.expected, "batch [%d, %d] of epoch %d %s", f.BaseOffset(), f.LastOffset(), f.LeaderEpoch(), why)
		return nil
	}
	if s.deep {
		if err := f.Each(record.DefaultDecompressedMax, func(*record.Record) error { return nil }); err != nil {
			s.found.add(Damage, s.file, f.Pos, s.expected, "batch [%d, %d]: records: %s", f.BaseOffset(), f.LastOffset(), scan.Reason(err))
		}
	}
	if err := s.snapshotsBelow(f.BaseOffset() + 1); err != nil {
		return err
	}
	s.epochOf(f)
	r := s.report
	r.Batches++
	r.Records += int64(f.Count())
	r.Bytes += int64(len(f.Batch))
	s.offsets.batch(s, f)
	s.times.batch(s, f)
	s.txns.batch(s, f)
	s.expected, s.lastEpoch = f.NextOffset(), max(s.lastEpoch, f.LeaderEpoch())
	return nil
}

// misplaced says what is wrong with what the checksum doesn't cover, or "".
func (s *segment) misplaced(f scan.Placed) string {
	switch {
	case f.BaseOffset() < s.expected:
		return "lies where the log has reached its first offset already"
	case int64(f.LastOffset()-s.base) > math.MaxInt32:
		return "is too far from the segment's base"
	case f.BaseOffset() >= s.next:
		return "belongs behind the next segment's base"
	case f.LeaderEpoch() >= 0 && f.LeaderEpoch() < s.lastEpoch:
		return "follows a later epoch"
	case f.LeaderEpoch() < model.NoEpoch:
		return "has an epoch that there is none of"
	}
	return ""
}
