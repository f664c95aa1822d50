package sim

import (
	"encoding/binary"
	"path/filepath"
	"strings"

	"github.com/tidemark/tidemark/internal/vfs"
)

// checkIndexes compares the offset index files of a replica's sealed segments
// with the batches that they lead to.
func (r *replica) checkIndexes() {
	w, disk := r.m.world, r.m.disk
	dir := partDir(r.tp)
	names, err := disk.List(dir)
	if err != nil {
		return
	}
	var segments []string
	for _, name := range names {
		if base, ok := strings.CutSuffix(name, ".log"); ok {
			segments = append(segments, base)
		}
	}
	for _, base := range segments[:max(len(segments)-1, 0)] {
		index, err := vfs.ReadFile(disk, filepath.Join(dir, base+".index"))
		if err != nil || len(index) == 0 {
			continue // it can be made from the segment
		}
		b, err := vfs.ReadFile(disk, filepath.Join(dir, base+".log"))
		if err != nil {
			continue
		}
		var first int64
		lasts := make(map[uint32]int64) // position → last offset of the batch there
		pos := uint32(0)
		_, _ = eachBatch(b, func(h *batchHead, raw []byte) error {
			if pos == 0 {
				first = h.base
			}
			lasts[pos] = h.last
			pos += uint32(len(raw))
			return nil
		})
		for e := index; len(e) >= 8; e = e[8:] {
			offset := first + int64(binary.BigEndian.Uint32(e))
			at := binary.BigEndian.Uint32(e[4:])
			if last, ok := lasts[at]; !ok || last != offset {
				w.fail(13, "%v: the index of segment %s says on broker %d that the batch ending at %d is at position %d, a batch ending at %d is (%v)", r.tp, base, r.m.id, offset, at, last, ok)
			}
		}
	}
}
