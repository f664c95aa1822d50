package broker

import (
	"context"

	"github.com/tidemark/tidemark/broker/admin"
	"github.com/tidemark/tidemark/broker/inspect"
)

// pages is what operators see of a node.
type pages struct {
	node *inspect.Node
	http *admin.Server // nil while nothing listens
}

// openPages serves metrics and health if the settings want it: before the disk is
// touched, so that a start that takes long can be watched.
func (b *Broker) openPages(ctx context.Context) error {
	if b.config.Own.HTTPListen == "" {
		return nil
	}
	var err error
	b.pages.http, err = admin.Start(ctx, admin.Config{
		Listen: b.config.Own.HTTPListen, Table: inspect.Table(), Node: b.pages.node, Logger: b.logger, Group: b.world.Group,
	})
	return err
}

// closePages ends what openPages began, if it did.
func (b *Broker) closePages(ctx context.Context) error {
	if b.pages.http == nil {
		return nil
	}
	return b.pages.http.Stop(ctx)
}

// PagesAddr returns host:port of the metrics and health pages, "" if they are
// off.
func (b *Broker) PagesAddr() string {
	if b.pages.http == nil {
		return ""
	}
	return b.pages.http.Addr()
}

// show tells the pages of the parts that build has made.
func (b *Broker) show() {
	b.quorum.Subscribe(b.pages.node.Image)
	p := inspect.Parts{
		Self: b.config.NodeID, RT: b.rt, Group: b.world.Group, Quorum: b.quorum,
		Dirs: b.dirs, Replicas: b.replicas, Sessions: b.sessions, Epoch: b.epoch,
		Depths: b.depths, Peers: b.peers.traffic, Fetches: b.parked.len, Stall: b.config.Own.IOStallTimeout,
		Session: b.config.Quorum.BrokerSessionTimeout,
	}
	if b.voter != nil {
		p.Voter = b.voter
	}
	if b.groups != nil {
		p.Groups = b.groups.counts.read
		p.Telemetry = b.telemetry.counts
	}
	if m := b.membership; m != nil {
		p.Heartbeats = func() (sent, failed int64) { return m.counted.sent.Load(), m.counted.failed.Load() }
	}
	b.pages.node.Built(p)
}

// depths returns how many messages wait for each of the node's own loops.
func (b *Broker) depths() []inspect.Depth {
	all := []inspect.Depth{{Loop: "images", Waiting: b.publisher.waiting()}}
	if q, ok := b.quorum.(interface{ Backlog() int }); ok {
		all = append(all, inspect.Depth{Loop: "quorum", Waiting: q.Backlog()})
	}
	if b.membership != nil {
		all = append(all, inspect.Depth{Loop: "membership", Waiting: b.membership.box.Len()},
			inspect.Depth{Loop: "isr", Waiting: b.alters.box.Len()})
	}
	return all
}

// waiting returns how many images are not in force here yet.
func (p *publisher) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue)
}
