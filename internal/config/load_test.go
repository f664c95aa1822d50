package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func load(t *testing.T, src Sources) (*Broker, []Effective, Warnings) {
	t.Helper()
	b, eff, warn, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	return b, eff, warn
}

func loadFlags(t *testing.T, flags ...string) *Broker {
	t.Helper()
	b, _, _ := load(t, Sources{Flags: flags})
	return b
}

func TestPrecedence(t *testing.T) {
	for _, c := range []struct {
		name   string
		src    Sources
		want   int32
		origin Origin
	}{
		{"default", Sources{}, 1, FromDefault},
		{"file", Sources{File: "num.partitions=2"}, 2, FromFile},
		{"environment over file", Sources{File: "num.partitions=2", Env: []string{"KAFKA_NUM_PARTITIONS=3"}}, 3, FromEnvironment},
		{"flag over all", Sources{File: "num.partitions=2", Env: []string{"KAFKA_NUM_PARTITIONS=3"}, Flags: []string{"num.partitions=4"}}, 4, FromFlag},
		{"last flag", Sources{Flags: []string{"num.partitions=4", "num.partitions=5"}}, 5, FromFlag},
		{"last line of a file", Sources{File: "num.partitions=2\nnum.partitions=6"}, 6, FromFile},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, eff, _ := load(t, c.src)
			if b.Topics.NumPartitions != c.want {
				t.Errorf("got %d, want %d", b.Topics.NumPartitions, c.want)
			}
			i := slices.IndexFunc(eff, func(e Effective) bool { return e.Name == "num.partitions" })
			if i < 0 || eff[i].Origin != c.origin {
				t.Errorf("effective entry %v, want origin %s", eff[max(i, 0)], c.origin)
			}
		})
	}
}

func TestEnvironmentNames(t *testing.T) {
	for name, want := range map[string]string{
		"KAFKA_NODE_ID":                        "node.id",
		"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "listener.security.protocol.map",
		"KAFKA_A__B":                           "a_b",
		"KAFKA_A___B":                          "a-b",
		"KAFKA_A____B":                         "a-.b",
		"CLUSTER_ID":                           "cluster.id",
		"TIDEMARK_KEPT_DIR":                    "tidemark.kept.dir",
		"KAFKA_HEAP_OPTS":                      "",
		"KAFKA_JMX_PORT":                       "",
		"KAFKA_":                               "",
		"TIDEMARK_TEST_ROOT":                   "",
		"PATH":                                 "",
	} {
		if got, ok := environKey(name); got != want || ok != (want != "") {
			t.Errorf("%s: got %q (%v), want %q", name, got, ok, want)
		}
	}
}

// A compose file for Kafka's official image, word for word, must start a node.
func TestComposeFileForKafka(t *testing.T) {
	b, _, warn := load(t, Sources{Env: []string{
		"KAFKA_NODE_ID=7", "KAFKA_PROCESS_ROLES=broker,controller", "CLUSTER_ID=VGlkZW1hcmtDb21wYXRUZQ",
		"KAFKA_LISTENERS=PLAINTEXT://:19092,CONTROLLER://:19093,HOST://0.0.0.0:9092",
		"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://broker:19092,HOST://localhost:9092",
		"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,HOST:PLAINTEXT",
		"KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER", "KAFKA_CONTROLLER_QUORUM_VOTERS=7@broker:19093",
		"KAFKA_INTER_BROKER_LISTENER_NAME=PLAINTEXT",
		"KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=1", "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0",
		"KAFKA_LOG_DIRS=/tmp/kraft-combined-logs", "KAFKA_HEAP_OPTS=-Xmx1G",
	}})
	if b.NodeID != 7 || b.ClusterID != "VGlkZW1hcmtDb21wYXRUZQ" || b.InterBrokerListener != "PLAINTEXT" {
		t.Errorf("node %d, cluster %q, inter broker %q", b.NodeID, b.ClusterID, b.InterBrokerListener)
	}
	if got := listenersText(b.Advertised); got != "PLAINTEXT://broker:19092 HOST://localhost:9092" {
		t.Errorf("advertised %s", got)
	}
	if len(warn.Unknown) != 0 || len(warn.Notes) != 0 {
		t.Errorf("unknown %v, notes %v", warn.Unknown, warn.Notes)
	}
	if b.KeptDir != "/tmp/kraft-combined-logs/.kept" || b.MetadataDir != "/tmp/kraft-combined-logs" {
		t.Errorf("kept %s, metadata %s", b.KeptDir, b.MetadataDir)
	}
}

