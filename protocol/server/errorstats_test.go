package server

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/protocol"
)

// Every error code of an answer is counted, wherever it stands in it, and what is no
// error is not.
func TestErrorsAreCounted(t *testing.T) {
	produce := kmsg.NewPtrProduceResponse()
	produce.Topics = []kmsg.ProduceResponseTopic{{Partitions: []kmsg.ProduceResponseTopicPartition{{ErrorCode: 6}, {}, {ErrorCode: 6}, {ErrorCode: 56}}}}
	metadata := kmsg.NewPtrMetadataResponse()
	metadata.Topics = []kmsg.MetadataResponseTopic{{ErrorCode: 3}, {Partitions: []kmsg.MetadataResponseTopicPartition{{ErrorCode: 5}, {}}}}
	beat := kmsg.NewPtrBrokerHeartbeatResponse()
	beat.ErrorCode = 77
	quorum := kmsg.NewPtrDescribeQuorumResponse()
	quorum.ErrorCode, quorum.Topics = 6, []kmsg.DescribeQuorumResponseTopic{{Partitions: []kmsg.DescribeQuorumResponseTopicPartition{{ErrorCode: -1}}}}
	s := new(Server)
	for _, m := range []kmsg.Response{produce, metadata, beat, quorum, kmsg.NewPtrApiVersionsResponse()} {
		s.errors.count(m.Key(), m)
		s.errors.count(m.Key(), m)
	}
	got := ""
	for _, e := range s.Errors() {
		got += fmt.Sprintf(" %d:%d=%d", e.Key, e.Code, e.Count)
	}
	if want := " 0:6=4 0:56=2 3:3=2 3:5=2 55:-1=2 55:6=2 63:77=2"; got != want {
		t.Errorf("counted%s, want%s", got, want)
	}
}

// A response without errors costs no memory to look through.
func TestLookingForErrorsDoesNotAllocate(t *testing.T) {
	produce := kmsg.NewPtrProduceResponse()
	produce.Topics = []kmsg.ProduceResponseTopic{{Partitions: make([]kmsg.ProduceResponseTopicPartition, 100)}}
	var c errorCounts
	if n := testing.AllocsPerRun(100, func() { c.count(protocol.KeyProduce, produce) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
