package config

import (
	"time"

	"github.com/tidemark/tidemark/internal/model"
)

// Roles are the parts that a process plays. Source: KIP-500.
type Roles struct {
	Broker     bool
	Controller bool
}

// Broker is the settings of one process, typed and checked. It does not change
// after Load; what can change while the broker runs lies in the dynamic layers
// (Dynamic), which Topic and the Describe methods take as arguments.
type Broker struct {
	// NodeID is this process's number in the cluster.
	NodeID model.BrokerID
	// ClusterID is the cluster's name if the operator chose one; empty lets the
	// first start choose.
	ClusterID string
	// Rack is where the broker stands, for placing replicas; empty is unknown.
	Rack string
	// Roles are the parts that this process plays.
	Roles Roles

	// Listeners are the addresses to accept connections on, in the order given.
	Listeners []Listener
	// Advertised are the addresses told to clients, one for each listener that
	// clients may use, by the same names.
	Advertised []Listener
	// InterBrokerListener is the name of the listener that other brokers use.
	InterBrokerListener string
	// ControllerListeners are the names of the listeners of the controller; empty
	// on a node that is a cluster of its own.
	ControllerListeners []string

	// DataDir is the directory under which LogDirs and KeptDir lie by default.
	DataDir string
	// LogDirs are the directories of partitions, at least one.
	LogDirs []string
	// MetadataDir is the directory of the metadata log, one of LogDirs unless
	// metadata.log.dir says otherwise.
	MetadataDir string
	// KeptDir is where bytes cut from logs are kept aside, with their receipts.
	KeptDir string

	Quorum      Quorum
	Server      Server
	Topics      Topics
	Storage     Storage
	Replication Replication
	Producers   Producers
	Groups      Groups
	Telemetry   Telemetry
	Own         Own

	set map[string]setting // every key that a source set, by name
}

type setting struct {
	value  string
	origin Origin
}

// Voter is one static member of the metadata quorum.
type Voter struct {
	ID   model.BrokerID
	Host string
	Port int32
}

// Quorum is the settings of the metadata quorum and of broker sessions.
type Quorum struct {
	// Voters are the static members; empty means that this node is the only one,
	// or that the quorum is dynamic.
	Voters []Voter
	// BootstrapServers are host:port of controllers to find a dynamic quorum by.
	BootstrapServers []string
	// ElectionTimeout is how long a voter hears nothing from the leader before it
	// stands for election.
	ElectionTimeout time.Duration
	// HeartbeatInterval is how often the quorum's leader is heard.
	HeartbeatInterval time.Duration
	// RequestTimeout bounds a request to another controller.
	RequestTimeout time.Duration
	// SegmentBytes and SegmentAge close a segment of the metadata log.
	SegmentBytes int32
	SegmentAge   time.Duration
	// SnapshotBytesMax and SnapshotAgeMax: a snapshot is written after that much
	// new log or that long, whichever comes first.
	SnapshotBytesMax int64
	SnapshotAgeMax   time.Duration
	// RetentionBytes and RetentionAge bound old metadata log and snapshots.
	RetentionBytes int64
	RetentionAge   time.Duration

	// BrokerHeartbeatInterval is how often a broker tells the controller it lives.
	BrokerHeartbeatInterval time.Duration
	// BrokerSessionTimeout is the silence after which a broker is fenced.
	BrokerSessionTimeout time.Duration
	// RegistrationTimeout is how long a starting broker tries to register.
	RegistrationTimeout time.Duration
	// ControlledShutdown hands leaderships over before an orderly stop.
	ControlledShutdown bool
	// LeaderRebalance moves leadership back to preferred replicas.
	LeaderRebalance bool
	// LeaderRebalanceInterval is how often that is looked at.
	LeaderRebalanceInterval time.Duration
}

