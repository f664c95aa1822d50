package host

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
)

// Leaders opens connections for fetching from the brokers that lead.
type Leaders interface {
	// Open returns a link to a leader for one of this broker's fetchers towards
	// it. It returns at once; a leader that can't be reached fails the requests.
	Open(leader model.BrokerID, fetcher int) LeaderLink
}

// LeaderLink carries the requests of one fetcher.
type LeaderLink interface {
	// Send sends a Fetch, ListOffsets or OffsetForLeaderEpoch; at most one is
	// outstanding. It doesn't block, and done is told exactly once, later, outside
	// every loop.
	Send(req kmsg.Request, done LinkReceiver)
	// Close gives the connection up. What is outstanding is answered with an
	// error.
	Close()
}

// LinkReceiver is told the answer to a request over a LeaderLink.
type LinkReceiver interface{ LinkAnswered(a LinkAnswer) }

// LinkAnswer is a response, or an error if there is none.
type LinkAnswer struct {
	Msg kmsg.Response
	Err error
	// Hold holds the bytes that Msg aliases; nil if it aliases none. The receiver
	// releases it.
	Hold Frame
}
