//go:generate go run ./internal/apidoc ../docs/APIS.md

package protocol

// The keys of the APIs in the table. Source: the Kafka protocol guide.
const (
	KeyProduce                 int16 = 0
	KeyFetch                   int16 = 1
	KeyListOffsets             int16 = 2
	KeyMetadata                int16 = 3
	KeyOffsetCommit            int16 = 8
	KeyOffsetFetch             int16 = 9
	KeyFindCoordinator         int16 = 10
	KeyJoinGroup               int16 = 11
	KeyHeartbeat               int16 = 12
	KeyLeaveGroup              int16 = 13
	KeySyncGroup               int16 = 14
	KeyDescribeGroups          int16 = 15
	KeyListGroups              int16 = 16
	KeyApiVersions             int16 = 18
	KeyCreateTopics            int16 = 19
	KeyDeleteTopics            int16 = 20
	KeyDeleteRecords           int16 = 21
	KeyInitProducerID          int16 = 22
	KeyOffsetForLeaderEpoch    int16 = 23
	KeyDescribeConfigs         int16 = 32
	KeyAlterConfigs            int16 = 33
	KeyDescribeLogDirs         int16 = 35
	KeyCreatePartitions        int16 = 37
	KeyDeleteGroups            int16 = 42
	KeyElectLeaders            int16 = 43
	KeyIncrementalAlterConfigs int16 = 44
	KeyDescribeClientQuotas    int16 = 48
	KeyAlterClientQuotas       int16 = 49
	KeyDescribeUserScram       int16 = 50
	KeyAlterReassignments      int16 = 45
	KeyListReassignments       int16 = 46
	KeyOffsetDelete            int16 = 47
	KeyDescribeQuorum          int16 = 55
	KeyAlterPartition          int16 = 56
	KeyUpdateFeatures          int16 = 57
	KeyDescribeCluster         int16 = 60
	KeyDescribeProducers       int16 = 61
	KeyBrokerRegistration      int16 = 62
	KeyBrokerHeartbeat         int16 = 63
	KeyUnregisterBroker        int16 = 64
	KeyAllocateProducerIDs     int16 = 67
	KeyConsumerGroupHeartbeat  int16 = 68
	KeyConsumerGroupDescribe   int16 = 69
	KeyGetTelemetrySubs        int16 = 71
	KeyPushTelemetry           int16 = 72
	KeyListConfigResources     int16 = 74
	KeyDescribeTopicPartitions int16 = 75
	KeyAddRaftVoter            int16 = 80
	KeyRemoveRaftVoter         int16 = 81
)