func listenersText(all []Listener) string {
	var s []string
	for _, l := range all {
		s = append(s, l.String())
	}
	return strings.Join(s, " ")
}

func TestWarnings(t *testing.T) {
	_, eff, warn := load(t, Sources{File: "num.io.threads=4\nlisten.address=x\nlistener.name.internal.ssl.keystore.type=PEM\nssl.key.password=secret\n"})
	var ignored []string
	for _, i := range warn.Ignored {
		if i.Reason == "" || i.Origin != FromFile {
			t.Errorf("%v: no reason or wrong origin", i)
		}
		ignored = append(ignored, i.Key)
	}
	if got := strings.Join(ignored, " "); got != "listener.name.internal.ssl.keystore.type num.io.threads ssl.key.password" {
		t.Errorf("ignored %s", got)
	}
	if len(warn.Unknown) != 1 || warn.Unknown[0].Key != "listen.address" {
		t.Errorf("unknown %v", warn.Unknown)
	}
	for _, e := range eff {
		if strings.Contains(e.Value, "secret") {
			t.Errorf("%s shows a password", e.Name)
		}
	}
}

func TestBadValues(t *testing.T) {
	for _, c := range []struct{ flags, key, want string }{
		{"num.partitions=0", "num.partitions", "a 32 bit number ≥ 1"},
		{"num.partitions=many", "num.partitions", "a 32 bit number ≥ 1"},
		{"log.segment.bytes=1048575", "log.segment.bytes", "a 32 bit number ≥ 1048576"},
		// Kafka takes any size here and then fails to make the topic, which has its own least.
		{"offsets.topic.segment.bytes=1048575", "offsets.topic.segment.bytes", "a 32 bit number ≥ 1048576"},
		{"message.max.bytes=3000000000", "message.max.bytes", "a 32 bit number ≥ 0"},
		{"auto.create.topics.enable=yes", "auto.create.topics.enable", "true or false"},
		{"compression.type=brotli", "compression.type", "one of uncompressed, zstd, lz4, snappy, gzip, producer"},
		{"compression.gzip.level=0", "compression.gzip.level", "a 32 bit number from 1 to 9 or -1"},
		{"log.cleanup.policy=delete,delete", "log.cleanup.policy", "a comma separated list of compact, delete"},
		{"log.cleaner.min.cleanable.ratio=1.5", "log.cleaner.min.cleanable.ratio", "a number from 0 to 1"},
		{"log.retention.hours=0", "log.retention.hours", "-1 or a number ≥ 1"},
		{"process.roles=", "process.roles", "broker, controller"},
		{"process.roles=broker,king", "process.roles", "broker, controller"},
		{"num.io.threads=0", "num.io.threads", "a 32 bit number ≥ 1"},
		{"broker.id=3 node.id=4", "broker.id", "node.id (4)"},
		{"log.dirs=/a,/b,/a", "log.dirs", "distinct"},
		{"log.dirs=,", "log.dirs", "distinct"},
		{"listeners=PLAINTEXT:/x", "listeners", "NAME://host:port"},
		{"listeners=PLAINTEXT://a:1,PLAINTEXT://b:2", "listeners", "each name once"},
		{"listeners=A://:1,B://x:1", "listeners", "A and B share 1"},
		{"listeners=SSL://:9093", "listeners", "PLAINTEXT, the only one"},
		{"listeners=HOME://:9093", "listener.security.protocol.map", "a protocol for listener HOME"},
		{"listener.security.protocol.map=A:B", "listener.security.protocol.map", "NAME:PROTOCOL"},
		{"listeners=CONTROLLER://:9 controller.listener.names=CONTROLLER", "listeners", "not the controller's"},
		{"controller.listener.names=CONTROLLER", "controller.listener.names", "CONTROLLER is not one"},
		{"advertised.listeners=OTHER://h:1", "advertised.listeners", "OTHER is not one"},
		{"advertised.listeners=PLAINTEXT://0.0.0.0:1", "advertised.listeners", "clients can reach"},
		{"inter.broker.listener.name=NO", "inter.broker.listener.name", "advertised listener"},
		{"inter.broker.listener.name=PLAINTEXT security.inter.broker.protocol=PLAINTEXT", "security.inter.broker.protocol", "together"},
		{"security.inter.broker.protocol=SSL", "security.inter.broker.protocol", "advertised listener"},
		{"controller.quorum.voters=1@h", "controller.quorum.voters", "id@host:port"},
		{"controller.quorum.voters=2@h:1", "controller.quorum.voters", "this node (1)"},
		{"controller.quorum.voters=1@h:1,2@h:2", "controller.listener.names", "other voters"},
		{"process.roles=broker", "controller.quorum.bootstrap.servers", "for a node that is none"},
		{"process.roles=broker controller.quorum.voters=1@h:1", "controller.quorum.voters", "without this node"},
		{"controller.quorum.bootstrap.servers=h", "controller.quorum.bootstrap.servers", "host:port"},
		{"replica.fetch.wait.max.ms=40000", "replica.fetch.wait.max.ms", "at most replica.lag.time.max.ms (30000)"},
		{"replica.socket.timeout.ms=100", "replica.socket.timeout.ms", "at least replica.fetch.wait.max.ms (500)"},
		{"broker.session.timeout.ms=3000", "broker.session.timeout.ms", "at least twice"},
		{"group.consumer.session.timeout.ms=44999", "group.consumer.session.timeout.ms", "between group.consumer.min.session.timeout.ms (45000)"},
		{"group.consumer.heartbeat.interval.ms=15001", "group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms (15000)"},
		{"controller.quorum.election.timeout.ms=200", "controller.quorum.election.timeout.ms", "three times"},
		{"max.connections.per.ip.overrides=h", "max.connections.per.ip.overrides", "host:count"},
		{"log.cleaner.min.compaction.lag.ms=5 log.cleaner.max.compaction.lag.ms=4", "min.compaction.lag.ms", "at most max.compaction.lag.ms (4)"},
		{"tidemark.http.listen=9644", "tidemark.http.listen", "host:port"},
		{"tidemark.log.level=loud", "tidemark.log.level", "debug, info, warn, error"},
		{"nothing", "--set", "key=value"},
	} {
		_, _, _, err := Load(Sources{Flags: strings.Split(c.flags, " ")})
		var bad *BadValue
		if !errors.As(err, &bad) || bad.Key != c.key || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want a *BadValue of %s with %q", c.flags, err, c.key, c.want)
		}
	}
	_, _, _, err := Load(Sources{Env: []string{"KAFKA_NUM_PARTITIONS=x"}})
	if want := `num.partitions: bad value "x" (from environment): want a 32 bit number ≥ 1`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestDirectories(t *testing.T) {
	for _, c := range []struct{ flags, logs, metadata, kept string }{
		{"", "./tidemark-data/log", "./tidemark-data/log", "./tidemark-data/kept"},
		{"tidemark.data.dir=/d", "/d/log", "/d/log", "/d/kept"},
		{"log.dirs=/a,/b", "/a /b", "/a", "/a/.kept"},
		{"log.dir=/c", "/c", "/c", "/c/.kept"},
		{"log.dir=/c log.dirs=/a", "/a", "/a", "/a/.kept"},
		{"log.dirs=/a metadata.log.dir=/m tidemark.kept.dir=/k", "/a", "/m", "/k"},
	} {
		b := loadFlags(t, strings.Fields(c.flags)...)
		if got := strings.Join(b.LogDirs, " "); got != c.logs || b.MetadataDir != c.metadata || b.KeptDir != c.kept {
			t.Errorf("%q: logs %s, metadata %s, kept %s", c.flags, got, b.MetadataDir, b.KeptDir)
		}
	}
}

