package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchLoad fills partitions with batches and fetches them round and round.
type fetchLoad struct{ partitions, batch, batches, conns, requests int }

func fetchCell(l fetchLoad) func(*env) error {
	return func(e *env) error {
		topic, err := e.topic(l.partitions)
		if err != nil {
			return err
		}
		batch, records := batchOf(l.batch, min(l.batch-batchOverhead-16, 1<<10), rand.New(rand.NewPCG(3, 4)))
		if err := fill(e.target.Addr, topic, l, batch); err != nil {
			return err
		}
		each := e.scaled(l.requests) / l.conns
		runs := make([]*fetchRun, l.conns)
		for i := range runs {
			if runs[i], err = newFetchRun(e.target.Addr, topic, l, records, each, len(batch)); err != nil {
				return err
			}
			defer runs[i].c.close()
		}
		err = e.measure(func() error { return runAll(runs) })
		for _, r := range runs {
			e.lat.d = append(e.lat.d, r.lat.d...)
		}
		n := int64(each * l.conns)
		e.result.Requests = n
		e.result.Records = n * int64(l.partitions*records)
		e.result.Bytes = n * int64(l.partitions*len(batch))
		return err
	}
}

// fill produces the same batches to each partition.
func fill(addr, topic string, l fetchLoad, batch []byte) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.close()
	for p := range l.partitions {
		req := produceRequest(topic, int32(p), 1, batch)
		for range l.batches {
			resp, err := c.call(req)
			if err != nil {
				return fmt.Errorf("fill partition %d: %w", p, err)
			}
			if err := kerr.ErrorForCode(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode); err != nil {
				return fmt.Errorf("fill partition %d: %w", p, err)
			}
		}
	}
	return nil
}

// fetchRun is one connection's share of a fetchLoad.
type fetchRun struct {
	c        *conn
	frame    []byte
	offsetAt int // where partition 0's fetch offset stands in frame; 0: never changed
	batches  int
	records  int
	requests int
	least    int // an answer below this size misses data
	lat      latencies
}

func newFetchRun(addr, topic string, l fetchLoad, records, requests, batchBytes int) (*fetchRun, error) {
	c, err := dial(addr)
	if err != nil {
		return nil, err
	}
	r := &fetchRun{c: c, batches: l.batches, records: records, requests: requests, least: l.partitions * batchBytes}
	offsets := make([]int64, l.partitions)
	req := fetchRequest(topic, offsets, int32(batchBytes), 500)
	resp, err := c.call(req)
	if err != nil {
		return nil, err
	}
	if err := checkFetch(resp.(*kmsg.FetchResponse), l.partitions); err != nil {
		return nil, err
	}
	r.frame = c.encode(req)
	if l.batches > 1 {
		if r.offsetAt, err = offsetPosition(r.frame, topic); err != nil {
			return nil, err
		}
	}
	r.lat.d = make([]time.Duration, 0, requests)
	return r, nil
}

func checkFetch(resp *kmsg.FetchResponse, partitions int) error {
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	got := 0
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("partition %d: %w", p.Partition, err)
			}
			if len(p.RecordBatches) > 0 {
				got++
			}
		}
	}
	if got != partitions {
		return fmt.Errorf("%d of %d partitions came with data", got, partitions)
	}
	return nil
}

// offsetPosition finds the fetch offset of a one-partition Fetch v12 frame:
// behind the topic name, the partition count, the partition and the epoch.
func offsetPosition(frame []byte, topic string) (int, error) {
	at := bytes.Index(frame, []byte(topic))
	if at < 0 {
		return 0, fmt.Errorf("the fetch frame does not name topic %s", topic)
	}
	return at + len(topic) + 1 + 4 + 4, nil
}

func (r *fetchRun) drive() error {
	for i := range r.requests {
		if r.offsetAt > 0 {
			binary.BigEndian.PutUint64(r.frame[r.offsetAt:], uint64(i%r.batches*r.records))
		}
		start := time.Now()
		if err := r.c.write(r.frame); err != nil {
			return err
		}
		n, err := r.c.skip()
		if err != nil {
			return err
		}
		if n < r.least {
			return fmt.Errorf("answer %d has %d bytes, want at least %d", i, n, r.least)
		}
		r.lat.add(time.Since(start))
	}
	return nil
}
