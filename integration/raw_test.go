package integration

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// dial opens a bare connection that the test closes.
func (n *node) dial() net.Conn {
	n.t.Helper()
	c, err := net.DialTimeout("tcp", n.addr, 10*time.Second)
	if err != nil {
		n.t.Fatal(err)
	}
	return c
}

// frame is a request as it goes over the wire.
func frame(req kmsg.Request, version int16, id int32) []byte {
	req.SetVersion(version)
	return kmsg.NewRequestFormatter().AppendRequest(nil, req, id)
}

// readFrame reads one answer without its size.
func readFrame(c net.Conn, patience time.Duration) ([]byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(c, b)
	return b, err
}

// batch is a batch of n records of a size.
func batch(n, size int) []byte { return batchBy(0, n, size) }

// batchOf is a small batch of n records of one producer.
func batchOf(producer int32, n int) []byte { return batchBy(producer, n, 100) }

func batchBy(producer int32, n, size int) []byte {
	b := record.NewBuilder(record.Options{})
	for i := range n {
		b.Append(model.Timestamp(time.Now().UnixMilli()), nil, stamp{producer, int64(i)}.value(size))
	}
	return b.Build()
}

// produceOnce appends one batch with acks=all and no retry.
func (n *node) produceOnce(cl *kgo.Client, p tp, records []byte) (offset int64, code int16, err error) {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = p.topic
	id, err := n.topicID(cl, p.topic)
	if err != nil {
		return 0, 0, err
	}
	rt.TopicID = id
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = p.n, records
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := n.ask(cl, req)
	if err != nil {
		return 0, 0, err
	}
	got := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	return got.BaseOffset, got.ErrorCode, nil
}

func (n *node) topicID(cl *kgo.Client, topic string) ([16]byte, error) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	resp, err := n.ask(cl, req)
	if err != nil {
		return [16]byte{}, err
	}
	t := resp.(*kmsg.MetadataResponse).Topics[0]
	if t.ErrorCode != 0 {
		return [16]byte{}, fmt.Errorf("metadata of %s: code %d", topic, t.ErrorCode)
	}
	return t.TopicID, nil
}

// fetchOnce reads from an offset without a session.
func (n *node) fetchOnce(cl *kgo.Client, p tp, offset int64, max int32) (bytes int, code int16, err error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.SessionEpoch, req.ReplicaState.ID = 50<<20, -1, -1
	rt := kmsg.NewFetchRequestTopic()
	id, err := n.topicID(cl, p.topic)
	if err != nil {
		return 0, 0, err
	}
	rt.Topic, rt.TopicID = p.topic, id
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p.n, offset, max
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := n.ask(cl, req)
	if err != nil {
		return 0, 0, err
	}
	got := resp.(*kmsg.FetchResponse)
	if got.ErrorCode != 0 {
		return 0, got.ErrorCode, nil
	}
	f := got.Topics[0].Partitions[0]
	return len(f.RecordBatches), f.ErrorCode, nil
}

// end returns a partition's end offset. A leader that was just elected may not
// know yet what is committed, and says so (KIP-207).
func (n *node) end(cl *kgo.Client, p tp) int64 {
	n.t.Helper()
	const offsetNotAvailable = 78
	for tries := 0; ; tries++ {
		end, code := n.askEnd(cl, p)
		switch {
		case code == 0:
			return end
		case code != offsetNotAvailable || tries == 500:
			n.t.Fatalf("end of %v: code %d", p, code)
		}
		pause(10 * time.Millisecond)
	}
}

// askEnd asks once for a partition's end offset.
func (n *node) askEnd(cl *kgo.Client, p tp) (end int64, code int16) {
	n.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = p.topic
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp = p.n, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := n.ask(cl, req)
	if err != nil {
		n.t.Fatal(err)
	}
	got := resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	return got.Offset, got.ErrorCode
}

// listEnd returns a partition's end offset, wherever its leader is.
func listEnd(ctx context.Context, cl *kgo.Client, p tp) (int64, error) {
	return listOffset(ctx, cl, p, -1)
}

// listOffset returns the offset of a time, or of -1 for the end and -2 for the start.
func listOffset(ctx context.Context, cl *kgo.Client, p tp, at int64) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = p.topic
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp = p.n, at
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("no answer for %v", p)
	}
	got := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
		return 0, err
	}
	return got.Offset, nil
}
