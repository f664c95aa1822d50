package quorum

import (
	"errors"
	"syscall"
	"testing"

	"github.com/tidemark/tidemark/internal/vfs/faultfs"
)

// A disk that does not answer is no damage: nothing is rebuilt, and the next
// start has everything.
func TestUnreadableMetadataIsNotRebuilt(t *testing.T) {
	for _, name := range []string{"quorum-state", "*.checkpoint", "*.log"} {
		fs := newDisk()
		n := startNode(t, settings{fs: fs})
		n.join()
		n.mustCreate("t", 1)
		hash := n.Image().Hash()
		n.Stop(true)
		broken := faultfs.Wrap(fs, faultfs.When(faultfs.And(faultfs.PathMatch(name), faultfs.OpIn(faultfs.OpRead)), faultfs.EIO()))
		again := newTestNode(t, settings{fs: broken, recovers: []RecoveredTopic{}})
		if err := again.Start(); !errors.Is(err, syscall.EIO) || len(again.receipts) > 0 {
			t.Errorf("%s can't be read: started with %v, %d recoveries", name, err, len(again.receipts))
		}
		whole := newTestNode(t, settings{fs: fs})
		if err := whole.Start(); err != nil || whole.Image().Topic("t") == nil {
			t.Errorf("%s can be read again: %v, image %x, before %x", name, err, whole.Image().Hash(), hash)
		}
	}
}
