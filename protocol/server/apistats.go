package server

import (
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/internal/metrics"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

// APIStats is what was asked of one API since the start.
type APIStats struct {
	Key int16
	// BytesIn and BytesOut count whole frames: of requests that were answered,
	// and of the answers.
	BytesIn, BytesOut int64
	// Took is the time from the reading of a request to the end of the writing of
	// its answer, or to the end of its effect if it has none.
	Took metrics.Reading
}

// APIs returns the counts of every API that was asked for; any goroutine.
func (s *Server) APIs() []APIStats {
	var out []APIStats
	for i := range s.apis {
		a := &s.apis[i]
		if took := a.took.Read(); took.Count > 0 {
			out = append(out, APIStats{Key: apiKey(i), BytesIn: a.bytesIn.Load(), BytesOut: a.bytesOut.Load(), Took: took})
		}
	}
	return out
}

// Keys that are counted apart: Kafka's and our private ones, as far as these
// numbers go. The last place has all others.
const (
	kafkaCounted   = 96
	privateCounted = 16
)

// apiCounters are the counters of one API.
type apiCounters struct {
	bytesIn, bytesOut atomic.Int64
	took              metrics.Histogram
}

// allAPIs holds the counters of every API at the index of its key.
type allAPIs [kafkaCounted + privateCounted + 1]apiCounters

func apiIndex(key int16) int {
	switch private := int(key) - int(protocol.FirstPrivateKey); {
	case key >= 0 && key < kafkaCounted:
		return int(key)
	case private >= 0 && private < privateCounted:
		return kafkaCounted + private
	}
	return kafkaCounted + privateCounted
}

// apiKey is the inverse of apiIndex, -1 for the others.
func apiKey(i int) int16 {
	switch {
	case i < kafkaCounted:
		return int16(i)
	case i < kafkaCounted+privateCounted:
		return protocol.FirstPrivateKey + int16(i-kafkaCounted)
	}
	return -1
}

// answered is a run of answers of one API to requests that were read in one
// burst. Counting them together makes the clock be read once per write instead
// of once per answer.
type answered struct {
	key      int16
	n        int
	received model.Instant
	in, out  int // bytes
}

// like reports whether r's answer may be counted in the same run.
func (a *answered) like(r *Request) bool {
	return a.key == r.Header.Key && a.received == r.Received.Mono
}

// note adds the answer to r, of n bytes, to the runs.
func (o *outgoing) note(r *Request, n int) {
	if last := len(o.answered) - 1; last >= 0 && o.answered[last].like(r) {
		a := &o.answered[last]
		a.n, a.in, a.out = a.n+1, a.in+r.size, a.out+n
		return
	}
	o.answered = append(o.answered, answered{key: r.Header.Key, n: 1, received: r.Received.Mono, in: r.size, out: n})
}

// noteQuiet counts the end of a request that has no answer. The lock is held.
func (c *Conn) noteQuiet(r *Request) {
	q := &c.quiet
	if q.n > 0 && !q.like(r) {
		c.srv.observe(q, r.Received.Mono)
		q.n = 0
	}
	if q.n == 0 {
		*q = answered{key: r.Header.Key, received: r.Received.Mono}
	}
	q.n++
	q.in += r.size
}

// observeQuiet counts what noteQuiet has gathered.
func (c *Conn) observeQuiet(q *answered) {
	if q.n > 0 {
		c.srv.observe(q, c.srv.cfg.Clock.Now().Mono)
	}
}

// wrote counts the answers of o, which has been written.
func (s *Server) wrote(o *outgoing) {
	if len(o.answered) == 0 {
		return
	}
	now := s.cfg.Clock.Now().Mono
	for i := range o.answered {
		s.observe(&o.answered[i], now)
	}
}

func (s *Server) observe(a *answered, now model.Instant) {
	c := &s.apis[apiIndex(a.key)]
	c.bytesIn.Add(int64(a.in))
	c.bytesOut.Add(int64(a.out))
	c.took.ObserveMany(time.Duration(now-a.received), a.n)
}
