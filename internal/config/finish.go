package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
)

// finish reads what needs more than one key and checks keys against each other.
func (b *Broker) finish(warn *Warnings) error {
	steps := []func(*Warnings) error{
		b.finishIdentity, b.finishDirs, b.finishListeners, b.finishProtocols, b.finishAdvertised, b.finishInterBroker,
		b.finishQuorum, b.finishGroups, b.finishLimits, b.finishTopics,
	}
	for _, step := range steps {
		if err := step(warn); err != nil {
			return err
		}
	}
	return nil
}

func (b *Broker) finishIdentity(*Warnings) error {
	brokerID, isSet := b.text("broker.id")
	if n, err := parseInt(brokerID); isSet && err == nil && n >= 0 {
		if _, both := b.set["node.id"]; !both {
			b.NodeID = model.BrokerID(n)
		} else if b.NodeID != model.BrokerID(n) {
			return b.bad("broker.id", fmt.Sprintf("node.id (%d), or only one of the two set", b.NodeID))
		}
	}
	roles, _ := b.text("process.roles")
	b.Roles = Roles{
		Broker:     slices.Contains(splitList(roles), "broker"),
		Controller: slices.Contains(splitList(roles), "controller"),
	}
	return nil
}

func (b *Broker) finishDirs(*Warnings) error {
	dirs, explicit := b.text("log.dirs")
	if !explicit {
		dirs, explicit = b.text("log.dir")
	}
	b.LogDirs = []string{b.DataDir + "/log"}
	if explicit {
		b.LogDirs = splitList(dirs)
	}
	for i, d := range b.LogDirs {
		if d == "" || slices.Contains(b.LogDirs[:i], d) {
			return b.bad("log.dirs", "a list of distinct directories")
		}
	}
	if len(b.LogDirs) == 0 {
		return b.bad("log.dirs", "at least one directory")
	}
	if b.MetadataDir == "" {
		b.MetadataDir = b.LogDirs[0]
	}
	if b.KeptDir == "" {
		b.KeptDir = b.DataDir + "/kept"
		if explicit {
			b.KeptDir = b.LogDirs[0] + "/.kept"
		}
	}
	return nil
}

func (b *Broker) finishListeners(*Warnings) error {
	text, _ := b.text("listeners")
	all, ok := parseListeners(text)
	if !ok || len(all) == 0 {
		return b.bad("listeners", listenerWant)
	}
	for i := range b.ControllerListeners {
		b.ControllerListeners[i] = strings.ToUpper(b.ControllerListeners[i])
	}
	for i, l := range all {
		for _, m := range all[:i] {
			if l.Port != 0 && l.Port == m.Port && (l.Host == m.Host || l.Wildcard() || m.Wildcard()) {
				return b.bad("listeners", fmt.Sprintf("a port of its own for each listener; %s and %s share %d", m.Name, l.Name, l.Port))
			}
		}
	}
	b.Listeners = all
	named := func(name string) bool {
		return slices.ContainsFunc(all, func(l Listener) bool { return l.Name == name })
	}
	if b.Roles.Controller {
		for _, name := range b.ControllerListeners {
			if !named(name) {
				return b.bad("controller.listener.names", "names of listeners; "+name+" is not one")
			}
		}
	}
	if b.Roles.Broker && !slices.ContainsFunc(all, func(l Listener) bool { return !b.IsController(l.Name) }) {
		return b.bad("listeners", "at least one listener that is not the controller's")
	}
	return nil
}

// IsController reports whether the listener of that name is the controller's.
func (b *Broker) IsController(name string) bool {
	if b.Roles.Controller && !b.Roles.Broker && len(b.ControllerListeners) == 0 {
		return true
	}
	return slices.Contains(b.ControllerListeners, name)
}

