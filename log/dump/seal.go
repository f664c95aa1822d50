package dump

import (
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/scan"
)

// seal shows what was true of a segment when it was sealed. If the segment
// hasn't grown since, its size and the digests of its indexes must be the same.
func (d *dumper) seal() error {
	b, err := vfs.ReadFile(d.fs, d.path)
	if err != nil {
		return err
	}
	s, ok := scan.DecodeSeal(b)
	if !ok {
		d.out.found(0, "%d bytes that are no seal, which has %d and begins with %s", len(b), scan.SealSize, scan.SealMagic)
		return nil
	}
	p := &d.out
	p.begin("seal", "")
	p.flag("final", s.Final)
	p.num("size", s.Size)
	p.num("nextOffset", int64(s.Next))
	p.num("maxTimestamp", int64(s.MaxTS))
	p.num("offsetOfMaxTimestamp", int64(s.MaxTSLast))
	p.num("indexCrc", int64(s.Indexes[0]))
	p.num("timeIndexCrc", int64(s.Indexes[1]))
	p.num("txnIndexCrc", int64(s.Indexes[2]))
	if s.Headed {
		p.num("headsCrc", int64(s.Heads))
	}
	p.end()
	if s.Stored != s.Sum {
		p.found(int64(len(b)-4), "crc is %d, bytes hash to %d", s.Stored, s.Sum)
		return nil
	}
	d.matchSeal(s)
	return nil
}

// matchSeal compares a seal with the files that it speaks of.
func (d *dumper) matchSeal(s scan.Seal) {
	info, err := d.fs.Stat(d.sibling(logSuffix))
	switch {
	case err != nil:
		d.out.note(-1, "no segment beside it")
	case info.Size < s.Size:
		d.out.found(scan.SealPosSize, "the segment has %d bytes, %d when it was sealed", info.Size, s.Size)
	case info.Size > s.Size && s.Final:
		d.out.note(scan.SealPosSize, "the last %d bytes of the segment were cut off", info.Size-s.Size)
	case info.Size > s.Size:
		// The segment that is being written is sealed at each checkpoint.
		d.out.note(scan.SealPosSize, "the segment has grown to %d bytes since", info.Size)
		return
	}
	for i, suffix := range []string{indexSuffix, timeSuffix, txnSuffix} {
		index, err := vfs.ReadFile(d.fs, d.sibling(suffix))
		if err != nil {
			continue // an index that is gone is rebuilt
		}
		if got := scan.Digest(index); got != s.Indexes[i] {
			d.out.found(int64(scan.SealPosDigests+4*i), "%s hashes to %d, to %d when it was sealed", suffix, got, s.Indexes[i])
		}
	}
}

// cutOff tells if the segment's seal says that it ends before its file does.
func (d *dumper) cutOff(size int64) {
	b, err := vfs.ReadFile(d.fs, d.sibling(sealSuffix))
	if err != nil {
		return // there needn't be one
	}
	if s, ok := scan.DecodeSeal(b); ok && s.Stored == s.Sum && s.Final && s.Size < size {
		d.out.note(s.Size, "the segment was cut off here; the last %d bytes no longer belong to it", size-s.Size)
	}
}
