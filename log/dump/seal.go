package dump

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/tidemark/tidemark/internal/vfs"
)

// The layout of a seal, Tidemark's own file beside a sealed segment.
const (
	sealMagic   = "TMS1"
	sealSize    = 52
	sealCRCFrom = sealSize - 4
)

// seal shows what was true of a segment when it was sealed. If the segment
// hasn't grown since, its size and the digests of its indexes must be the same.
func (d *dumper) seal() error {
	b, err := vfs.ReadFile(d.fs, d.path)
	if err != nil {
		return err
	}
	if len(b) != sealSize || string(b[:len(sealMagic)]) != sealMagic {
		d.out.found(0, "%d bytes that are no seal, which has %d and begins with %s", len(b), sealSize, sealMagic)
		return nil
	}
	be := binary.BigEndian
	size := int64(be.Uint64(b[4:]))
	p := &d.out
	p.begin("seal", "")
	p.num("size", size)
	p.num("nextOffset", int64(be.Uint64(b[12:])))
	p.num("maxTimestamp", int64(be.Uint64(b[20:])))
	p.num("offsetOfMaxTimestamp", int64(be.Uint64(b[28:])))
	p.num("indexCrc", int64(be.Uint32(b[36:])))
	p.num("timeIndexCrc", int64(be.Uint32(b[40:])))
	p.num("txnIndexCrc", int64(be.Uint32(b[44:])))
	p.end()
	table := crc32.MakeTable(crc32.Castagnoli)
	if stored, got := be.Uint32(b[sealCRCFrom:]), crc32.Checksum(b[:sealCRCFrom], table); stored != got {
		p.found(sealCRCFrom, "crc is %d, bytes hash to %d", stored, got)
		return nil
	}
	if info, err := d.fs.Stat(d.sibling(logSuffix)); err != nil {
		p.note(-1, "no segment beside it")
	} else if info.Size < size {
		p.found(4, "the segment has %d bytes, %d when it was sealed", info.Size, size)
	} else if info.Size > size {
		// The last segment is sealed at each checkpoint and then grows.
		p.note(4, "the segment has grown to %d bytes since", info.Size)
		return nil
	}
	for i, suffix := range []string{indexSuffix, timeSuffix, txnSuffix} {
		index, err := vfs.ReadFile(d.fs, d.sibling(suffix))
		if err != nil {
			continue // an index that is gone is rebuilt
		}
		at := int64(36 + 4*i)
		if stored, got := be.Uint32(b[at:]), crc32.Checksum(index, table); stored != got {
			p.found(at, "%s hashes to %d, to %d when it was sealed", suffix, got, stored)
		}
	}
	return nil
}