func (b *Broker) finishProtocols(*Warnings) error {
	text, explicit := b.text("listener.security.protocol.map")
	protocols, ok := parseProtocolMap(text)
	if !ok {
		return b.bad("listener.security.protocol.map", "NAME:PROTOCOL pairs, comma separated, each protocol one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL")
	}
	for i := range b.Listeners {
		l := &b.Listeners[i]
		l.Protocol = protocols[l.Name]
		if l.Protocol == "" && b.IsController(l.Name) && !explicit {
			l.Protocol = Plaintext
		}
		if l.Protocol == "" {
			return b.bad("listener.security.protocol.map", "a protocol for listener "+l.Name)
		}
		if l.Protocol != Plaintext {
			return b.bad("listeners", fmt.Sprintf("listeners of protocol PLAINTEXT, the only one that this version serves; %s is %s", l.Name, l.Protocol))
		}
	}
	return nil
}

func (b *Broker) finishAdvertised(warn *Warnings) error {
	text, explicit := b.text("advertised.listeners")
	if !explicit {
		for _, l := range b.Listeners {
			if b.IsController(l.Name) {
				continue
			}
			if l.Wildcard() {
				l.Host = ""
				warn.Notes = append(warn.Notes, fmt.Sprintf("Listener %s is on every interface and advertised.listeners is not set: clients are told this machine's host name. Set advertised.listeners to the name and port by which clients reach it.", l.Name))
			}
			b.Advertised = append(b.Advertised, l)
		}
		return nil
	}
	all, ok := parseListeners(text)
	if !ok || (b.Roles.Broker && len(all) == 0) {
		return b.bad("advertised.listeners", listenerWant)
	}
	for i := range all {
		a := &all[i]
		at := slices.IndexFunc(b.Listeners, func(l Listener) bool { return l.Name == a.Name })
		switch {
		case b.IsController(a.Name):
			continue
		case at < 0:
			return b.bad("advertised.listeners", "names of listeners; "+a.Name+" is not one")
		case a.Host != "" && a.Wildcard():
			return b.bad("advertised.listeners", "addresses that clients can reach; "+a.Host+" is every interface")
		}
		a.Protocol = b.Listeners[at].Protocol
	}
	b.Advertised = slices.DeleteFunc(all, func(l Listener) bool { return b.IsController(l.Name) })
	return nil
}

func (b *Broker) finishInterBroker(*Warnings) error {
	name, explicit := b.text("inter.broker.listener.name")
	protocol, both := b.text("security.inter.broker.protocol")
	if !b.Roles.Broker {
		return nil
	}
	if explicit && both {
		return b.bad("security.inter.broker.protocol", "not to be set together with inter.broker.listener.name")
	}
	for _, l := range b.Advertised {
		if (explicit && l.Name == strings.ToUpper(name)) || (!explicit && l.Protocol == protocol) {
			b.InterBrokerListener = l.Name
			return nil
		}
	}
	if explicit {
		return b.bad("inter.broker.listener.name", "the name of an advertised listener")
	}
	return b.bad("security.inter.broker.protocol", "the protocol of an advertised listener")
}

func (b *Broker) finishQuorum(*Warnings) error {
	text, _ := b.text("controller.quorum.voters")
	voters, ok := parseVoters(text)
	if !ok {
		return b.bad("controller.quorum.voters", "id@host:port items, comma separated, each id once")
	}
	b.Quorum.Voters = voters
	for _, s := range b.Quorum.BootstrapServers {
		if host, port, ok := splitHostPort(s); !ok || host == "" || port == 0 {
			return b.bad("controller.quorum.bootstrap.servers", "host:port items, comma separated")
		}
	}
	isVoter := slices.ContainsFunc(voters, func(v Voter) bool { return v.ID == b.NodeID })
	switch {
	case b.Roles.Controller && len(voters) > 0 && !isVoter:
		return b.bad("controller.quorum.voters", fmt.Sprintf("a list that holds this node (%d), or process.roles without controller", b.NodeID))
	case !b.Roles.Controller && isVoter:
		return b.bad("controller.quorum.voters", fmt.Sprintf("a list without this node (%d), or process.roles with controller", b.NodeID))
	case !b.Roles.Controller && len(voters) == 0 && len(b.Quorum.BootstrapServers) == 0:
		return b.bad("controller.quorum.bootstrap.servers", "the controllers' addresses, here or in controller.quorum.voters, for a node that is none")
	case b.Roles.Controller && len(voters) > 1 && len(b.ControllerListeners) == 0:
		return b.bad("controller.listener.names", "the name of a listener that the other voters connect to")
	}
	return nil
}

