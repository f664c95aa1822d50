package config

// replicationKeys are the settings of followers and of leaders towards them.
var replicationKeys = []Key{
	{Name: "replica.fetch.min.bytes", Type: Int, Default: "1", Want: atLeast(0), broker: func(b *Broker) any { return &b.Replication.FetchMinBytes },
		Doc: "Bytes for which a follower's fetch waits."},
	{Name: "replica.fetch.max.bytes", Type: Int, Default: "1048576", Want: atLeast(0), broker: func(b *Broker) any { return &b.Replication.FetchMaxBytes },
		Doc: "Bytes of one partition in a follower's fetch; a larger first batch is sent whole."},
	{Name: "replica.fetch.response.max.bytes", Type: Int, Default: "10485760", Want: atLeast(0), broker: func(b *Broker) any { return &b.Replication.FetchResponseMaxBytes },
		Doc: "Bytes of a whole answer to a follower's fetch."},
	{Name: "replica.fetch.wait.max.ms", Type: Int, Default: "500", Want: atLeast(0), broker: func(b *Broker) any { return &b.Replication.FetchWaitMax },
		Doc: "How long a follower's fetch waits for data. Must not exceed replica.lag.time.max.ms, or idle followers would leave the in-sync set."},
	{Name: "replica.fetch.backoff.ms", Type: Int, Default: "1000", Want: atLeast(0), broker: func(b *Broker) any { return &b.Replication.FetchBackoff },
		Doc: "Pause after a failed fetch of a partition."},
	{Name: "replica.lag.time.max.ms", Type: Long, Default: "30000", Want: atLeast(1), broker: func(b *Broker) any { return &b.Replication.LagMax },
		Doc: "How long a follower may go without reaching the leader's end before it leaves the in-sync set."},
	{Name: "replica.socket.timeout.ms", Type: Int, Default: "30000", Want: atLeast(0), broker: func(b *Broker) any { return &b.Replication.SocketTimeout },
		Doc: "How long a follower's request may take. Must not be below replica.fetch.wait.max.ms."},
	{Name: "replica.socket.receive.buffer.bytes", Type: Int, Default: "65536", Want: atLeast(-1), broker: func(b *Broker) any { return &b.Replication.ReceiveBufferBytes },
		Doc: "Kernel receive buffer of a follower's connection; -1 leaves it to the kernel."},
	{Name: "num.replica.fetchers", Type: Int, Default: "1", Want: atLeast(1), Update: ClusterWide, broker: func(b *Broker) any { return &b.Replication.Fetchers },
		Doc: "Fetchers that a broker runs towards each broker it follows."},
	{Name: "replica.selector.class", Type: String, Null: true, broker: func(b *Broker) any { return &b.Replication.SelectorClass },
		Doc: "Which replica a consumer is told to read from: " + rackAwareSelector + " sends it to one in its own rack. Not set, and any other class, mean the leader."},
}

// rackAwareSelector is the one class of Apache Kafka whose behaviour
// replica.selector.class can ask for.
const rackAwareSelector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

// RackAware reports whether consumers are sent to a replica in their rack.
func (r *Replication) RackAware() bool { return r.SelectorClass == rackAwareSelector }