// Server is the settings of connections and requests.
type Server struct {
	// SendBufferBytes and ReceiveBufferBytes are the sockets' kernel buffers; -1
	// leaves them to the kernel.
	SendBufferBytes    int32
	ReceiveBufferBytes int32
	// RequestBytesMax bounds the frame of a Produce request.
	RequestBytesMax int32
	// ConnectionsMax, ConnectionsPerIPMax bound open connections.
	ConnectionsMax      int32
	ConnectionsPerIPMax int32
	// ConnectionsPerIPOverrides replaces ConnectionsPerIPMax for some hosts.
	ConnectionsPerIPOverrides map[string]int32
	// ConnectionIdleMax closes a connection that long without a request.
	ConnectionIdleMax time.Duration
	// FetchBytesMax bounds a fetch response.
	FetchBytesMax int32
	// FetchSessionsMax bounds the cache of incremental fetch sessions.
	FetchSessionsMax int32
	// DescribePartitionsMax bounds one DescribeTopicPartitions answer.
	DescribePartitionsMax int32
	// RequestTimeout bounds requests that the broker itself sends.
	RequestTimeout time.Duration
}

// Topics is the settings of creating and deleting topics.
type Topics struct {
	// AutoCreate creates a topic that a client asks for.
	AutoCreate bool
	// DeleteEnabled allows DeleteTopics.
	DeleteEnabled bool
	// NumPartitions is how many a topic gets that asks for the default.
	NumPartitions int32
	// DefaultReplicationFactor is how many replicas its partitions get.
	DefaultReplicationFactor int32
}

// Storage is the settings of log directories; those of single logs are in Topic.
type Storage struct {
	// RecoveryThreads is how many logs of one directory are read at a time at a start.
	RecoveryThreads int32
	// RetentionCheckInterval is how often old segments are looked for.
	RetentionCheckInterval time.Duration
	// RecoveryPointInterval, LogStartInterval and HighWatermarkInterval are how
	// often the three checkpoint files are written.
	RecoveryPointInterval time.Duration
	LogStartInterval      time.Duration
	HighWatermarkInterval time.Duration
	// FlushCheckInterval is how often logs are looked at for flush.ms.
	FlushCheckInterval time.Duration
	// DirFailureTimeout is how long a broker with a failed directory waits for the
	// controller to take note before it stops.
	DirFailureTimeout time.Duration
	// Cleaner is the settings of compaction; those of single logs are in Topic.
	Cleaner Cleaner
}

// Cleaner is the settings of what compacts logs. The numbers are for all threads
// together.
type Cleaner struct {
	// Enable has compacted topics compacted.
	Enable bool
	// Threads is how many partitions are compacted at a time.
	Threads int32
	// DedupeBytes bounds the memory for keys, LoadFactor how full it may get.
	DedupeBytes int64
	LoadFactor  float64
	// IOBufferBytes is the size of the buffers for reading and writing.
	IOBufferBytes int32
	// BytesPerSecond bounds what is read and written.
	BytesPerSecond float64
	// Backoff is how often it is looked for something to do.
	Backoff time.Duration
}

// Replication is the settings of followers and of leaders towards them.
type Replication struct {
	// FetchMin and FetchMax bound one partition's bytes in a follower's fetch.
	FetchMinBytes int32
	FetchMaxBytes int32
	// FetchResponseMaxBytes bounds the whole answer.
	FetchResponseMaxBytes int32
	// FetchWaitMax is how long a follower's fetch waits for data.
	FetchWaitMax time.Duration
	// FetchBackoff is the pause after a failed fetch.
	FetchBackoff time.Duration
	// LagMax is how long a follower may lack the leader's end before it leaves the
	// ISR.
	LagMax time.Duration
	// SocketTimeout bounds a follower's request.
	SocketTimeout time.Duration
	// ReceiveBufferBytes is the kernel's buffer of a follower's connection.
	ReceiveBufferBytes int32
	// Fetchers is how many fetchers a broker runs towards each other broker.
	Fetchers int32
	// SelectorClass says which replica consumers are told to read from.
	SelectorClass string
}

