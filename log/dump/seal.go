package dump

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// The layout of a seal, Tidemark's own file beside a sealed segment. Package
// log has the other half; TestOwnLogIsClean holds the two together.
const (
	sealMagic   = "TMS1"
	sealSize    = 53
	sealPosSize = 5
	sealPosCRCs = 37
	sealPosCRC  = sealSize - 4
)

// sealed is the content of a seal.
type sealed struct {
	final     bool
	size      int64
	next      model.Offset
	maxTS     model.Timestamp
	maxTSLast model.Offset
	indexes   [3]uint32 // digests of .index, .timeindex, .txnindex
	crc       uint32    // as stored
	want      uint32    // as it should be
}

// decodeSeal is false for bytes that are no seal. The checksum is not judged.
func decodeSeal(b []byte) (s sealed, ok bool) {
	if len(b) != sealSize || string(b[:len(sealMagic)]) != sealMagic {
		return s, false
	}
	be := binary.BigEndian
	s = sealed{
		final:     b[len(sealMagic)] == 1,
		size:      int64(be.Uint64(b[sealPosSize:])),
		next:      model.Offset(be.Uint64(b[13:])),
		maxTS:     model.Timestamp(be.Uint64(b[21:])),
		maxTSLast: model.Offset(be.Uint64(b[29:])),
		crc:       be.Uint32(b[sealPosCRC:]),
		want:      digest(b[:sealPosCRC]),
	}
	for i := range s.indexes {
		s.indexes[i] = be.Uint32(b[sealPosCRCs+4*i:])
	}
	return s, true
}

func digest(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// seal shows what was true of a segment when it was sealed. If the segment
// hasn't grown since, its size and the digests of its indexes must be the same.
func (d *dumper) seal() error {
	b, err := vfs.ReadFile(d.fs, d.path)
	if err != nil {
		return err
	}
	s, ok := decodeSeal(b)
	if !ok {
		d.out.found(0, "%d bytes that are no seal, which has %d and begins with %s", len(b), sealSize, sealMagic)
		return nil
	}
	p := &d.out
	p.begin("seal", "")
	p.flag("final", s.final)
	p.num("size", s.size)
	p.num("nextOffset", int64(s.next))
	p.num("maxTimestamp", int64(s.maxTS))
	p.num("offsetOfMaxTimestamp", int64(s.maxTSLast))
	p.num("indexCrc", int64(s.indexes[0]))
	p.num("timeIndexCrc", int64(s.indexes[1]))
	p.num("txnIndexCrc", int64(s.indexes[2]))
	p.end()
	if s.crc != s.want {
		p.found(sealPosCRC, "crc is %d, bytes hash to %d", s.crc, s.want)
		return nil
	}
	d.matchSeal(s)
	return nil
}

// matchSeal compares a seal with the files that it speaks of.
func (d *dumper) matchSeal(s sealed) {
	info, err := d.fs.Stat(d.sibling(logSuffix))
	switch {
	case err != nil:
		d.out.note(-1, "no segment beside it")
	case info.Size < s.size:
		d.out.found(sealPosSize, "the segment has %d bytes, %d when it was sealed", info.Size, s.size)
	case info.Size > s.size && s.final:
		d.out.note(sealPosSize, "the last %d bytes of the segment were cut off", info.Size-s.size)
	case info.Size > s.size:
		// The segment that is being written is sealed at each checkpoint.
		d.out.note(sealPosSize, "the segment has grown to %d bytes since", info.Size)
		return
	}
	for i, suffix := range []string{indexSuffix, timeSuffix, txnSuffix} {
		index, err := vfs.ReadFile(d.fs, d.sibling(suffix))
		if err != nil {
			continue // an index that is gone is rebuilt
		}
		if got := digest(index); got != s.indexes[i] {
			d.out.found(int64(sealPosCRCs+4*i), "%s hashes to %d, to %d when it was sealed", suffix, got, s.indexes[i])
		}
	}
}

// cutOff tells if the segment's seal says that it ends before its file does.
func (d *dumper) cutOff(size int64) {
	b, err := vfs.ReadFile(d.fs, d.sibling(sealSuffix))
	if err != nil {
		return // there needn't be one
	}
	if s, ok := decodeSeal(b); ok && s.crc == s.want && s.final && s.size < size {
		d.out.note(s.size, "the segment was cut off here; the last %d bytes no longer belong to it", size-s.size)
	}
}
