package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol/transport"
)

// leaders opens the connections of fetchers. It is the host.Leaders of a node
// that has others around it.
type leaders struct{ b *Broker }

// Open implements host.Leaders.
func (l leaders) Open(leader model.BrokerID, _ int) host.LeaderLink {
	return &leaderLink{l.b.peers.fetching(leader)}
}

// leaderLink is one fetcher's connection.
type leaderLink struct{ peer *transport.Peer }

// Send implements host.LeaderLink.
func (l *leaderLink) Send(req kmsg.Request, done host.LinkReceiver) {
	l.peer.Send(transport.Request{Msg: req, Done: linkReceiver{done}})
}

// Close implements host.LeaderLink.
func (l *leaderLink) Close() { l.peer.Close() }

// linkReceiver hands an answer on with the memory that holds its records.
type linkReceiver struct{ done host.LinkReceiver }

// Received implements transport.Receiver.
func (r linkReceiver) Received(a transport.Answer) {
	r.done.LinkAnswered(host.LinkAnswer{Msg: a.Msg, Err: a.Err, Hold: a})
}
