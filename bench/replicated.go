package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/lifecycle"
)

// Replicated is a load of equal produce requests at acks=all to partition 0 of
// a topic that exists.
type Replicated struct {
	Addr     string // the leader's
	Topic    string
	Batch    int // bytes of a record batch
	Requests int
	Depth    int           // unanswered at most
	Every    time.Duration // between the starts of two requests; 0: as fast as they are answered
}

// Run produces and returns the latencies. With Every, a request's time counts from
// when it was due, whether or not it could be sent then.
func (l Replicated) Run() (Result, error) {
	batch, records := batchOf(l.Batch, min(l.Batch-batchOverhead-16, 1<<10), rand.New(rand.NewPCG(7, 8)))
	c, err := dial(l.Addr)
	if err != nil {
		return Result{}, err
	}
	defer c.close()
	req := produceRequest(l.Topic, 0, -1, batch)
	if err := c.accepted(req); err != nil {
		return Result{}, err
	}
	n := int64(l.Requests)
	r := Result{Cell: "replicated", Requests: n, Records: n * int64(records), Bytes: n * int64(len(batch))}
	var lat latencies
	began := time.Now()
	if l.Every > 0 {
		err = l.paced(c, c.encode(req), began, &lat)
	} else {
		run := &produceRun{c: c, frame: c.encode(req), requests: l.Requests, depth: l.Depth}
		for range l.Depth {
			run.frames = append(run.frames, run.frame)
		}
		if err = run.learn(req); err == nil {
			err = run.drive()
		}
		lat = run.lat
	}
	r.Elapsed = time.Since(began)
	lat.fill(&r)
	return r, err
}

// accepted sends req until the broker takes it: a leader may learn that it is
// one a little later than the client did.
func (c *conn) accepted(req *kmsg.ProduceRequest) error {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		resp, err := c.call(req)
		if err != nil {
			return err
		}
		err = kerr.ErrorForCode(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// learn sends one request so that the others need only have an answer of the
// same size.
func (r *produceRun) learn(req *kmsg.ProduceRequest) error {
	if err := r.c.write(r.frame); err != nil {
		return err
	}
	b, err := r.c.read()
	if err != nil {
		return err
	}
	r.want = len(b)
	return checkProduce(req, b)
}

// paced sends each request when it is due; answers are taken by another
// goroutine, so that a slow one delays no later request.
func (l Replicated) paced(c *conn, frame []byte, began time.Time, lat *latencies) error {
	failed := make(chan error, 1)
	lat.d = make([]time.Duration, l.Requests)
	var answers lifecycle.Group
	answers.Go("answers", func() {
		for i := range l.Requests {
			if _, err := c.skip(); err != nil {
				failed <- err
				return
			}
			lat.d[i] = time.Since(began) - time.Duration(i)*l.Every
		}
		failed <- nil
	})
	for i := range l.Requests {
		if wait := time.Duration(i)*l.Every - time.Since(began); wait > 0 {
			time.Sleep(wait)
		}
		if err := c.write(frame); err != nil {
			return errors.Join(err, <-failed)
		}
	}
	return <-failed
}

// FirstAcknowledged sends a small record at acks=all to partition 0 of topic, to
// each of the brokers in turn again and again, until one acknowledges it. It
// returns when that was.
func FirstAcknowledged(addrs []string, topic string, patience time.Duration) (time.Time, error) {
	batch, _ := batchOf(172, 100, rand.New(rand.NewPCG(9, 10)))
	req := produceRequest(topic, 0, -1, batch)
	conns := make(map[string]*conn)
	defer func() {
		for _, c := range conns { // order-free: all are closed
			c.close()
		}
	}()
	var last error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		for _, addr := range addrs {
			c := conns[addr]
			if c == nil {
				if c, last = dial(addr); last != nil {
					continue
				}
				conns[addr] = c
			}
			resp, err := c.call(req)
			if err != nil {
				last = err
				c.close()
				delete(conns, addr)
				continue
			}
			if last = kerr.ErrorForCode(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode); last == nil {
				return time.Now(), nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("nothing was acknowledged within %v: %w", patience, last)
}
