package golden

import (
	"embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
)

//go:embed *.json
var files embed.FS

// API is the version range of one request that Kafka's broker advertises.
type API struct {
	Key  int16  `json:"key"`
	Name string `json:"name"`
	Min  int16  `json:"min"`
	Max  int16  `json:"max"`
}

// Feature is one feature level that Kafka supports or has finalized.
type Feature struct {
	Name string `json:"name"`
	Min  int16  `json:"min"`
	Max  int16  `json:"max"`
	// Finalized is the level of a freshly formatted cluster; 0 is none.
	Finalized int16 `json:"finalized"`
}

// Config is one setting.
type Config struct {
	Name string `json:"name"`
	// Type is Kafka's name of the type, such as INT.
	Type string `json:"type"`
	// Default is nil when there is none.
	Default *string `json:"default"`
	// Valid is Kafka's notation of the allowed values; empty when the type says it
	// all.
	Valid string `json:"valid,omitempty"`
	// Update is read-only, per-broker or cluster-wide; empty for topic settings.
	Update string `json:"update,omitempty"`
	// ServerDefault is the broker setting behind a topic setting.
	ServerDefault string `json:"serverDefault,omitempty"`
	ReadOnly      bool   `json:"readOnly"`
	Sensitive     bool   `json:"sensitive"`
	// Described says that DescribeConfigs lists the setting; a few exist only as
	// dynamic settings.
	Described bool `json:"described"`
}

// APIs returns the broker's version ranges, by key.
func APIs() []API { return load[API]("apis.json") }

// Features returns the features, by name.
func Features() []Feature { return load[Feature]("features.json") }

// BrokerConfigs returns the broker settings, by name.
func BrokerConfigs() []Config { return load[Config]("broker_configs.json") }

// TopicConfigs returns the topic settings, by name.
func TopicConfigs() []Config { return load[Config]("topic_configs.json") }

// load reads an embedded list. That it parses is what its own test checks, so a
// failure here is an empty list.
func load[T any](name string) []T {
	data, err := files.ReadFile(name)
	if err != nil {
		return nil
	}
	var list []T
	if json.Unmarshal(data, &list) != nil {
		return nil
	}
	return list
}

// Dir returns the directory of a log directory that Kafka wrote: "clean" after
// an orderly stop, "killed" after kill -9. Copy it before opening it.
func Dir(name string) string {
	_, self, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(self), "logdir", name)
}

// Partition is what one partition of a log directory holds.
type Partition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	TopicID   string `json:"topicId"`
	// LogStart, HighWatermark, LastStable and LogEnd are its offsets, as Kafka
	// answered them just before it was stopped.
	LogStart      int64 `json:"logStart"`
	HighWatermark int64 `json:"highWatermark"`
	LastStable    int64 `json:"lastStable"`
	LogEnd        int64 `json:"logEnd"`
	// Epochs are leader epochs with the offset at which each began.
	Epochs []Epoch `json:"epochs"`
	// Records are all records from LogStart, control records included.
	Records []Record `json:"records"`
}

// Epoch is a leader epoch and its first offset.
type Epoch struct {
	Epoch int32 `json:"epoch"`
	Start int64 `json:"start"`
}

// Record is one record. Key and Value are nil for null.
type Record struct {
	Offset        int64    `json:"offset"`
	Timestamp     int64    `json:"timestamp"`
	AppendTime    bool     `json:"appendTime,omitempty"`
	Codec         string   `json:"codec"`
	LeaderEpoch   int32    `json:"leaderEpoch"`
	ProducerID    int64    `json:"producerId"`
	ProducerEpoch int16    `json:"producerEpoch"`
	Transactional bool     `json:"transactional,omitempty"`
	Control       bool     `json:"control,omitempty"`
	Aborted       bool     `json:"aborted,omitempty"`
	Key           []byte   `json:"key"`
	Value         []byte   `json:"value"`
	Headers       []Header `json:"headers,omitempty"`
}

// Header is one header of a record. Value is nil for null.
type Header struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// Partitions returns what the log directory of that name holds.
func Partitions(dir string) ([]Partition, error) {
	data, err := files.ReadFile("records_" + dir + ".json")
	if err != nil {
		return nil, err
	}
	var all []Partition
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("records of %s: %w", dir, err)
	}
	return all, nil
}
