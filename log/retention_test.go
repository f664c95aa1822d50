package log_test

import (
	"math"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
)

// segmentsOf makes segments of ten offsets each; the last one is being written.
func segmentsOf(sizes []int64, times []model.Timestamp) []log.SegmentInfo {
	infos := make([]log.SegmentInfo, len(sizes))
	for i := range sizes {
		base := model.Offset(10 * i)
		infos[i] = log.SegmentInfo{Base: base, Next: base + 10, Size: sizes[i], MaxTimestamp: times[i], Active: i == len(sizes)-1}
		if sizes[i] == 0 {
			infos[i].Next = base
		}
	}
	return infos
}

func TestExpire(t *testing.T) {
	const none = model.NoTimestamp
	old := []model.Timestamp{100, 200, 300, 400}
	for _, c := range []struct {
		name       string
		sizes      []int64
		times      []model.Timestamp
		start      model.Offset
		age, bytes int64
		now        model.Timestamp
		committed  model.Offset
		to         model.Offset
		size, aged int
	}{
		{"for ever", []int64{50, 50, 50, 50}, old, 0, -1, -1, 1 << 40, 40, 0, 0, 0},
		{"nothing is old enough", []int64{50, 50, 50, 50}, old, 0, 100, -1, 200, 40, 0, 0, 0},
		{"exactly as old as allowed stays", []int64{50, 50, 50, 50}, old, 0, 100, -1, 200, 40, 0, 0, 0},
		{"one millisecond older goes", []int64{50, 50, 50, 50}, old, 0, 100, -1, 201, 40, 10, 0, 1},
		{"all but the newest", []int64{50, 50, 50, 50}, old, 0, 100, -1, 401, 40, 30, 0, 3},
		{"the one being written goes too", []int64{50, 50, 50, 50}, old, 0, 100, -1, 501, 40, 40, 0, 4},
		{"an empty one that is being written stays", []int64{50, 50, 50, 0}, []model.Timestamp{1, 1, 1, none}, 0, 100, -1, 501, 30, 30, 0, 3},
		{"an empty log", []int64{0}, []model.Timestamp{none}, 0, 0, 0, 501, 0, 0, 0, 0},
		{"not above the high watermark", []int64{50, 50, 50, 50}, old, 0, 100, 0, 501, 29, 20, 2, 0},
		{"a young one keeps older ones behind it", []int64{50, 50, 50, 50}, []model.Timestamp{100, 9999, 300, 400}, 0, 100, -1, 501, 40, 10, 0, 1},
		{"retention 0", []int64{50, 50, 50, 50}, old, 0, 0, -1, 301, 40, 30, 0, 3},
		{"by size, exactly full", []int64{50, 50, 50, 50}, old, 0, -1, 200, 0, 40, 0, 0, 0},
		{"by size, one byte too many is not a segment", []int64{50, 50, 50, 50}, old, 0, -1, 199, 0, 40, 0, 0, 0},
		{"by size, a whole segment too many", []int64{50, 50, 50, 50}, old, 0, -1, 150, 0, 40, 10, 1, 0},
		{"by size, nothing is to be kept", []int64{50, 50, 50, 50}, old, 0, -1, 0, 0, 40, 40, 4, 0},
		{"by size, a large one first stops it", []int64{500, 50, 50, 50}, old, 0, -1, 600, 0, 40, 0, 0, 0},
		{"both, size first", []int64{50, 50, 50, 50}, old, 0, 100, 150, 351, 40, 20, 1, 1},
		{"both, the age alone would do", []int64{50, 50, 50, 50}, old, 0, 100, 100, 201, 40, 20, 2, 0},
		{"below the start nothing counts", []int64{50, 50, 50, 50}, old, 20, -1, 100, 0, 40, 20, 0, 0},
		{"the start is inside a segment", []int64{50, 50, 50, 50}, old, 15, -1, 100, 0, 40, 20, 1, 0},
		{"without a timestamp the file's counts", []int64{50, 50}, []model.Timestamp{none, 1100}, 0, 100, -1, 1120, 20, 10, 0, 1},
		{"without a timestamp, written lately", []int64{50, 50}, []model.Timestamp{none, 400}, 0, 100, -1, 1050, 20, 0, 0, 0},
		{"from the far future", []int64{50, 50}, []model.Timestamp{math.MaxInt64, 1}, 0, 100, -1, 1 << 41, 20, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := log.Expire(segmentsOf(c.sizes, c.times), c.start, log.Retention{
				MaxAgeMs: c.age, MaxBytes: c.bytes, Now: c.now, Committed: c.committed,
				Modified: func(model.Offset) model.Timestamp { return 1000 },
			})
			if want := (log.Expired{To: c.to, BySize: c.size, ByAge: c.aged}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
