package verify

import (
	"github.com/tidemark/tidemark/log/scan"
)

// openSides reads what stands beside a segment. A seal may end the segment
// before its file ends.
func (s *segment) openSides() error {
	if err := s.seal(); err != nil {
		return err
	}
	b, ok, err := s.read(name(s.base, indexSuffix))
	if err != nil {
		return err
	}
	s.offsets = &offsetIndex{entries: entries{file: name(s.base, indexSuffix), bytes: trimZeros(b, scan.OffsetEntrySize), size: scan.OffsetEntrySize}}
	s.missing(ok, s.offsets.file)
	if b, ok, err = s.read(name(s.base, timeSuffix)); err != nil {
		return err
	}
	s.times = &timeIndex{entries: entries{file: name(s.base, timeSuffix), bytes: trimZeros(b, scan.TimeEntrySize), size: scan.TimeEntrySize}}
	s.missing(ok, s.times.file)
	if b, _, err = s.read(name(s.base, txnSuffix)); err != nil {
		return err
	}
	s.txns = &txnIndex{entries: entries{file: name(s.base, txnSuffix), bytes: b, size: scan.AbortedSize}}
	return nil
}

// missing tells of an index that is not there. Those of the last segment live in
// memory while it is written.
func (s *segment) missing(ok bool, file string) {
	if !ok && !s.last {
		s.found.add(Derived, file, -1, s.base, "missing")
	}
}

// closeSides tells what the indexes say of batches that are not there.
func (s *segment) closeSides() error {
	s.vouched()
	s.offsets.end(s)
	s.times.end(s)
	s.txns.end(s)
	return nil
}

// seal compares a seal with the files that it speaks of.
func (s *segment) seal() error {
	file := name(s.base, sealSuffix)
	b, ok, err := s.read(file)
	if err != nil || !ok {
		return err // Kafka has no seals
	}
	seal, ok := scan.DecodeSeal(b)
	if !ok || seal.Stored != seal.Sum {
		s.found.add(Derived, file, -1, s.base, "it is damaged, and counts as missing")
		return nil
	}
	switch {
	case seal.Size > s.limit:
		s.found.add(Damage, s.file, s.limit, s.base, "the segment has %d bytes, %d when it was sealed", s.limit, seal.Size)
		return nil
	case seal.Size < s.limit && !seal.Final:
		return nil // the segment was being written, and has grown since
	case seal.Size < s.limit:
		s.limit = seal.Size
	}
	if seal.Final && !s.last && seal.Next < s.next {
		s.found.add(Damage, file, -1, seal.Next, "segment %d was followed by %d when it was sealed, now by %d", s.base, seal.Next, s.next)
	}
	if seal.Headed {
		s.want = &seal.Heads
	}
	for i, suffix := range []string{indexSuffix, timeSuffix, txnSuffix} {
		index, ok, err := s.read(name(s.base, suffix))
		if err != nil {
			return err
		}
		if ok && scan.Digest(index) != seal.Indexes[i] {
			s.found.add(Derived, name(s.base, suffix), -1, s.base, "it is not the one that was sealed")
		}
	}
	return nil
}

// trimZeros cuts the entries of zeros off that Kafka preallocates.
func trimZeros(b []byte, size int) []byte {
	n := len(b) / size * size
	if n != len(b) {
		return b // told by its user
	}
	for n >= size && zero(b[n-size:n]) {
		n -= size
	}
	return b[:n]
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// entries is an index that is read along with the batches.
type entries struct {
	file  string
	bytes []byte
	size  int
	at    int // the next entry's position
}

// peek returns the next entry, nil behind the last whole one.
func (e *entries) peek() []byte {
	if e.at+e.size > len(e.bytes) {
		return nil
	}
	return e.bytes[e.at : e.at+e.size]
}

// rest tells of bytes that are no entry.
func (e *entries) rest(s *segment) {
	if n := len(e.bytes) % e.size; n != 0 {
		s.found.add(Derived, e.file, int64(len(e.bytes)-n), s.base, "%d bytes at the end, an entry has %d", n, e.size)
	}
}
