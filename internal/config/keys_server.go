package config

// serverKeys are the settings of connections, requests and topics.
var serverKeys = []Key{
	{Name: "socket.send.buffer.bytes", Type: Int, Default: "102400", Want: atLeast(-1), broker: func(b *Broker) any { return &b.Server.SendBufferBytes },
		Doc: "Kernel send buffer of a connection; -1 leaves it to the kernel."},
	{Name: "socket.receive.buffer.bytes", Type: Int, Default: "-1", Want: atLeast(-1), broker: func(b *Broker) any { return &b.Server.ReceiveBufferBytes },
		Doc: "Kernel receive buffer of a connection; -1 leaves it to the kernel."},
	{Name: "socket.request.max.bytes", Type: Int, Default: "104857600", Want: atLeast(1), broker: func(b *Broker) any { return &b.Server.RequestBytesMax },
		Doc: "Largest Produce request. Other requests are bounded by tidemark.request.small.max.bytes if that is less. A larger frame closes the connection."},
	{Name: "max.connections", Type: Int, Default: "2147483647", Want: atLeast(0), Update: ClusterWide, broker: func(b *Broker) any { return &b.Server.ConnectionsMax },
		Doc: "Most connections open at once, over all listeners but those of the controller."},
	{Name: "max.connections.per.ip", Type: Int, Default: "2147483647", Want: atLeast(0), Update: ClusterWide, broker: func(b *Broker) any { return &b.Server.ConnectionsPerIPMax },
		Doc: "Most connections open at once from one address."},
	{Name: "max.connections.per.ip.overrides", Type: String, Default: "", Want: checked(perIPOverrides), Update: ClusterWide, broker: nowhere,
		Doc: "Exceptions to max.connections.per.ip, as host:count, comma separated."},
	{Name: "connections.max.idle.ms", Type: Long, Default: "600000", broker: func(b *Broker) any { return &b.Server.ConnectionIdleMax },
		Doc: "A connection without a request for that long is closed; a negative number never closes one."},
	{Name: "fetch.max.bytes", Type: Int, Default: "57671680", Want: atLeast(1024), broker: func(b *Broker) any { return &b.Server.FetchBytesMax },
		Doc: "Most bytes of one fetch response, whatever the client asks for. The first batch of the first partition with data is always sent whole."},
	{Name: "max.incremental.fetch.session.cache.slots", Type: Int, Default: "1000", Want: atLeast(0), broker: func(b *Broker) any { return &b.Server.FetchSessionsMax },
		Doc: "Incremental fetch sessions kept; a client without one names all partitions in each fetch."},
	{Name: "max.request.partition.size.limit", Type: Int, Default: "2000", Want: atLeast(1), broker: func(b *Broker) any { return &b.Server.DescribePartitionsMax },
		Doc: "Most partitions in one DescribeTopicPartitions answer."},
	{Name: "request.timeout.ms", Type: Int, Default: "30000", Want: atLeast(0), broker: func(b *Broker) any { return &b.Server.RequestTimeout },
		Doc: "How long a request that the broker itself sends may take."},

	{Name: "telemetry.max.bytes", Type: Int, Default: "1048576", Want: atLeast(1), broker: func(b *Broker) any { return &b.Telemetry.BytesMax },
		Doc: "Most bytes of metrics, compressed as they may be, that a client may push at once (KIP-714); more is TELEMETRY_TOO_LARGE. A frame is bounded by tidemark.request.small.max.bytes besides."},
	{Name: "auto.create.topics.enable", Type: Bool, Default: "true", broker: func(b *Broker) any { return &b.Topics.AutoCreate },
		Doc: "Creates a topic when a client that allows it asks for one that does not exist."},
	{Name: "delete.topic.enable", Type: Bool, Default: "true", broker: func(b *Broker) any { return &b.Topics.DeleteEnabled },
		Doc: "Allows topics to be deleted."},
	{Name: "num.partitions", Type: Int, Default: "1", Want: atLeast(1), broker: func(b *Broker) any { return &b.Topics.NumPartitions },
		Doc: "Partitions of a topic that is created without a number."},
	{Name: "default.replication.factor", Type: Int, Default: "1", Want: atLeast(1), broker: func(b *Broker) any { return &b.Topics.DefaultReplicationFactor },
		Doc: "Replicas of a topic that is created without a number."},
	{Name: "min.insync.replicas", Type: Int, Default: "1", Want: atLeast(1), Update: ClusterWide, broker: topicDefault,
		Doc: "Least number of in-sync replicas with which an acks=all produce is accepted, for topics that set none. It can be altered for the cluster, never for one broker."},
	{Name: "unclean.leader.election.enable", Type: Bool, Default: "false", Update: ClusterWide, broker: topicDefault,
		Doc: "Lets a replica that may lack acknowledged records become leader when no other is left, for topics that do not say."},
	{Name: "producer.id.expiration.ms", Type: Int, Default: "86400000", Want: atLeast(1), Update: ClusterWide, broker: func(b *Broker) any { return &b.Producers.IDExpiration },
		Doc: "How long a partition remembers an idempotent producer that writes nothing."},
}

// topicDefault marks a broker key that is read only as the default of a topic
// key.
func topicDefault(*Broker) any { return nil }

const ipOverridesWant = "host:count pairs, comma separated, each count a 32 bit number ≥ 0"

func perIPOverrides(value string) string {
	if _, ok := parseIPOverrides(value); !ok {
		return ipOverridesWant
	}
	return ""
}
