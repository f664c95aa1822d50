package bench

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// produceLoad is a fixed number of equal produce requests at acks=1 to one
// partition, at most depth of them unanswered per connection.
type produceLoad struct {
	batch, record, depth, conns, requests int

	settings []string // of the topic: names and values
}

func produceCell(l produceLoad) func(*env) error {
	return func(e *env) error {
		topic := "echo"
		if !e.target.Echo {
			var err error
			if topic, err = e.topic(1, l.settings...); err != nil {
				return err
			}
		}
		batch, records := batchOf(l.batch, l.record, rand.New(rand.NewPCG(1, 2)))
		each := e.scaled(l.requests) / l.conns
		runs := make([]*produceRun, l.conns)
		for i := range runs {
			r, err := newProduceRun(e.target, topic, batch, each, l.depth)
			if err != nil {
				return err
			}
			defer r.c.close()
			runs[i] = r
		}
		err := e.measure(func() error { return runAll(runs) })
		for _, r := range runs {
			e.lat.d = append(e.lat.d, r.lat.d...)
		}
		n := int64(each * l.conns)
		e.result.Requests, e.result.Records, e.result.Bytes = n, n*int64(records), n*int64(len(batch))
		return err
	}
}

// runAll drives each run on a goroutine of its own.
func runAll[R interface{ drive() error }](runs []R) error {
	if len(runs) == 1 {
		return runs[0].drive()
	}
	errs := make([]error, len(runs))
	var wg sync.WaitGroup
	for i, r := range runs {
		wg.Go(func() { errs[i] = r.drive() })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// produceRun is one connection's share of a produceLoad.
type produceRun struct {
	c        *conn
	frame    []byte
	frames   [][]byte // frame depth times, to send several as one write
	requests int
	depth    int
	want     int // size of a good answer, learned from the first
	lat      latencies
}

func newProduceRun(t Target, topic string, batch []byte, requests, depth int) (*produceRun, error) {
	c, err := dial(t.Addr)
	if err != nil {
		return nil, err
	}
	req := produceRequest(topic, 0, 1, batch)
	r := &produceRun{c: c, frame: c.encode(req), requests: requests, depth: depth}
	for range depth {
		r.frames = append(r.frames, r.frame)
	}
	r.lat.d = make([]time.Duration, 0, requests)
	// One request ahead of the clock: it warms the path and its answer is
	// decoded, so that the others need only have the same size.
	if err := c.write(r.frame); err != nil {
		return nil, err
	}
	b, err := c.read()
	if err != nil {
		return nil, err
	}
	r.want = len(b)
	if t.Echo {
		return r, nil
	}
	return r, checkProduce(req, b)
}

func checkProduce(req *kmsg.ProduceRequest, b []byte) error {
	resp, err := decode(req, b)
	if err != nil {
		return fmt.Errorf("decode produce answer: %w", err)
	}
	return kerr.ErrorForCode(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
}

func (r *produceRun) drive() error {
	sent, done := 0, 0
	starts := make([]time.Time, r.depth) // ring: request i started at starts[i%depth]
	for done < r.requests {
		if n := min(r.depth-(sent-done), r.requests-sent); n > 0 {
			now := time.Now()
			for i := range n {
				starts[(sent+i)%r.depth] = now
			}
			if err := r.c.write(r.frames[:n]...); err != nil {
				return err
			}
			sent += n
		}
		for first := true; done < sent && (first || r.c.ready()); first = false {
			n, err := r.c.skip()
			if err != nil {
				return err
			}
			if n != r.want {
				return fmt.Errorf("answer %d has %d bytes, the first good one had %d", done, n, r.want)
			}
			r.lat.add(time.Since(starts[done%r.depth]))
			done++
		}
	}
	return nil
}
