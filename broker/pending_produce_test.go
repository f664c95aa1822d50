package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/protocol/server"
)

// A recycled answer keeps nothing of the request that it answered before: the
// brokers' addresses are told only to whom another leader is named.
func TestRecycledProduceAnswerForgetsEndpoints(t *testing.T) {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 12
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: make([]kmsg.ProduceRequestTopicPartition, 1)}}
	var p pendingProduce
	p.begin(nil, &server.Request{}, req)
	p.resp.Brokers = []kmsg.ProduceResponseBroker{{NodeID: 1, Host: "h", Port: 9092}}
	p.resp.Topics[0].Partitions[0].CurrentLeader.LeaderID = 1
	p.begin(nil, &server.Request{}, req)
	if len(p.resp.Brokers) != 0 || p.resp.Topics[0].Partitions[0].CurrentLeader.LeaderID != -1 {
		t.Errorf("the next answer names brokers %v and leader %d", p.resp.Brokers, p.resp.Topics[0].Partitions[0].CurrentLeader.LeaderID)
	}
}