// Producers is the settings of idempotent producers.
type Producers struct {
	// IDExpiration is how long a partition remembers a silent producer.
	IDExpiration time.Duration
}

// Groups is the settings of consumer groups and of the topic that keeps them.
type Groups struct {
	// SessionMin and SessionMax bound a member's session timeout.
	SessionMin, SessionMax time.Duration
	// InitialRebalanceDelay is how long an empty group waits for more members.
	InitialRebalanceDelay time.Duration
	// SizeMax bounds the members of a group.
	SizeMax int32
	// ConsumerSession, ConsumerHeartbeat and ConsumerSizeMax are of groups whose
	// coordinator assigns (KIP-848); the others bound the first two.
	ConsumerSession, ConsumerSessionMin, ConsumerSessionMax       time.Duration
	ConsumerHeartbeat, ConsumerHeartbeatMin, ConsumerHeartbeatMax time.Duration
	ConsumerSizeMax                                               int32
	// Migration is which way groups with members change between the classic and
	// the consumer protocol: disabled, upgrade, downgrade or bidirectional.
	Migration string
	// MetadataBytesMax bounds the text that is committed with an offset.
	MetadataBytesMax int32
	// OffsetsRetentionMinutes is how long offsets are kept without readers.
	OffsetsRetentionMinutes int32
	// OffsetsCheckInterval is how often old offsets are looked for.
	OffsetsCheckInterval time.Duration
	// CommitTimeout is how long a commit waits for its replicas.
	CommitTimeout time.Duration
	// LoadBufferBytes is how much of a partition is read at a time when it is
	// loaded.
	LoadBufferBytes int32
	// TopicPartitions, TopicReplicationFactor and TopicSegmentBytes are what the
	// topic of groups is created with, and Codec is that of its batches, in the
	// numbers of record batches.
	TopicPartitions        int32
	TopicReplicationFactor int32
	TopicSegmentBytes      int32
	Codec                  int32
	// Alone says that TopicReplicationFactor is 1 because this node is a cluster
	// of its own and nobody has set it.
	Alone bool
}

// Telemetry is the settings of what clients tell of themselves. Source: KIP-714.
type Telemetry struct {
	// Advertised says that clients are told that their metrics are taken.
	Advertised bool
	// BytesMax bounds what one push may bring.
	BytesMax int32
}

// Own is the settings that Kafka does not have.
type Own struct {
	// HTTPListen is host:port of metrics and health pages; empty is off.
	HTTPListen string
	// LogLevel is debug, info, warn or error.
	LogLevel string
	// IOStallTimeout is how long a partition's disk may make no progress before
	// its leadership is given up.
	IOStallTimeout time.Duration
	// RecoveryWait is how long the controller waits for the last known replicas
	// of a partition that none is left of, before it elects the best that came.
	RecoveryWait time.Duration
	// KeptRetention and KeptBytesMax bound the bytes kept aside.
	KeptRetention time.Duration
	KeptBytesMax  int64
	// MemoryLimitBytes is what request and response buffers are sized by; 0 takes
	// the machine's or container's limit.
	MemoryLimitBytes int64
	// SmallRequestBytesMax bounds the frame of every request but Produce.
	SmallRequestBytesMax int32
	// DecompressedBatchBytesMax bounds what one compressed batch may expand to.
	DecompressedBatchBytesMax int64
	// TCPCongestion names the congestion control of client connections; empty is
	// the system's.
	TCPCongestion string
	// InFlightPerConnection is how many requests of one connection may be
	// unanswered before reading from it stops.
	InFlightPerConnection int32
	// OpenSegmentsMax bounds open segment files.
	OpenSegmentsMax int32
	// Scrub is the settings of the verification of sealed segments.
	Scrub Scrub
}

// Scrub is the settings of what verifies sealed segments in the background.
type Scrub struct {
	Enable bool
	// BytesPerSecond bounds what is read of each log directory.
	BytesPerSecond int64
	// Period is how long a segment that was verified is left alone.
	Period time.Duration
}
