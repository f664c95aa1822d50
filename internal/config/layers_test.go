package config

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

// TestCleanerUnder: what is set dynamically holds, one broker's before the
// cluster's; what may not be set, or is not legal, does not.
func TestCleanerUnder(t *testing.T) {
	b, _, _ := load(t, Sources{Flags: []string{"log.cleaner.threads=3"}})
	if got := b.CleanerUnder(Dynamic{}); got != b.Storage.Cleaner {
		t.Errorf("%+v", got)
	}
	got := b.CleanerUnder(Dynamic{
		Cluster: map[string]string{"log.cleaner.threads": "4", "log.cleaner.backoff.ms": "7", "log.cleaner.io.max.bytes.per.second": "1e6", "log.cleaner.enable": "false"},
		Broker:  map[string]string{"log.cleaner.threads": "5", "log.cleaner.dedupe.buffer.size": "much"},
	})
	want := b.Storage.Cleaner
	want.Threads, want.Backoff, want.BytesPerSecond = 5, 7*time.Millisecond, 1e6
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestTopicLayers(t *testing.T) {
	for _, c := range []struct {
		name             string
		static           string
		cluster, broker  map[string]string
		topic            map[string]string
		retention, segMs int64
	}{
		{"defaults", "", nil, nil, nil, 604800000, 604800000},
		{"static hours", "log.retention.hours=2 log.roll.hours=3", nil, nil, nil, 7200000, 10800000},
		{"minutes win over hours", "log.retention.hours=2 log.retention.minutes=5", nil, nil, nil, 300000, 604800000},
		{"milliseconds win over both", "log.retention.hours=2 log.retention.minutes=5 log.retention.ms=7", nil, nil, nil, 7, 604800000},
		{"for ever in hours", "log.retention.hours=-1", nil, nil, nil, -1, 604800000},
		{"cluster over static hours", "log.retention.hours=2", map[string]string{"log.retention.ms": "9"}, nil, nil, 9, 604800000},
		{"broker over cluster", "", map[string]string{"log.retention.ms": "9"}, map[string]string{"log.retention.ms": "8"}, nil, 8, 604800000},
		{"topic over all", "log.retention.ms=7", map[string]string{"log.retention.ms": "9"}, nil, map[string]string{"retention.ms": "6", "segment.ms": "5"}, 6, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := loadFlags(t, strings.Fields(c.static)...)
			got, err := b.Topic(Dynamic{Broker: c.broker, Cluster: c.cluster}.Merged(), c.topic)
			if err != nil {
				t.Fatal(err)
			}
			if got.RetentionMs != c.retention || got.SegmentMs != c.segMs {
				t.Errorf("retention %d, segment %d", got.RetentionMs, got.SegmentMs)
			}
			// What DescribeConfigs says is what is in force.
			for _, e := range b.DescribeTopic(Dynamic{Broker: c.broker, Cluster: c.cluster}, c.topic) {
				if e.Name == "retention.ms" && e.Value != fmt.Sprint(c.retention) {
					t.Errorf("described as %s", e.Value)
				}
			}
		})
	}
}

