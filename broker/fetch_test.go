package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchOf asks for one partition.
func fetchOf(topic string, partition int32, offset int64, max int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxBytes, req.SessionEpoch = -1, 50<<20, -1
	req.Topics = append(req.Topics, fetchTopic(topic, fetchPart(partition, offset, max)))
	return req
}

func fetchTopic(topic string, parts ...kmsg.FetchRequestTopicPartition) kmsg.FetchRequestTopic {
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.Partitions = topic, parts
	return rt
}

func fetchPart(partition int32, offset int64, max int32) kmsg.FetchRequestTopicPartition {
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = partition, offset, max
	return rp
}

func (c *rawConn) fetch(v int16, topic string, partition int32, offset int64, max int32) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	return c.call(fetchOf(topic, partition, offset, max), v).(*kmsg.FetchResponse).Topics[0].Partitions[0]
}
