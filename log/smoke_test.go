package log_test

import (
	"fmt"
	"testing"

	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/protocol/record"
)

func TestSmoke(t *testing.T) {
	fs := memfs.New()
	for _, stop := range []log.Stop{log.StopClean, log.StopProcess, log.StopPower} {
		dir := fmt.Sprint("/d/", stop)
		l, rep, err := log.Open(log.Options{FS: fs, Dir: dir, Stop: stop, Config: log.Config{SegmentBytes: 500}})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", rep)
		_ = record.HeaderSize
		_ = l
	}
}
