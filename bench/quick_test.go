package bench

import (
	"math/rand/v2"
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

// TestLogLoad: what was produced is counted and its newest batch found; what is
// not there is not.
func TestLogLoad(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	addr := c.ListenAddrs()[0]
	l := LogLoad{Topics: 2, Partitions: 3, Batches: 4, BatchBytes: 4 << 10}
	if err := l.Fill(addr); err != nil {
		t.Fatal(err)
	}
	_, records := batchOf(l.BatchBytes, 1<<10, rand.New(rand.NewPCG(3, 4)))
	ends, err := l.Await(addr)
	if want := int64(2 * 3 * 4 * records); err != nil || ends != want {
		t.Fatalf("the ends add up to %d, %v; want %d", ends, err, want)
	}
	each := ends / 6
	if err := l.AwaitTail(addr, each); err != nil {
		t.Error(err)
	}
	if askTail(addr, fetchRequest(l.topic(0), []int64{each}, 1<<20, 0)) == nil {
		t.Error("a batch behind the end was found")
	}
}
