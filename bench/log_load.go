package bench

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// LogLoad is topics with records in them, for measuring how long a broker takes
// to serve what it finds at a start.
type LogLoad struct {
	Topics     int
	Partitions int // of each topic
	Batches    int // in each partition
	BatchBytes int
}

// Bytes is what all batches take in the log.
func (l LogLoad) Bytes() int64 {
	return int64(l.Topics) * int64(l.Partitions) * int64(l.Batches) * int64(l.BatchBytes)
}

func (l LogLoad) topic(i int) string { return fmt.Sprintf("bench-log-%d", i) }

// Fill makes the topics and produces the batches at acks=1, eight under way.
func (l LogLoad) Fill(addr string) error {
	e := &env{target: Target{Addr: addr}}
	for i := range l.Topics {
		if err := e.named(l.topic(i), l.Partitions); err != nil {
			return err
		}
	}
	e.client.Close()
	if l.Batches == 0 {
		return nil
	}
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.close()
	batch, _ := batchOf(l.BatchBytes, 1<<10, rand.New(rand.NewPCG(3, 4)))
	const depth = 8
	var waiting []*kmsg.ProduceRequest
	take := func(most int) error {
		for len(waiting) > most {
			b, err := c.read()
			if err != nil {
				return err
			}
			if err := checkProduce(waiting[0], b); err != nil {
				return err
			}
			waiting = waiting[1:]
		}
		return nil
	}
	for range l.Batches {
		for i := range l.Topics {
			for p := range l.Partitions {
				req := produceRequest(l.topic(i), int32(p), 1, batch)
				if err := c.write(c.encode(req)); err != nil {
					return err
				}
				waiting = append(waiting, req)
				if err := take(depth - 1); err != nil {
					return err
				}
			}
		}
	}
	return take(0)
}

// Await asks for the end of every partition until all answer, for at most ten
// minutes, and adds the ends up.
func (l LogLoad) Await(addr string) (ends int64, err error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = 6
	req.ReplicaID = -1
	for i := range l.Topics {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = l.topic(i)
		for p := range l.Partitions {
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = int32(p), -1, -1
			t.Partitions = append(t.Partitions, rp)
		}
		req.Topics = append(req.Topics, t)
	}
	for limit := time.Now().Add(10 * time.Minute); time.Now().Before(limit); time.Sleep(2 * time.Millisecond) {
		if ends, err = askEnds(addr, req); err == nil {
			return ends, nil
		}
	}
	return 0, fmt.Errorf("the partitions are not served after ten minutes: %w", err)
}

// askEnds adds up the ends of the partitions.
func askEnds(addr string, req *kmsg.ListOffsetsRequest) (ends int64, err error) {
	c, err := dial(addr)
	if err != nil {
		return 0, err
	}
	defer c.close()
	resp, err := c.call(req)
	if err != nil {
		return 0, err
	}
	answered := 0
	for _, t := range resp.(*kmsg.ListOffsetsResponse).Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return 0, fmt.Errorf("%s-%d: %w", t.Topic, p.Partition, err)
			}
			ends += p.Offset
			answered++
		}
	}
	if want := len(req.Topics) * len(req.Topics[0].Partitions); answered != want {
		return 0, fmt.Errorf("%d of %d partitions are answered", answered, want)
	}
	return ends, nil
}

// AwaitTail asks for the last batch of the first partition until it comes.
func (l LogLoad) AwaitTail(addr string, end int64) error {
	offsets := []int64{end - 1}
	var err error
	for limit := time.Now().Add(10 * time.Minute); time.Now().Before(limit); time.Sleep(2 * time.Millisecond) {
		if err = askTail(addr, fetchRequest(l.topic(0), offsets, 1<<20, 0)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the newest batch is not served after ten minutes: %w", err)
}

func askTail(addr string, req *kmsg.FetchRequest) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.close()
	resp, err := c.call(req)
	if err != nil {
		return err
	}
	f := resp.(*kmsg.FetchResponse)
	if len(f.Topics) != 1 || len(f.Topics[0].Partitions) != 1 {
		return fmt.Errorf("no answer about the partition, code %d", f.ErrorCode)
	}
	p := f.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return err
	}
	if len(p.RecordBatches) == 0 {
		return fmt.Errorf("nothing at offset %d", req.Topics[0].Partitions[0].FetchOffset)
	}
	return nil
}
