package transport

import "sync/atomic"

// Counts are what went over the connections of one or more peers. Any goroutine may
// read them.
type Counts struct {
	// Connects are attempts to connect, Lost those that failed and connections that
	// broke.
	Connects, Lost atomic.Int64
	// Requests were written and Answers came; what is in neither was lost, or is
	// under way.
	Requests, Answers atomic.Int64
	// BytesOut and BytesIn are those of whole frames.
	BytesOut, BytesIn atomic.Int64
}
