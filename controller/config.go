package controller

import (
	"math/rand/v2"
	"time"

	"github.com/tidemark/tidemark/controller/metadata"
)

// Config is what a Controller needs to know. All fields but Rules and Rand have
// the defaults of Defaults.
type Config struct {
	// NumPartitions and ReplicationFactor stand in for −1 in CreateTopics
	// (num.partitions, default.replication.factor).
	NumPartitions     int32
	ReplicationFactor int16
	// TopicDeletionDisabled is the opposite of delete.topic.enable.
	TopicDeletionDisabled bool
	// SessionTimeout is how long a broker may be silent before it is fenced
	// (broker.session.timeout.ms).
	SessionTimeout time.Duration
	// HeartbeatInterval is how often brokers report (broker.heartbeat.interval.ms);
	// a pause of the controller itself that is longer extends every session.
	HeartbeatInterval time.Duration
	// LeaderRebalance moves leaderships back to the first replica of the
	// assignment (auto.leader.rebalance.enable).
	LeaderRebalance bool
	// RebalanceInterval is how often that is looked at, and partitions without a
	// leader whose topic allows an unclean one
	// (leader.imbalance.check.interval.seconds).
	RebalanceInterval time.Duration
	// RecoveryWait is how long the last known members of a partition of which
	// nobody is known to be complete are waited for (tidemark.recovery.wait.ms).
	RecoveryWait time.Duration
	// Features are the ranges that this program can run at.
	Features []metadata.FeatureRange
	// PinMinISR has the first active controller make its own min.insync.replicas the
	// cluster's, after which nobody's file counts any more.
	PinMinISR bool
	// Rules know the names and bounds of settings.
	Rules ConfigRules
	// Rand places replicas and makes topic ids.
	Rand *rand.Rand
}

// Defaults returns Kafka's defaults.
func Defaults() Config {
	return Config{
		NumPartitions:     1,
		ReplicationFactor: 1,
		SessionTimeout:    9 * time.Second,
		HeartbeatInterval: 2 * time.Second,
		LeaderRebalance:   true,
		RebalanceInterval: 5 * time.Minute,
		RecoveryWait:      time.Minute,
	}
}

// EffectiveConfig is one setting of a new topic as CreateTopics v5+ reports it.
type EffectiveConfig struct {
	Name      string
	Value     *string
	ReadOnly  bool
	Source    int8 // kmsg.ConfigSource
	Sensitive bool
}

// TopicSettings are what elections depend on.
type TopicSettings struct {
	MinISR int // min.insync.replicas
	// Unclean: unclean.leader.election.enable.
	Unclean bool
}

// ConfigRules is what the controller asks about settings. Implementations are
// pure. Errors become INVALID_CONFIG with their text.
type ConfigRules interface {
	// CheckTopic says what is wrong with all overrides of one topic.
	CheckTopic(overrides map[string]string) error
	// CheckBroker says what is wrong with the dynamic settings of one broker,
	// or of the cluster's default if clusterDefault is set. changed lists the
	// keys that the command sets or removes, sorted.
	CheckBroker(clusterDefault bool, settings map[string]string, changed []string) error
	// CheckGroup says what is wrong with all settings of one consumer group.
	CheckGroup(settings map[string]string) error
	// CheckClientMetrics says what is wrong with all settings of one subscription to
	// clients' metrics; a *config.BadOp with Request set becomes INVALID_REQUEST.
	CheckClientMetrics(settings map[string]string) error
	// IsList reports whether key takes a comma separated list, so that APPEND
	// and SUBTRACT make sense.
	IsList(t metadata.ResourceType, key string) bool
	// Default returns the value that holds without an override, for APPEND and
	// SUBTRACT.
	Default(t metadata.ResourceType, key string) (string, bool)
	// Topic returns the settings of a topic that elections depend on, its
	// overrides and the cluster's defaults taken into account. For a topic without
	// overrides the name doesn't matter.
	Topic(m *metadata.Image, topic string) TopicSettings
	// EffectiveTopic lists every setting of a new topic with these overrides,
	// sorted by name.
	EffectiveTopic(m *metadata.Image, overrides map[string]string) []EffectiveConfig
}
