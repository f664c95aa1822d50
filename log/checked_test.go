package log_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/protocol/record"
)

// A bit may flip in what a start takes as it stands. Where it lies in a header,
// outside of what the CRC covers, the batch is never given to a reader; elsewhere
// the reader's own check tells.
func TestFlippedHeaderIsNotServed(t *testing.T) {
	first, m := segmented(t)
	type header struct {
		file  string
		pos   int
		batch record.Batch
	}
	var headers []header
	for _, base := range []model.Offset{8, 24} { // a sealed segment, and the last
		path := first.file(base, ".log")
		file := first.read(path)
		for pos := 0; pos < len(file); {
			b := record.Batch(file[pos : pos+int(record.SizeOf(file[pos:]))])
			headers = append(headers, header{path, pos, b})
			pos += len(b)
		}
	}
	served, refused := 0, 0
	for k, h := range headers {
		if k == 0 || h.file != headers[k-1].file || k == len(headers)-1 || h.file != headers[k+1].file {
			continue // the ends of a segment are compared with the epoch file at the start
		}
		for bit := range 21 * 8 {
			r, _ := segmented(t)
			r.must(r.l.Close(true))
			file := bytes.Clone(r.read(h.file))
			file[h.pos+bit/8] ^= 1 << (bit % 8)
			r.rewrite(h.file, file)
			_, err := r.open(log.StopClean, 32)
			var damage *log.CorruptionError
			if errors.As(err, &damage) {
				refused++
				continue
			}
			r.must(err)
			if flipSkipped(r, m, h.batch) {
				t.Errorf("batch [%d, %d]: bit %d of byte %d is flipped, and it is passed over", h.batch.BaseOffset(), h.batch.LastOffset(), bit%8, bit/8)
			}
			if !flipServed(r, m, h.batch, bit) {
				refused++
			} else if served++; bit/8 < 17 {
				t.Errorf("batch [%d, %d]: bit %d of byte %d is flipped, and it is served", h.batch.BaseOffset(), h.batch.LastOffset(), bit%8, bit/8)
			}
		}
	}
	if refused == 0 || served == 0 {
		t.Errorf("refused %d, served %d: the test can't fail", refused, served)
	}
}

// flipSkipped reports whether a reader who begins at the batch is given the next.
func flipSkipped(r *rig, m *logtest.Model, b record.Batch) bool {
	region, err := r.l.View().Read(b.BaseOffset(), m.End, 1, true)
	if err != nil {
		return false
	}
	defer region.Release()
	return region.Start() > b.BaseOffset()
}

// flipServed reports whether a reader is given the batch as it is not.
func flipServed(r *rig, m *logtest.Model, b record.Batch, bit int) bool {
	r.Helper()
	v := r.l.View()
	for _, size := range []int{1, 200, 1 << 20} {
		for from := m.Start; from < m.End; {
			region, err := v.Read(from, m.End, size, true)
			if err != nil {
				break
			}
			got := make([]byte, region.Len())
			if _, err := region.ReadAt(got, 0); err != nil {
				r.Fatal(err)
			}
			region.Release()
			next := from
			for len(got) >= record.HeaderSize && len(got) >= int(record.SizeOf(got)) {
				one := record.Batch(got[:record.SizeOf(got)])
				want := bytes.Clone(b)
				want[bit/8] ^= 1 << (bit % 8)
				if bytes.Equal(one, want) {
					return true
				}
				next = max(next, one.NextOffset())
				got = got[len(one):]
			}
			if next == from {
				break
			}
			from = next
		}
	}
	return false
}
