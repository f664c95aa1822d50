package server

import (
	"time"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/model"
)

// Clock reads the time; loop.Runtime is one.
type Clock interface {
	Now() model.Now
}

// Config is what a Server needs and its limits. A zero limit means the default
// named beside it.
type Config struct {
	Clock  Clock            // read once per burst of requests
	Logger *zap.Logger      // nil: silent
	Group  *lifecycle.Group // where the goroutines are accounted; nil: one of its own

	// Bytes of one frame, its size field excluded; longer ones close the
	// connection. Kafka's socket.request.max.bytes is ProduceFrameMax.
	ProduceFrameMax int // 100 MiB
	FrameMax        int // 8 MiB, for every other API
	PreAuthFrameMax int // 64 KiB, on a listener that demands authentication, before it

	// RequestsMax is how many requests of one connection may be unanswered
	// before it is no longer read: 64.
	RequestsMax int

	// FrameBytesMax bounds the memory that frames of all connections take
	// together: 256 MiB. At the bound a connection whose next frame is long is
	// not read until others are done; private listeners may exceed it by half.
	FrameBytesMax int64

	ConnectionsMax      int            // of the node, private listeners not counted; default no limit (max.connections)
	ConnectionsPerIPMax int            // default no limit (max.connections.per.ip)
	ConnectionsPerIP    map[string]int // limits for single addresses (max.connections.per.ip.overrides)

	IdleMax    time.Duration // without a request: 10 min (connections.max.idle.ms)
	WriteMax   time.Duration // without the peer reading a byte of what we send: 30 s
	FrameMin   time.Duration // a begun frame must grow by FrameMinBytes, or end, in this time: 60 s; in a thirtieth of it if others wait for its memory
	PreAuthMax time.Duration // for authentication as a whole: 10 s

	// SendfileMin is the length from which record bytes go from the file to
	// the socket by sendfile: 256 KiB. Shorter ones are read into the buffer
	// that the headers are in. Negative: never.
	SendfileMin int
}

// FrameMinBytes is by how much a begun frame must grow in Config.FrameMin.
const FrameMinBytes = 64 << 10

func (c Config) withDefaults() Config {
	setInt(&c.ProduceFrameMax, 100<<20)
	setInt(&c.FrameMax, 8<<20)
	setInt(&c.PreAuthFrameMax, 64<<10)
	setInt(&c.RequestsMax, 64)
	setInt(&c.SendfileMin, 256<<10)
	if c.FrameBytesMax == 0 {
		c.FrameBytesMax = 256 << 20
	}
	setDuration(&c.IdleMax, 10*time.Minute)
	setDuration(&c.WriteMax, 30*time.Second)
	setDuration(&c.FrameMin, time.Minute)
	setDuration(&c.PreAuthMax, 10*time.Second)
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Group == nil {
		c.Group = new(lifecycle.Group)
	}
	return c
}

func setInt(v *int, def int) {
	if *v == 0 {
		*v = def
	}
}

func setDuration(v *time.Duration, def time.Duration) {
	if *v == 0 {
		*v = def
	}
}

// Listener says how the connections of one listener are treated.
type Listener struct {
	Name string // as in the configuration, e.g. "PLAINTEXT"

	// Private listeners carry brokers and controllers: their connections are
	// not counted against the limits and they have a reserve of frame memory.
	Private bool

	// Controller listeners serve the controller's APIs and the private ones
	// (protocol.FirstPrivateKey) instead of the clients'.
	Controller bool

	// Authenticate means that a connection may send frames of PreAuthFrameMax
	// at most, and lives for PreAuthMax at most, until Conn.Authenticated.
	Authenticate bool
}