// finishGroups lets a node that is a cluster of its own keep its groups: with
// one broker there can't be three replicas, and nobody has asked for them.
func (b *Broker) finishGroups(*Warnings) error {
	if _, explicit := b.text("offsets.topic.replication.factor"); !explicit && b.Roles.Broker && b.Roles.Controller &&
		len(b.Quorum.Voters) <= 1 && len(b.Quorum.BootstrapServers) == 0 {
		b.Groups.TopicReplicationFactor, b.Groups.Alone = 1, true
	}
	g := &b.Groups
	switch {
	case g.ConsumerSession < g.ConsumerSessionMin || g.ConsumerSession > g.ConsumerSessionMax:
		return b.bad("group.consumer.session.timeout.ms", fmt.Sprintf("between group.consumer.min.session.timeout.ms (%d) and group.consumer.max.session.timeout.ms (%d)",
			g.ConsumerSessionMin.Milliseconds(), g.ConsumerSessionMax.Milliseconds()))
	case g.ConsumerHeartbeat < g.ConsumerHeartbeatMin || g.ConsumerHeartbeat > g.ConsumerHeartbeatMax:
		return b.bad("group.consumer.heartbeat.interval.ms", fmt.Sprintf("between group.consumer.min.heartbeat.interval.ms (%d) and group.consumer.max.heartbeat.interval.ms (%d)",
			g.ConsumerHeartbeatMin.Milliseconds(), g.ConsumerHeartbeatMax.Milliseconds()))
	case g.ConsumerHeartbeat >= g.ConsumerSession:
		return b.bad("group.consumer.heartbeat.interval.ms", fmt.Sprintf("less than group.consumer.session.timeout.ms (%d)", g.ConsumerSession.Milliseconds()))
	}
	return nil
}

func (b *Broker) finishLimits(warn *Warnings) error {
	overrides, _ := b.text("max.connections.per.ip.overrides")
	b.Server.ConnectionsPerIPOverrides, _ = parseIPOverrides(overrides)
	if selector := b.Replication.SelectorClass; selector != "" && !b.Replication.RackAware() && !strings.HasSuffix(selector, ".LeaderSelector") {
		warn.Notes = append(warn.Notes, fmt.Sprintf("replica.selector.class is %s, which is not known here: consumers read from leaders.", selector))
	}
	r, q := b.Replication, b.Quorum
	switch {
	case r.FetchWaitMax > r.LagMax:
		return b.bad("replica.fetch.wait.max.ms", fmt.Sprintf("at most replica.lag.time.max.ms (%d)", r.LagMax.Milliseconds()))
	case r.SocketTimeout < r.FetchWaitMax:
		return b.bad("replica.socket.timeout.ms", fmt.Sprintf("at least replica.fetch.wait.max.ms (%d)", r.FetchWaitMax.Milliseconds()))
	case q.BrokerSessionTimeout < 2*q.BrokerHeartbeatInterval:
		return b.bad("broker.session.timeout.ms", fmt.Sprintf("at least twice broker.heartbeat.interval.ms (%d)", q.BrokerHeartbeatInterval.Milliseconds()))
	case q.ElectionTimeout < 3*q.HeartbeatInterval:
		return b.bad("controller.quorum.election.timeout.ms", fmt.Sprintf("at least three times tidemark.quorum.heartbeat.interval.ms (%d)", q.HeartbeatInterval.Milliseconds()))
	}
	return nil
}

func (b *Broker) finishTopics(*Warnings) error {
	_, err := b.Topic(nil, nil)
	return err
}
