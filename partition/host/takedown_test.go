package host

import (
	"testing"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/partition"
)

// More waits for a partition than one owner of its box handles. Where there is one
// goroutine nobody comes for the rest while that one takes the partition down.
func TestTakeDownOfABusyPartition(t *testing.T) {
	n, h := compacting(t, nil)
	for range 3 * loop.OthersMax {
		h.box.Post(mendMsg{})
	}
	if plog := n.m.takeDown(h, partition.CodeNotLeaderOrFollower, "test"); plog == nil {
		t.Error("no log")
	}
	if h.box.Len() != 0 {
		t.Errorf("%d messages still wait", h.box.Len())
	}
}
