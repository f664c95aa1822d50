package log_test

import (
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
)

// TestIndexesOfARollWithoutRoom: what a roll could not store is stored by the next
// checkpoint or clean close that finds room, and a checkpoint that finds none leaves
// it to the next.
func TestIndexesOfARollWithoutRoom(t *testing.T) {
	for _, suffix := range []string{".index", ".timeindex", ".seal"} {
		r := newRig(t)
		full := faultfs.NewToggle(faultfs.When(faultfs.And(faultfs.OpIn(faultfs.OpWrite), faultfs.PathMatch("*00000000000000000000"+suffix+"*")), faultfs.ENOSPC(3)))
		r.fs = faultfs.Wrap(r.mem, full)
		r.start(log.StopClean, 0)
		r.append(logtest.Batches(0, 5, 0))
		full.On()
		if err := r.l.Roll(model.Now{}); err != nil {
			t.Fatal(err)
		}
		r.append(logtest.Batches(5, 5, 0))
		if err := r.l.Checkpoint(); err == nil {
			t.Errorf("%s: a checkpoint without room is no error", suffix)
		}
		full.Off()
		if err := r.l.Close(true); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{".index", ".timeindex", ".seal"} {
			if _, err := r.mem.Stat(r.file(0, name)); err != nil {
				t.Errorf("%s: after a close with room: %v", suffix, err)
			}
		}
	}
}
