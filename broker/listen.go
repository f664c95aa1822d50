package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/protocol/server"
)

// listen binds every address, so that a port that is taken is told before
// anything on disk is touched.
func (b *Broker) listen(ctx context.Context) error {
	for i := range b.config.Listeners {
		if err := b.bind(ctx, &b.config.Listeners[i]); err != nil {
			for _, done := range b.listening {
				_ = done.close()
			}
			return err
		}
	}
	b.advertise()
	return nil
}

// bound is a listener with its sockets.
type bound struct {
	name    string
	addr    string // HOST:PORT as configured, with the real port
	port    int32
	sockets []net.Listener
	served  bool // the server has the sockets
}

func (l *bound) close() error {
	var err error
	for _, s := range l.sockets {
		err = errors.Join(err, s.Close())
	}
	return err
}

// bind opens the sockets of one listener. localhost is two addresses; the
// second may fail where the machine has no IPv6.
func (b *Broker) bind(ctx context.Context, l *config.Listener) error {
	out := bound{name: l.Name, port: l.Port}
	at := *l
	for i, addr := range at.Addresses() {
		if i > 0 && l.Port == 0 {
			addr = net.JoinHostPort("::1", fmt.Sprint(out.port))
		}
		s, err := server.Listen(ctx, addr, server.Socket{
			Congestion:    b.config.Own.TCPCongestion,
			SendBuffer:    int(b.config.Server.SendBufferBytes),
			ReceiveBuffer: int(b.config.Server.ReceiveBufferBytes),
		})
		if err != nil && i > 0 {
			b.logger.Info("not listening on the IPv6 loopback", zap.String("listener", l.Name), zap.Error(err))
			continue
		}
		if err != nil {
			return fmt.Errorf("listener %s: %w", l, err)
		}
		out.sockets = append(out.sockets, s)
		out.port = int32(s.Addr().(*net.TCPAddr).Port)
	}
	out.addr = net.JoinHostPort(l.Host, fmt.Sprint(out.port))
	b.listening = append(b.listening, out)
	return nil
}

// Addr returns the address of the first client listener, with the port that it
// really got; on a node that is no broker that of the controller's.
func (b *Broker) Addr() string {
	for _, l := range b.listening {
		if !b.config.IsController(l.name) {
			return l.addr
		}
	}
	for _, l := range b.listening {
		return l.addr
	}
	return ""
}

// advertise works out what clients are told to connect to. A port of 0 stands
// for the one that the listener got, an empty host for the machine's name.
func (b *Broker) advertise() {
	for _, a := range b.config.Advertised {
		b.advertised = append(b.advertised, b.advertisement(a))
	}
}

func (b *Broker) advertisement(a config.Listener) metadata.Listener {
	l := metadata.Listener{Name: a.Name, Host: a.Host, Port: uint16(a.Port)}
	for _, bl := range b.listening {
		if bl.name == a.Name && l.Port == 0 {
			l.Port = uint16(bl.port)
		}
	}
	if l.Host == "" {
		l.Host = hostName()
	}
	return l
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}

// controllerListeners are the addresses under which other nodes reach this
// controller: what the list of voters says, else the listeners themselves.
func (b *Broker) controllerListeners() []metadata.Listener {
	var all []metadata.Listener
	for _, l := range b.config.Listeners {
		if !b.config.IsController(l.Name) {
			continue
		}
		at := l
		for _, v := range b.config.Quorum.Voters {
			if v.ID == b.config.NodeID {
				at.Host, at.Port = v.Host, v.Port
			}
		}
		if at.Wildcard() {
			at.Host = ""
		}
		all = append(all, b.advertisement(at))
	}
	return all
}

// newServer makes the server, which serves nothing yet.
func (b *Broker) newServer() *server.Server {
	s := &b.config.Server
	return server.New(server.Config{
		Clock: b.rt, Logger: b.logger, Group: b.world.Group,
		ProduceFrameMax: int(s.RequestBytesMax), FrameMax: int(b.config.Own.SmallRequestBytesMax),
		RequestsMax: int(b.config.Own.InFlightPerConnection), FrameBytesMax: frameBytes(b.config.Own.MemoryLimitBytes),
		ConnectionsMax: connections(s.ConnectionsMax), ConnectionsPerIPMax: connections(s.ConnectionsPerIPMax),
		ConnectionsPerIP: perIP(s.ConnectionsPerIPOverrides), IdleMax: s.ConnectionIdleMax,
	}, b)
}

// serve lets clients and brokers in, or other controllers and brokers on the
// controller's listeners.
func (b *Broker) serve(controller bool) {
	if !controller {
		b.pages.node.Serving(b.server)
	}
	for i := range b.listening {
		l := &b.listening[i]
		if b.config.IsController(l.name) != controller {
			continue
		}
		l.served = true
		for _, socket := range l.sockets {
			b.server.Serve(socket, b.listenerOf(l.name))
		}
	}
}

// listenerOf says how the connections of a listener are treated. The brokers'
// listener is private only if clients have another one.
func (b *Broker) listenerOf(name string) server.Listener {
	l := server.Listener{Name: name, Controller: b.config.IsController(name)}
	l.Private = l.Controller || name == b.config.InterBrokerListener && len(b.config.Advertised) > 1
	return l
}

// connections turns Kafka's "no limit" into the server's.
func connections(n int32) int {
	const unlimited = 1<<31 - 1
	if n == unlimited {
		return 0
	}
	return int(n)
}

func perIP(m map[string]int32) map[string]int {
	out := make(map[string]int, len(m))
	for ip, n := range m {
		out[ip] = int(n)
	}
	return out
}