func TestNodeID(t *testing.T) {
	if id := loadFlags(t, "broker.id=5").NodeID; id != 5 {
		t.Errorf("broker.id alone gives node %d", id)
	}
	if id := loadFlags(t, "broker.id=5", "node.id=5").NodeID; id != 5 {
		t.Errorf("both give node %d", id)
	}
}

func TestDurationsTakeTheirUnitFromTheName(t *testing.T) {
	b := loadFlags(t, "leader.imbalance.check.interval.seconds=7", "replica.lag.time.max.ms=9000", "log.flush.scheduler.interval.ms=9223372036854775807")
	if b.Quorum.LeaderRebalanceInterval != 7*time.Second || b.Replication.LagMax != 9*time.Second {
		t.Errorf("%v %v", b.Quorum.LeaderRebalanceInterval, b.Replication.LagMax)
	}
	if b.Storage.FlushCheckInterval != 1<<63-1 {
		t.Errorf("for ever became %v", b.Storage.FlushCheckInterval)
	}
}

// Every key with a meaning must change what the program reads: a row without a
// field would be accepted and do nothing.
func TestEveryKeyReachesAField(t *testing.T) {
	before := Defaults()
	beforeTopic, err := before.Topic(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	extra := map[string]string{
		"process.roles": "controller", "listeners": "PLAINTEXT://h:7", "advertised.listeners": "PLAINTEXT://h:8",
		"listener.security.protocol.map": "", "inter.broker.listener.name": "", "security.inter.broker.protocol": "",
		"controller.listener.names": "", "controller.quorum.voters": "1@h:7", "controller.quorum.bootstrap.servers": "h:7",
		"max.connections.per.ip.overrides": "h:5", "tidemark.http.listen": "h:7", "broker.id": "9",
		"log.roll.hours": "5", "log.retention.hours": "5", "log.roll.jitter.hours": "5", "log.flush.scheduler.interval.ms": "5",
		"num.recovery.threads.per.data.dir": "3", "replica.lag.time.max.ms": "9000", "replica.socket.timeout.ms": "900",
		"broker.session.timeout.ms": "9001", "controller.quorum.election.timeout.ms": "501",
		"group.consumer.session.timeout.ms": "45001", "group.consumer.max.session.timeout.ms": "45001", "group.consumer.min.session.timeout.ms": "44999",
		"group.consumer.heartbeat.interval.ms": "5001", "group.consumer.max.heartbeat.interval.ms": "5001", "group.consumer.min.heartbeat.interval.ms": "4999",
	}
	for _, k := range BrokerKeys() {
		if k.Ignored != "" {
			continue
		}
		value, given := extra[k.Name]
		if given && value == "" {
			continue // read together with listeners; TestListeners sees to it
		}
		if !given {
			value = other(&k)
		}
		after, _, _, err := Load(Sources{Flags: []string{k.Name + "=" + value}})
		if err != nil {
			t.Errorf("%s=%s: %v", k.Name, value, err)
			continue
		}
		afterTopic, err := after.Topic(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		after.set = before.set
		if reflect.DeepEqual(before, after) && beforeTopic == afterTopic {
			t.Errorf("%s=%s changes nothing", k.Name, value)
		}
	}
}

// other makes a good value that differs from the default.
func other(k *Key) string {
	switch {
	case len(k.Want.OneOf) > 0 && k.Default != k.Want.OneOf[0]:
		return k.Want.OneOf[0]
	case len(k.Want.OneOf) > 0:
		return k.Want.OneOf[1]
	case k.Type == Bool && k.Default == "true":
		return "false"
	case k.Type == Bool:
		return "true"
	case k.Type == String || k.Type == List:
		return "/other"
	case k.Type == Double:
		return "0.25"
	case k.Want.Ranged && k.Want.Min > 2:
		return formatInt(int64(k.Want.Min) + 1)
	}
	return "2"
}

func TestKeysAreWellFormed(t *testing.T) {
	for _, table := range [][]Key{BrokerKeys(), TopicKeys()} {
		for i, k := range table {
			if i > 0 && table[i-1].Name == k.Name {
				t.Errorf("%s: twice in the table", k.Name)
			}
			if !k.Null {
				if err := k.Check(k.Default); err != nil {
					t.Errorf("%s: default: %v", k.Name, err)
				}
			}
			if k.Help() == "" || !strings.HasSuffix(k.Help(), ".") {
				t.Errorf("%s: no documentation", k.Name)
			}
			if (k.Ignored == "") != (k.broker != nil || k.topic != nil) {
				t.Errorf("%s: has a field and is ignored, or neither", k.Name)
			}
			for _, s := range k.Synonyms {
				if b := LookupBroker(s.Name); b == nil {
					t.Errorf("%s: synonym %s does not exist", k.Name, s.Name)
				}
			}
			if k.Own() && k.Scope == ScopeBroker && k.Type == Long && !hasUnit(k.Name) {
				t.Errorf("%s: a size or time without its unit last", k.Name)
			}
		}
	}
}

func hasUnit(name string) bool {
	return strings.HasSuffix(name, ".ms") || strings.HasSuffix(name, ".bytes")
}
