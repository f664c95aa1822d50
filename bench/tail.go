package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sessionCell measures an incremental fetch over many partitions of which one
// has something new: a produce and the fetch that brings it.
func sessionCell(partitions, requests int) func(*env) error {
	return func(e *env) error {
		topic, err := e.topic(partitions)
		if err != nil {
			return err
		}
		producer, err := dial(e.target.Addr)
		if err != nil {
			return err
		}
		defer producer.close()
		consumer, err := dial(e.target.Addr)
		if err != nil {
			return err
		}
		defer consumer.close()
		open := fetchRequest(topic, make([]int64, partitions), 1<<20, 0)
		open.SessionEpoch = 0
		resp, err := consumer.call(open)
		if err != nil {
			return err
		}
		session := resp.(*kmsg.FetchResponse).SessionID
		if session == 0 {
			return errors.New("the broker gave no fetch session")
		}
		batch, _ := batchOf(172, 100, rand.New(rand.NewPCG(5, 6)))
		produce := producer.encode(produceRequest(topic, 0, 1, batch))
		n := e.scaled(requests)
		e.result.Requests, e.result.Records, e.result.Bytes = int64(n), int64(n), int64(n*len(batch))
		return e.measure(func() error {
			for i := range n {
				if err := producer.write(produce); err != nil {
					return err
				}
				if _, err := producer.skip(); err != nil {
					return err
				}
				if err := e.incremental(consumer, topic, session, int32(i+1), int64(i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// incremental sends one fetch of the session, which moves partition 0 to
// offset, and checks that its record came.
func (e *env) incremental(c *conn, topic string, session, epoch int32, offset int64) error {
	req := fetchRequest(topic, []int64{offset}, 1<<20, 500)
	req.SessionID, req.SessionEpoch = session, epoch
	start := time.Now()
	resp, err := c.call(req)
	if err != nil {
		return err
	}
	e.lat.add(time.Since(start))
	return checkFetch(resp.(*kmsg.FetchResponse), 1)
}

// tailCell measures the time from sending a record to its arrival in the
// answer of a fetch that was waiting for it.
func tailCell(requests int) func(*env) error {
	return func(e *env) error {
		topic, err := e.topic(1)
		if err != nil {
			return err
		}
		producer, err := dial(e.target.Addr)
		if err != nil {
			return err
		}
		defer producer.close()
		consumer, err := dial(e.target.Addr)
		if err != nil {
			return err
		}
		defer consumer.close()
		batch, _ := batchOf(172, 100, rand.New(rand.NewPCG(7, 8)))
		produce := producer.encode(produceRequest(topic, 0, 1, batch))
		n := e.scaled(requests)
		e.result.Requests, e.result.Records, e.result.Bytes = int64(n), int64(n), int64(n*len(batch))
		return e.measure(func() error {
			for i := range n {
				if err := e.tail(producer, consumer, produce, topic, int64(i)); err != nil {
					return fmt.Errorf("record %d: %w", i, err)
				}
			}
			return nil
		})
	}
}

func (e *env) tail(producer, consumer *conn, produce []byte, topic string, offset int64) error {
	fetch := fetchRequest(topic, []int64{offset}, 1<<20, 20_000)
	if err := consumer.write(consumer.encode(fetch)); err != nil {
		return err
	}
	start := time.Now()
	if err := producer.write(produce); err != nil {
		return err
	}
	b, err := consumer.read()
	if err != nil {
		return err
	}
	e.lat.add(time.Since(start))
	resp, err := decode(fetch, b)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.(*kmsg.FetchResponse).ErrorCode); err != nil {
		return err
	}
	if _, err := producer.skip(); err != nil {
		return err
	}
	return checkFetch(resp.(*kmsg.FetchResponse), 1)
}
