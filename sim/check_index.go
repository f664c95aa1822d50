package sim

import (
	"encoding/binary"
	"path/filepath"
	"slices"
	"strings"
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
		index, err := disk.Content(filepath.Join(dir, base+".index"))
		if err != nil || len(index) == 0 {
			continue // it can be made from the segment
		}
		b, err := disk.Content(filepath.Join(dir, base+".log"))
		if err != nil {
			continue
		}
		batches, _, _ := w.parses.of(b)
		first := int64(0)
		if len(batches) > 0 {
			first = batches[0].base
		}
		for e := index; len(e) >= 8; e = e[8:] {
			offset := first + int64(binary.BigEndian.Uint32(e))
			at := binary.BigEndian.Uint32(e[4:])
			last, ok := lastAt(batches, int(at))
			if !ok || last != offset {
				w.fail(13, "%v: the index of segment %s says on broker %d that the batch ending at %d is at position %d, a batch ending at %d is (%v)", r.tp, base, r.m.id, offset, at, last, ok)
			}
		}
	}
}

// lastAt returns the last offset of the batch at a position of a file.
func lastAt(batches []fileBatch, pos int) (last int64, ok bool) {
	i, ok := slices.BinarySearchFunc(batches, pos, func(b fileBatch, pos int) int { return b.pos - pos })
	if !ok {
		return 0, false
	}
	return batches[i].last, true
}
