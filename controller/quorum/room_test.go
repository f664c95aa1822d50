package quorum

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/vfs/memfs"
)

// TestFullDisk: a voter that is alone refuses changes of metadata while its disk is
// full, with an error that clients try again after, keeps its brokers, and goes on
// when there is room, also after a kill.
func TestFullDisk(t *testing.T) {
	disk := newDisk()
	n := startNode(t, settings{fs: disk})
	n.join()
	n.mustCreate("before", 1)
	free, total, err := disk.Free("data")
	must(t, err)
	for _, room := range []int64{0, 1000, roomMin - 1} {
		disk.SetCapacity(total - free + room)
		for range 3 {
			o := n.do(createRequest("during", 1))
			resp, ok := o.resp.(*kmsg.CreateTopicsResponse)
			if !ok || o.calls != 1 || len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != codeStorageError {
				t.Fatalf("with %d bytes of room: %+v", room, o)
			}
			if beat := n.heartbeat().resp.(*kmsg.BrokerHeartbeatResponse); beat.ErrorCode != 0 || beat.IsFenced {
				t.Fatalf("with %d bytes of room: heartbeat %+v", room, beat)
			}
			n.rt.advance(1e9)
		}
	}
	if len(n.failures) > 0 || n.Image().Topic("during") != nil || n.Image().Broker(1).Fenced {
		t.Fatalf("failures %v, topics %v", n.failures, topicNames(n.Image()))
	}
	disk.SetCapacity(0)
	n.rt.advance(1e9)
	n.mustCreate("after", 1)
	if n.heartbeat(); n.Image().Broker(1).Fenced {
		t.Error("the broker lost its session to the full disk")
	}
	n = startNode(t, settings{fs: disk.KillClone(memfs.Kill{})})
	if got := topicNames(n.Image()); len(got) != 2 {
		t.Errorf("topics %v", got)
	}
}
