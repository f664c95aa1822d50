package bench

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestCellsAgainstKfake runs a sliver of every cell against an in-memory
// broker: the generator's requests are well formed and its own checks hold.
func TestCellsAgainstKfake(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, cell := range Cells() {
		t.Run(cell.Name, func(t *testing.T) {
			r, err := cell.Run(Target{Addr: c.ListenAddrs()[0], PID: selfPID()}, 0.005)
			if err != nil {
				t.Fatal(err)
			}
			if r.Requests == 0 || r.Bytes == 0 || r.Broker.CPU == 0 || r.Elapsed == 0 || r.P99 < r.P50 {
				t.Fatalf("empty result: %+v", r)
			}
		})
	}
}

// TestOffsetsLoad: what is filled in is found again, and what is not is not.
func TestOffsetsLoad(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	addr := c.ListenAddrs()[0]
	l := OffsetsLoad{Groups: 30, Partitions: 15}
	if err := l.Fill(addr); err != nil {
		t.Fatal(err)
	}
	if err := l.Await(addr); err != nil {
		t.Error(err)
	}
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.Groups = []kmsg.OffsetFetchResponseGroup{{Topics: []kmsg.OffsetFetchResponseGroupTopic{{Partitions: []kmsg.OffsetFetchResponseGroupTopicPartition{{Offset: 7}}}}}}
	if offsetsThere(resp, 7) != nil || offsetsThere(resp, 8) == nil {
		t.Error("an offset of 7 is not told from one of 8")
	}
}