// table is the truth about what is served: ApiVersions answers, dispatch and
// docs/APIS.md are made from it. Each row stands at the index of its key. A range
// is what Apache Kafka 4 advertises, cut to what kmsg decodes and to what has a
// handler and a guard.
var table = [...]API{
	KeyProduce: {
		Key: KeyProduce, Name: "Produce", Min: 0, Max: 13, ServedMin: 3, Flexible: 9, Class: ClassData, Scope: OnBroker,
		Notes: "Versions 0 to 2 are advertised and refused: librdkafka tests the range before it compresses (KAFKA-18659). Record batches of magic 2 only.",
	},
	KeyFetch: {
		Key: KeyFetch, Name: "Fetch", Min: 4, Max: 18, ServedMin: 4, Flexible: 12, Class: ClassData, Scope: OnBroker,
		Notes: "Sessions (KIP-227) from 7, topic ids from 13.",
	},
	KeyListOffsets: {
		Key: KeyListOffsets, Name: "ListOffsets", Min: 1, Max: 11, ServedMin: 1, Flexible: 6, Class: ClassData, Scope: OnBroker,
		Notes: "Timestamps of tiered storage (-4, -5) find nothing.",
	},
	KeyMetadata: {
		Key: KeyMetadata, Name: "Metadata", Min: 0, Max: 13, ServedMin: 0, Flexible: 9, Class: ClassMetadata, Scope: OnBroker,
	},
	KeyOffsetCommit: {
		Key: KeyOffsetCommit, Name: "OffsetCommit", Min: 2, Max: 10, ServedMin: 2, Flexible: 8, Class: ClassGroup, Scope: OnBroker,
	},
	KeyOffsetFetch: {
		Key: KeyOffsetFetch, Name: "OffsetFetch", Min: 1, Max: 10, ServedMin: 1, Flexible: 6, Class: ClassGroup, Scope: OnBroker,
	},
	KeyFindCoordinator: {
		Key: KeyFindCoordinator, Name: "FindCoordinator", Min: 0, Max: 6, ServedMin: 0, Flexible: 3, Class: ClassMetadata, Scope: OnBroker,
		Notes: "Coordinators of groups. Those of transactions and share groups do not exist: COORDINATOR_NOT_AVAILABLE.",
	},
	KeyJoinGroup: {
		Key: KeyJoinGroup, Name: "JoinGroup", Min: 0, Max: 9, ServedMin: 0, Flexible: 6, Class: ClassGroup, Scope: OnBroker,
	},
	KeyHeartbeat: {
		Key: KeyHeartbeat, Name: "Heartbeat", Min: 0, Max: 4, ServedMin: 0, Flexible: 4, Class: ClassGroup, Scope: OnBroker,
	},
	KeyLeaveGroup: {
		Key: KeyLeaveGroup, Name: "LeaveGroup", Min: 0, Max: 5, ServedMin: 0, Flexible: 4, Class: ClassGroup, Scope: OnBroker,
	},
	KeySyncGroup: {
		Key: KeySyncGroup, Name: "SyncGroup", Min: 0, Max: 5, ServedMin: 0, Flexible: 4, Class: ClassGroup, Scope: OnBroker,
	},
	KeyDescribeGroups: {
		Key: KeyDescribeGroups, Name: "DescribeGroups", Min: 0, Max: 6, ServedMin: 0, Flexible: 5, Class: ClassGroup, Scope: OnBroker,
	},
	KeyListGroups: {
		Key: KeyListGroups, Name: "ListGroups", Min: 0, Max: 5, ServedMin: 0, Flexible: 3, Class: ClassGroup, Scope: OnBroker,
	},
	KeyApiVersions: {
		Key: KeyApiVersions, Name: "ApiVersions", Min: 0, Max: 4, ServedMin: 0, Flexible: 3, Class: ClassMetadata, Scope: OnBroker | OnController,
		Notes: "An unknown version is answered in version 0 with UNSUPPORTED_VERSION and the range of this API.",
	},
	KeyCreateTopics: {
		Key: KeyCreateTopics, Name: "CreateTopics", Min: 2, Max: 7, ServedMin: 2, Flexible: 5, Class: ClassAdmin, Scope: OnBroker | OnController,
	},
	KeyDeleteTopics: {
		Key: KeyDeleteTopics, Name: "DeleteTopics", Min: 1, Max: 6, ServedMin: 1, Flexible: 4, Class: ClassAdmin, Scope: OnBroker | OnController,
	},
	KeyDeleteRecords: {
		Key: KeyDeleteRecords, Name: "DeleteRecords", Min: 0, Max: 2, ServedMin: 0, Flexible: 2, Class: ClassData, Scope: OnBroker,
	},
	KeyInitProducerID: {
		Key: KeyInitProducerID, Name: "InitProducerId", Min: 0, Max: 5, ServedMin: 0, Flexible: 2, Class: ClassTxn, Scope: OnBroker,
		Notes: "Idempotent producers; a transactional id is answered with COORDINATOR_NOT_AVAILABLE.",
	},
	KeyOffsetForLeaderEpoch: {
		Key: KeyOffsetForLeaderEpoch, Name: "OffsetForLeaderEpoch", Min: 2, Max: 4, ServedMin: 2, Flexible: 4, Class: ClassData, Scope: OnBroker,
	},
	KeyDescribeConfigs: {
		Key: KeyDescribeConfigs, Name: "DescribeConfigs", Min: 1, Max: 4, ServedMin: 1, Flexible: 4, Class: ClassMetadata, Scope: OnBroker | OnController,
	},
	KeyAlterConfigs: {
		Key: KeyAlterConfigs, Name: "AlterConfigs", Min: 0, Max: 2, ServedMin: 0, Flexible: 2, Class: ClassAdmin, Scope: OnBroker | OnController,
	},
	KeyDescribeLogDirs: {
		Key: KeyDescribeLogDirs, Name: "DescribeLogDirs", Min: 1, Max: 5, ServedMin: 1, Flexible: 2, Class: ClassMetadata, Scope: OnBroker,
	},
	KeyCreatePartitions: {
		Key: KeyCreatePartitions, Name: "CreatePartitions", Min: 0, Max: 3, ServedMin: 0, Flexible: 2, Class: ClassAdmin, Scope: OnBroker | OnController,
	},
	KeyDeleteGroups: {
		Key: KeyDeleteGroups, Name: "DeleteGroups", Min: 0, Max: 2, ServedMin: 0, Flexible: 2, Class: ClassGroup, Scope: OnBroker,
	},
	KeyElectLeaders: {
		Key: KeyElectLeaders, Name: "ElectLeaders", Min: 0, Max: 2, ServedMin: 0, Flexible: 2, Class: ClassAdmin, Scope: OnBroker | OnController,
	},
	KeyIncrementalAlterConfigs: {
		Key: KeyIncrementalAlterConfigs, Name: "IncrementalAlterConfigs", Min: 0, Max: 1, ServedMin: 0, Flexible: 1, Class: ClassAdmin, Scope: OnBroker | OnController,
	},
	KeyAlterReassignments: {
		Key: KeyAlterReassignments, Name: "AlterPartitionReassignments", Min: 0, Max: 1, ServedMin: 0, Flexible: 0, Class: ClassAdmin, Scope: OnBroker | OnController,
	},
	KeyListReassignments: {
		Key: KeyListReassignments, Name: "ListPartitionReassignments", Min: 0, Max: 0, ServedMin: 0, Flexible: 0, Class: ClassMetadata, Scope: OnBroker | OnController,
	},
	KeyDescribeClientQuotas: {
		Key: KeyDescribeClientQuotas, Name: "DescribeClientQuotas", Min: 0, Max: 1, ServedMin: 0, Flexible: 1, Class: ClassMetadata, Scope: OnBroker | OnController,
		Notes: "Quotas are stored and shown; requests are not slowed down by them yet.",
	},
	KeyAlterClientQuotas: {
		Key: KeyAlterClientQuotas, Name: "AlterClientQuotas", Min: 0, Max: 1, ServedMin: 0, Flexible: 1, Class: ClassAdmin, Scope: OnBroker | OnController,
		Notes: "As DescribeClientQuotas. An address has to be a number, not a name to look up.",
	},
	KeyDescribeUserScram: {
		Key: KeyDescribeUserScram, Name: "DescribeUserScramCredentials", Min: 0, Max: 0, ServedMin: 0, Flexible: 0, Class: ClassMetadata, Scope: OnBroker,
		Notes: "No user has SCRAM credentials; kafka-configs asks for them besides a user's quotas.",
	},
	KeyOffsetDelete: {
		Key: KeyOffsetDelete, Name: "OffsetDelete", Min: 0, Max: 0, ServedMin: 0, Flexible: NeverFlexible, Class: ClassGroup, Scope: OnBroker,
	},
	KeyDescribeQuorum: {
		Key: KeyDescribeQuorum, Name: "DescribeQuorum", Min: 0, Max: 2, ServedMin: 0, Flexible: 0, Class: ClassMetadata, Scope: OnBroker | OnController,
	},
	KeyAlterPartition: {
		Key: KeyAlterPartition, Name: "AlterPartition", Min: 2, Max: 3, ServedMin: 2, Flexible: 0, Class: ClassController, Scope: OnController,
	},
	KeyUpdateFeatures: {
		Key: KeyUpdateFeatures, Name: "UpdateFeatures", Min: 0, Max: 2, ServedMin: 0, Flexible: 0, Class: ClassAdmin, Scope: OnBroker | OnController,
	},
	KeyDescribeCluster: {
		Key: KeyDescribeCluster, Name: "DescribeCluster", Min: 0, Max: 2, ServedMin: 0, Flexible: 0, Class: ClassMetadata, Scope: OnBroker | OnController,
	},
	KeyDescribeProducers: {
		Key: KeyDescribeProducers, Name: "DescribeProducers", Min: 0, Max: 0, ServedMin: 0, Flexible: 0, Class: ClassMetadata, Scope: OnBroker,
	},
	KeyBrokerRegistration: {
		Key: KeyBrokerRegistration, Name: "BrokerRegistration", Min: 0, Max: 4, ServedMin: 0, Flexible: 0, Class: ClassController, Scope: OnController,
	},
	KeyBrokerHeartbeat: {
		Key: KeyBrokerHeartbeat, Name: "BrokerHeartbeat", Min: 0, Max: 1, ServedMin: 0, Flexible: 0, Class: ClassController, Scope: OnController,
	},
	KeyUnregisterBroker: {
		Key: KeyUnregisterBroker, Name: "UnregisterBroker", Min: 0, Max: 0, ServedMin: 0, Flexible: 0, Class: ClassAdmin, Scope: OnBroker | OnController,
	},
	KeyAllocateProducerIDs: {
		Key: KeyAllocateProducerIDs, Name: "AllocateProducerIds", Min: 0, Max: 0, ServedMin: 0, Flexible: 0, Class: ClassController, Scope: OnController,
	},
	KeyConsumerGroupHeartbeat: {
		Key: KeyConsumerGroupHeartbeat, Name: "ConsumerGroupHeartbeat", Min: 0, Max: 1, ServedMin: 0, Flexible: 0, Class: ClassGroup, Scope: OnBroker,
	},
	KeyConsumerGroupDescribe: {
		Key: KeyConsumerGroupDescribe, Name: "ConsumerGroupDescribe", Min: 0, Max: 1, ServedMin: 0, Flexible: 0, Class: ClassGroup, Scope: OnBroker,
	},
	KeyGetTelemetrySubs: {
		Key: KeyGetTelemetrySubs, Name: "GetTelemetrySubscriptions", Min: 0, Max: 0, ServedMin: 0, Flexible: 0, Class: ClassMetadata, Scope: OnBroker,
		Notes: "KIP-714. Always answered, and advertised only with `tidemark.client.telemetry.enable`, as Kafka does where a plugin takes what clients push.",
	},
	KeyPushTelemetry: {
		Key: KeyPushTelemetry, Name: "PushTelemetry", Min: 0, Max: 0, ServedMin: 0, Flexible: 0, Class: ClassMetadata, Scope: OnBroker,
		Notes: "As GetTelemetrySubscriptions. What is pushed is counted, not looked into, and kept nowhere.",
	},
	KeyListConfigResources: {
		Key: KeyListConfigResources, Name: "ListConfigResources", Min: 0, Max: 1, ServedMin: 0, Flexible: 0, Class: ClassMetadata, Scope: OnBroker,
		Notes: "Topics, brokers, subscriptions to client metrics, and groups that have settings of their own.",
	},
	KeyDescribeTopicPartitions: {
		Key: KeyDescribeTopicPartitions, Name: "DescribeTopicPartitions", Min: 0, Max: 0, ServedMin: 0, Flexible: 0, Class: ClassMetadata, Scope: OnBroker,
	},
	KeyAddRaftVoter: {
		Key: KeyAddRaftVoter, Name: "AddRaftVoter", Min: 0, Max: 1, ServedMin: 0, Flexible: 0, Class: ClassAdmin, Scope: OnBroker | OnController,
	},
	KeyRemoveRaftVoter: {
		Key: KeyRemoveRaftVoter, Name: "RemoveRaftVoter", Min: 0, Max: 0, ServedMin: 0, Flexible: 0, Class: ClassAdmin, Scope: OnBroker | OnController,
	},
}
