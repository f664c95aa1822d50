package kafka

import (
	"context"
	"fmt"
	"io"

	"github.com/tidemark/tidemark/compat/proc"
)

// Tool is one of Kafka's command line programs, by the name of its script.
type Tool string

// The tools.
const (
	Topics             Tool = "kafka-topics"
	ConsoleProducer    Tool = "kafka-console-producer"
	ConsoleConsumer    Tool = "kafka-console-consumer"
	ProducerPerfTest   Tool = "kafka-producer-perf-test"
	ConsumerPerfTest   Tool = "kafka-consumer-perf-test"
	Configs            Tool = "kafka-configs"
	GetOffsets         Tool = "kafka-get-offsets"
	DeleteRecords      Tool = "kafka-delete-records"
	LogDirs            Tool = "kafka-log-dirs"
	BrokerAPIVersions  Tool = "kafka-broker-api-versions"
	MetadataQuorum     Tool = "kafka-metadata-quorum"
	Features           Tool = "kafka-features"
	Cluster            Tool = "kafka-cluster"
	DumpLog            Tool = "kafka-dump-log"
	Storage            Tool = "kafka-storage"
	ConsumerGroups     Tool = "kafka-consumer-groups"
	Transactions       Tool = "kafka-transactions"
	LeaderElection     Tool = "kafka-leader-election"
	ReassignPartitions Tool = "kafka-reassign-partitions"
	ACLs               Tool = "kafka-acls"
	VerifiableProducer Tool = "kafka-verifiable-producer"
	VerifiableConsumer Tool = "kafka-verifiable-consumer"
	Groups             Tool = "kafka-groups"
	ClientMetrics      Tool = "kafka-client-metrics"
	StreamsReset       Tool = "kafka-streams-application-reset"
	ConnectStandalone  Tool = "connect-standalone"
	ConnectDistributed Tool = "connect-distributed"

	// BrokerSettings and TopicSettings print the tables of settings from which Kafka's
	// documentation is made.
	BrokerSettings Tool = "broker settings"
	TopicSettings  Tool = "topic settings"
)

// class returns the class that the tool's script starts.
func (t Tool) class() string {
	switch t {
	case Topics:
		return "org.apache.kafka.tools.TopicCommand"
	case ConsoleProducer:
		return "org.apache.kafka.tools.ConsoleProducer"
	case ConsoleConsumer:
		return "org.apache.kafka.tools.consumer.ConsoleConsumer"
	case ProducerPerfTest:
		return "org.apache.kafka.tools.ProducerPerformance"
	case ConsumerPerfTest:
		return "org.apache.kafka.tools.ConsumerPerformance"
	case Configs:
		return "kafka.admin.ConfigCommand"
	case GetOffsets:
		return "org.apache.kafka.tools.GetOffsetShell"
	case DeleteRecords:
		return "org.apache.kafka.tools.DeleteRecordsCommand"
	case LogDirs:
		return "org.apache.kafka.tools.LogDirsCommand"
	case BrokerAPIVersions:
		return "org.apache.kafka.tools.BrokerApiVersionsCommand"
	case MetadataQuorum:
		return "org.apache.kafka.tools.MetadataQuorumCommand"
	case Features:
		return "org.apache.kafka.tools.FeatureCommand"
	case Cluster:
		return "org.apache.kafka.tools.ClusterTool"
	case DumpLog:
		return "org.apache.kafka.tools.DumpLogSegments"
	case ClientMetrics:
		return "org.apache.kafka.tools.ClientMetricsCommand"
	case Storage:
		return "kafka.tools.StorageTool"
	case ConsumerGroups:
		return "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
	case Transactions:
		return "org.apache.kafka.tools.TransactionsCommand"
	case LeaderElection:
		return "org.apache.kafka.tools.LeaderElectionCommand"
	case ReassignPartitions:
		return "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
	case ACLs:
		return "org.apache.kafka.tools.AclCommand"
	case VerifiableProducer:
		return "org.apache.kafka.tools.VerifiableProducer"
	case VerifiableConsumer:
		return "org.apache.kafka.tools.VerifiableConsumer"
	case Groups:
		return "org.apache.kafka.tools.GroupsCommand"
	case StreamsReset:
		return "org.apache.kafka.tools.StreamsResetter"
	case ConnectStandalone:
		return "org.apache.kafka.connect.cli.ConnectStandalone"
	case ConnectDistributed:
		return "org.apache.kafka.connect.cli.ConnectDistributed"
	case BrokerSettings:
		return "kafka.server.KafkaConfig"
	case TopicSettings:
		return "org.apache.kafka.storage.internals.log.LogConfig"
	}
	return ""
}

// toolFlags make a short run of the Java virtual machine start and end soon.
func toolFlags() []string {
	return []string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"}
}

// Run runs a tool to its end. A failing exit is not an error: look at
// Result.Exit.
func (j Jars) Run(ctx context.Context, stdin io.Reader, t Tool, args ...string) (proc.Result, error) {
	class := t.class()
	if class == "" {
		return proc.Result{}, fmt.Errorf("kafka: no tool %q", t)
	}
	return proc.Run(ctx, stdin, j.java(toolFlags(), class, args...)...)
}

// StartTool starts a tool that goes on until it is stopped.
func (j Jars) StartTool(t Tool, args ...string) (*proc.Process, error) {
	class := t.class()
	if class == "" {
		return nil, fmt.Errorf("kafka: no tool %q", t)
	}
	return proc.Start("", nil, j.java(toolFlags(), class, args...)...)
}
