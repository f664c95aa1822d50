package transport

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/tidemark/tidemark/internal/model"
)

// FrameMax is the length of the longest answer that is taken. A fetch answers
// with replica.fetch.response.max.bytes and one batch beyond it at most.
const FrameMax = 100 << 20

// Errors that a Receiver may be told, wrapped with what was met.
var (
	ErrClosed      = errors.New("transport: peer is closed")
	ErrFull        = errors.New("transport: too many requests wait")
	ErrUnsupported = errors.New("transport: no version in common")
	ErrTimeout     = errors.New("transport: no answer in time")
	ErrLost        = errors.New("transport: connection lost")
	ErrMalformed   = errors.New("transport: malformed answer")

	// ErrNotSent is added to others when the request was never written.
	ErrNotSent = errors.New("not sent")

	// ErrOverrun takes a stream down to which more was written than the other
	// side takes.
	ErrOverrun = errors.New("transport: too many bytes wait to be written")
)

// Address is where a node listens.
type Address struct {
	Node model.BrokerID
	Host string
	Port uint16
}

// HostPort returns host:port, with brackets around an IPv6 address.
func (a Address) HostPort() string { return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port))) }

// String names node and address.
func (a Address) String() string { return fmt.Sprintf("node %d at %s", a.Node, a.HostPort()) }

// Class says what a connection is for. Each class has connections of its own,
// so that a request which may wait long never stands before one that may not
// (rules 1.5).
type Class string

// The classes of connections between nodes.
const (
	ClassFetch      Class = "fetch"      // a fetcher's
	ClassRaft       Class = "raft"       // messages of the metadata quorum
	ClassController Class = "controller" // registration, heartbeats, AlterPartition
	ClassForward    Class = "forward"    // commands of clients
	ClassImage      Class = "image"      // the metadata log and its snapshots
	ClassProbe      Class = "probe"      // is it alive?
)

// ClientID is the client.id of a node's connections of a class, by which a proxy
// between nodes tells them apart.
func ClientID(node model.BrokerID, class Class) string {
	return fmt.Sprintf("tidemark-broker-%d-%s", node, class)
}

// Dialer opens streams. It may be used from any goroutine.
type Dialer interface {
	// Open begins to connect and returns at once. Never blocks; tells nothing
	// before it has returned.
	Open(to Address, class Class, events StreamEvents) Stream
}

// Stream is one connection, from the wish for it to its end.
type Stream interface {
	// Write adds a whole frame to what is sent, and takes its bytes over. It
	// never blocks and tells no event before it has returned. A stream with
	// more waiting than it may hold goes down.
	Write(frame []byte)

	// Close ends the stream without an event. One that is being told on another
	// goroutine meanwhile may still arrive.
	Close()
}

// StreamEvents is told what happens to a stream: Up, then any number of Frame,
// then Down; or Down alone. One at a time, in order, from a goroutine that owns
// no loop.
type StreamEvents interface {
	// Up says that the connection is there.
	Up()

	// Frame hands over one answer without its size field, with one reference.
	Frame(b *Buffer)

	// Down says that the connection is gone or was never made. The error tells
	// by errors.Is whether the other side refused it (syscall.ECONNREFUSED),
	// reset it (syscall.ECONNRESET) or closed it (io.EOF).
	Down(err error)
}