func TestEveryTopicKeyReachesAField(t *testing.T) {
	b := Defaults()
	before, err := b.Topic(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range TopicKeys() {
		if k.Ignored != "" {
			continue
		}
		after, err := b.Topic(nil, map[string]string{k.Name: other(&k)})
		if err != nil || after == before {
			t.Errorf("%s=%s: changes nothing (%v)", k.Name, other(&k), err)
		}
	}
}

func TestCleanupPolicy(t *testing.T) {
	for value, want := range map[string]CleanupPolicy{
		"delete":          {Delete: true},
		"compact":         {Compact: true},
		"compact, delete": {Compact: true, Delete: true},
		"":                {},
	} {
		got, err := Defaults().Topic(nil, map[string]string{"cleanup.policy": value})
		if err != nil || got.CleanupPolicy != want {
			t.Errorf("%q: %v (%v)", value, got.CleanupPolicy, err)
		}
	}
}

func TestTopicHelpers(t *testing.T) {
	b := Defaults()
	flush, err := b.Topic(nil, map[string]string{"flush.messages": "1", "compression.type": "lz4"})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := b.Topic(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !flush.Flushes() || plain.Flushes() {
		t.Error("Flushes is wrong")
	}
	if flush.CanKeepCodec(CompressionGzip) || !flush.CanKeepCodec(CompressionLZ4) || !plain.CanKeepCodec(CompressionGzip) {
		t.Error("CanKeepCodec is wrong")
	}
	oldest, newest := plain.TimestampWindow(1000)
	if oldest > 0 || newest != 3601000 {
		t.Errorf("window %d to %d", oldest, newest)
	}
	wide, err := b.Topic(nil, map[string]string{"message.timestamp.after.max.ms": "9223372036854775807"})
	if err != nil {
		t.Fatal(err)
	}
	if _, newest := wide.TimestampWindow(1000); newest != 1<<63-1 {
		t.Errorf("a window without end ends at %d", newest)
	}
}

func describe(e Entry) string {
	s := fmt.Sprintf("%s=%s source=%d", e.Name, e.Value, e.Source)
	if e.Null {
		s = fmt.Sprintf("%s null source=%d", e.Name, e.Source)
	}
	for _, y := range e.Synonyms {
		s += fmt.Sprintf(" %s=%s:%d", y.Name, y.Value, y.Source)
	}
	return s
}

func find(t *testing.T, all []Entry, name string) Entry {
	t.Helper()
	for _, e := range all {
		if e.Name == name {
			return e
		}
	}
	t.Fatalf("%s is not described", name)
	return Entry{}
}

func TestDescribe(t *testing.T) {
	b := loadFlags(t, "log.retention.hours=2", "message.max.bytes=1000", "ssl.key.password=x", "log.dirs=/d")
	d := Dynamic{
		Broker:  map[string]string{"message.max.bytes": "3000"},
		Cluster: map[string]string{"message.max.bytes": "2000", "min.insync.replicas": "2"},
	}
	broker := b.DescribeBroker(d)
	for _, want := range []string{
		"message.max.bytes=3000 source=2 message.max.bytes=3000:2 message.max.bytes=2000:3 message.max.bytes=1000:4 message.max.bytes=1048588:5",
		"num.partitions=1 source=5 num.partitions=1:5",
		"log.dirs=/d source=4 log.dirs=/d:4",
		"log.retention.ms null source=5",
		"ssl.key.password null source=4 ssl.key.password=:4",
	} {
		name, _, _ := strings.Cut(strings.Replace(want, " ", "=", 1), "=")
		if got := describe(find(t, broker, name)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	topic := b.DescribeTopic(d, map[string]string{"segment.bytes": "2000000"})
	for _, want := range []string{
		"max.message.bytes=3000 source=2 message.max.bytes=3000:2 message.max.bytes=2000:3 message.max.bytes=1000:4 message.max.bytes=1048588:5",
		"segment.bytes=2000000 source=1 segment.bytes=2000000:1 log.segment.bytes=1073741824:5",
		"min.insync.replicas=2 source=3 min.insync.replicas=2:3 min.insync.replicas=1:5",
		"remote.storage.enable=false source=5",
	} {
		name, _, _ := strings.Cut(want, "=")
		if got := describe(find(t, topic, name)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if got := DescribeCluster(d); len(got) != 2 || describe(got[0]) != "message.max.bytes=2000 source=3 message.max.bytes=2000:3" {
		t.Errorf("cluster: %v", got)
	}
	if !find(t, broker, "num.partitions").ReadOnly || find(t, broker, "message.max.bytes").ReadOnly {
		t.Error("read-only is wrong")
	}
}

func TestValidateDynamic(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{ValidateTopic("retention.ms", "1"), ""},
		{ValidateTopic("retention.ms", "-2"), "retention.ms: bad value"},
		{ValidateTopic("no.such", "1"), "unknown setting"},
		{ValidateTopic("leader.replication.throttled.replicas", "1:2,3:4"), ""},
		{ValidateTopic("leader.replication.throttled.replicas", "*"), ""},
		{ValidateTopic("leader.replication.throttled.replicas", "1-2"), "partition:broker"},
		{ValidateBroker("log.retention.ms", "1000", false), ""},
		{ValidateBroker("log.retention.ms", "0", false), "-1 or a number"},
		{ValidateBroker("num.partitions", "3", true), "cannot be altered while the broker runs"},
		{ValidateBroker("cordoned.log.dirs", "*", false), "for one broker only"},
		{ValidateBroker("cordoned.log.dirs", "*", true), ""},
		{ValidateBroker("min.insync.replicas", "2", true), "not for one broker"},
		{ValidateBroker("min.insync.replicas", "2", false), ""},
		{ValidateBroker("no.such", "1", true), "unknown setting"},
		{Defaults().ValidateTopicSet(nil, map[string]string{"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}), "at most max.compaction.lag.ms"},
		{Defaults().ValidateTopicSet(nil, map[string]string{"a": "9"}), "unknown setting"},
	} {
		if (c.err == nil) != (c.want == "") || (c.err != nil && !strings.Contains(c.err.Error(), c.want)) {
			t.Errorf("got %v, want %q", c.err, c.want)
		}
	}
}

func TestAlter(t *testing.T) {
	current := map[string]string{"cleanup.policy": "compact", "gone.key": "1"}
	for _, c := range []struct {
		ops  []Op
		want string // the new set, or the error after "!"
	}{
		{[]Op{{Key: "retention.ms", Value: "5"}}, "map[cleanup.policy:compact gone.key:1 retention.ms:5]"},
		{[]Op{{Key: "cleanup.policy", Kind: Delete}}, "map[gone.key:1]"},
		{[]Op{{Key: "gone.key", Kind: Delete}}, "map[cleanup.policy:compact]"},
		{[]Op{{Key: "retention.ms", Kind: Delete}}, "map[cleanup.policy:compact gone.key:1]"},
		{[]Op{{Key: "cleanup.policy", Kind: Append, Value: "delete"}}, "map[cleanup.policy:compact,delete gone.key:1]"},
		{[]Op{{Key: "cleanup.policy", Kind: Append, Value: "compact"}}, "map[cleanup.policy:compact gone.key:1]"},
		{[]Op{{Key: "cleanup.policy", Kind: Subtract, Value: "delete,compact"}}, "map[cleanup.policy: gone.key:1]"},
		{[]Op{{Key: "retention.ms", Kind: Append, Value: "5"}}, "!is no list"},
		{[]Op{{Key: "retention.ms", Value: "x"}}, "!bad value"},
		{[]Op{{Key: "retention.ms", Null: true}}, "!no value"},
		{[]Op{{Key: "retention.ms", Kind: 9}}, "!unknown operation"},
		{[]Op{{Key: "retention.ms", Value: "5"}, {Key: "retention.ms", Kind: Delete}}, "!altered twice"},
		{[]Op{{Key: "unknown", Value: "5"}}, "!unknown setting"},
		{[]Op{{Key: "unknown", Kind: Delete}}, "!unknown setting"},
	} {
		kept := maps.Clone(current)
		next, err := AlterTopic(current, c.ops)
		got := fmt.Sprint(next)
		if err != nil {
			got = "!" + err.Error()
		}
		if ok := got == c.want || (c.want[0] == '!' && strings.HasPrefix(got, "!") && strings.Contains(got, c.want[1:])); !ok {
			t.Errorf("%v: got %s, want %s", c.ops, got, c.want)
		}
		if !maps.Equal(current, kept) {
			t.Fatalf("%v changed the current set", c.ops)
		}
	}
	if _, err := AlterBroker(nil, []Op{{Key: "node.id", Value: "2"}}, true); !errors.As(err, new(*NotDynamic)) {
		t.Errorf("got %v", err)
	}
	set, err := AlterBroker(nil, []Op{{Key: "log.cleanup.policy", Kind: Append, Value: "compact"}}, false)
	if err != nil || set["log.cleanup.policy"] != "delete,compact" {
		t.Errorf("append to the default: %v (%v)", set, err)
	}
}
