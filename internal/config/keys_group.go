package config

// groupResourceKeys is every setting that Kafka 4.3 has for one group, by meaning.
// Those of share and streams groups are kept and have no meaning here.
var groupResourceKeys = []Key{
	{Name: keyGroupSession, Type: Int, Default: "45000", Want: atLeast(1), Scope: ScopeGroup,
		Synonyms: same("group.consumer.session.timeout.ms"), group: func(g *Group) any { return &g.Session },
		Doc: "How long a member of this group may not be heard of before it is out, if the coordinator assigns (KIP-848); from group.consumer.min.session.timeout.ms to group.consumer.max.session.timeout.ms, and more than " + keyGroupHeartbeat + "."},
	{Name: keyGroupHeartbeat, Type: Int, Default: "5000", Want: atLeast(1), Scope: ScopeGroup,
		Synonyms: same("group.consumer.heartbeat.interval.ms"), group: func(g *Group) any { return &g.Heartbeat },
		Doc: "How often members of this group are told to send heartbeats, if the coordinator assigns; from group.consumer.min.heartbeat.interval.ms to group.consumer.max.heartbeat.interval.ms."},
	{Name: "consumer.assignment.interval.ms", Type: Int, Default: "1000", Want: atLeast(0), Scope: ScopeGroup, Synonyms: same("group.consumer.assignment.interval.ms"), Ignored: atOnce},
	{Name: "share.assignment.interval.ms", Type: Int, Default: "1000", Want: atLeast(0), Scope: ScopeGroup, Synonyms: same("group.share.assignment.interval.ms"), Ignored: noShares},
	{Name: "share.auto.offset.reset", Type: String, Default: "latest", Scope: ScopeGroup, Ignored: noShares},
	{Name: "share.delivery.count.limit", Type: Int, Default: "5", Want: atLeast(2), Scope: ScopeGroup, Synonyms: same("group.share.delivery.count.limit"), Ignored: noShares},
	{Name: "share.heartbeat.interval.ms", Type: Int, Default: "5000", Want: atLeast(1), Scope: ScopeGroup, Synonyms: same("group.share.heartbeat.interval.ms"), Ignored: noShares},
	{Name: "share.isolation.level", Type: String, Default: "read_uncommitted", Want: oneOf("read_committed", "read_uncommitted"), Scope: ScopeGroup, Ignored: noShares},
	{Name: "share.partition.max.record.locks", Type: Int, Default: "2000", Want: atLeast(100), Scope: ScopeGroup, Synonyms: same("group.share.partition.max.record.locks"), Ignored: noShares},
	{Name: "share.record.lock.duration.ms", Type: Int, Default: "30000", Want: atLeast(1000), Scope: ScopeGroup, Synonyms: same("group.share.record.lock.duration.ms"), Ignored: noShares},
	{Name: "share.renew.acknowledge.enable", Type: Bool, Default: "true", Scope: ScopeGroup, Ignored: noShares},
	{Name: "share.session.timeout.ms", Type: Int, Default: "45000", Want: atLeast(1), Scope: ScopeGroup, Synonyms: same("group.share.session.timeout.ms"), Ignored: noShares},
	{Name: "streams.assignment.interval.ms", Type: Int, Default: "1000", Want: atLeast(0), Scope: ScopeGroup, Synonyms: same("group.streams.assignment.interval.ms"), Ignored: noStreams},
	{Name: "streams.heartbeat.interval.ms", Type: Int, Default: "5000", Want: atLeast(1), Scope: ScopeGroup, Synonyms: same("group.streams.heartbeat.interval.ms"), Ignored: noStreams},
	{Name: "streams.initial.rebalance.delay.ms", Type: Int, Default: "3000", Want: atLeast(0), Scope: ScopeGroup, Synonyms: same("group.streams.initial.rebalance.delay.ms"), Ignored: noStreams},
	{Name: "streams.num.standby.replicas", Type: Int, Default: "0", Want: atLeast(0), Scope: ScopeGroup, Synonyms: same("group.streams.num.standby.replicas"), Ignored: noStreams},
	{Name: "streams.session.timeout.ms", Type: Int, Default: "45000", Want: atLeast(1), Scope: ScopeGroup, Synonyms: same("group.streams.session.timeout.ms"), Ignored: noStreams},
}

// The settings of a group that have a meaning here.
const (
	keyGroupSession   = "consumer.session.timeout.ms"
	keyGroupHeartbeat = "consumer.heartbeat.interval.ms"
)
