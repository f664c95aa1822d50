package golden_test

import (
	"strings"
	"testing"

	"github.com/tidemark/tidemark/compat/golden"
	"github.com/tidemark/tidemark/internal/config"
)

// exceptions are the ways in which our settings differ from Kafka's on purpose:
// "name field" with the reason. One that no longer differs fails the test.
var exceptions = map[string]string{
	"controller.listener.names default":               "Kafka refuses to start without one; a node that is a cluster of its own needs none",
	"leader.replication.throttled.replicas valid":     "the same rule, which Kafka writes as an example",
	"follower.replication.throttled.replicas valid":   "the same rule, which Kafka writes as an example",
	"node.id default":                                 "a node that nothing configures must start",
	"listeners default":                               "the zero-configuration node is reached over both loopbacks and from nowhere else",
	"listeners update":                                "listeners are opened at start only",
	"listener.security.protocol.map update":           "listeners are opened at start only",
	"process.roles default":                           "a node that nothing configures is a whole cluster",
	"log.dir default":                                 "data lies under the current directory, not under /tmp, which a restart of the machine empties",
	"controller.quorum.election.timeout.ms default":   "a lost active controller is replaced within two seconds",
	"controller.quorum.election.timeout.ms valid":     "an election timeout below the disk's sync time elects for ever",
	"broker.id valid":                                 "negative ids other than -1 name nothing",
	"broker.heartbeat.interval.ms valid":              "an interval of nothing would never rest",
	"broker.session.timeout.ms valid":                 "a session of nothing would fence every broker",
	"initial.broker.registration.timeout.ms valid":    "a time-out of nothing would never register",
	"offsets.topic.segment.bytes valid":               "the bound of segment.bytes, which it stands for: below it Kafka never makes the topic",
	"offsets.topic.compression.codec valid":           "Kafka checks it when it reads the value: there are five codecs",
	"default.replication.factor valid":                "no topic has fewer than one replica",
	"log.retention.ms valid":                          "Kafka checks it outside its table: -1 or at least 1",
	"log.retention.minutes valid":                     "Kafka checks it outside its table: -1 or at least 1",
	"log.retention.hours valid":                       "Kafka checks it outside its table: -1 or at least 1",
	"log.roll.ms valid":                               "the bound of segment.ms, which it stands for",
	"log.roll.jitter.ms valid":                        "the bound of segment.jitter.ms, which it stands for",
	"log.flush.interval.ms valid":                     "the bound of flush.ms, which it stands for",
	"replica.fetch.min.bytes valid":                   "a negative size means nothing",
	"replica.fetch.wait.max.ms valid":                 "a negative time means nothing",
	"replica.lag.time.max.ms valid":                   "a lag of nothing would empty every ISR",
	"replica.socket.timeout.ms valid":                 "a negative time means nothing",
	"replica.socket.receive.buffer.bytes valid":       "Kafka checks it elsewhere: -1 or a size",
	"socket.send.buffer.bytes valid":                  "Kafka checks it elsewhere: -1 or a size",
	"socket.receive.buffer.bytes default":             "the kernel sizes it: a fixed one doubles the cost of large produce requests",
	"socket.receive.buffer.bytes valid":               "Kafka checks it elsewhere: -1 or a size",
	"request.timeout.ms valid":                        "a negative time means nothing",
	"max.connections.per.ip.overrides valid":          "Kafka checks it elsewhere: host:count pairs",
	"listeners valid":                                 "Kafka checks it elsewhere: at least one",
	"log.dir valid":                                   "Kafka checks it elsewhere: at least one",
	"controller.quorum.bootstrap.servers valid":       "empty is the default, in Kafka's table too",
	"controller.quorum.voters valid":                  "empty is the default, in Kafka's table too",
	"authorizer.class.name valid":                     "any text is non-null here",
	"remote.log.metadata.manager.class.name valid":    "ignored whatever it says",
	"remote.log.metadata.manager.impl.prefix valid":   "ignored whatever it says",
	"remote.log.metadata.manager.listener.name valid": "ignored whatever it says",
	"remote.log.storage.manager.class.name valid":     "ignored whatever it says",
	"remote.log.storage.manager.impl.prefix valid":    "ignored whatever it says",
}

type field struct{ name, ours, kafka string }

func orNone(s *string) string {
	if s == nil {
		return "<none>"
	}
	return *s
}

// diff lists the fields in which our key differs from Kafka's.
func diff(k *config.Key, g golden.Config) []field {
	ours := k.Default
	if k.Null {
		ours = "<none>"
	}
	fields := []field{
		{"type", k.Type.String(), g.Type},
		{"default", ours, orNone(g.Default)},
		{"sensitive", boolText(k.Sensitive), boolText(g.Sensitive)},
		{"described", boolText(!k.Internal), boolText(g.Described)},
		{"valid", valid(k), strings.TrimPrefix(g.Valid, "(case insensitive) ")},
	}
	if g.Update != "" {
		fields = append(fields, field{"update", k.Update.String(), g.Update})
	}
	if len(k.Synonyms) > 0 || g.ServerDefault != "" {
		first := ""
		if len(k.Synonyms) > 0 {
			first = k.Synonyms[0].Name
		}
		fields = append(fields, field{"server default", first, g.ServerDefault})
	}
	var differ []field
	for _, f := range fields {
		if f.ours != f.kafka {
			differ = append(differ, f)
		}
	}
	return differ
}

func boolText(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func check(t *testing.T, ours []config.Key, kafka []golden.Config, used map[string]bool) {
	t.Helper()
	byName := map[string]*config.Key{}
	for i := range ours {
		byName[ours[i].Name] = &ours[i]
	}
	for _, g := range kafka {
		k := byName[g.Name]
		delete(byName, g.Name)
		if k == nil {
			t.Errorf("%s: Kafka has it, we do not know it", g.Name)
			continue
		}
		for _, f := range diff(k, g) {
			id := g.Name + " " + f.name
			if _, ok := exceptions[id]; !ok {
				t.Errorf("%s: ours %q, Kafka's %q", id, f.ours, f.kafka)
			}
			used[id] = true
		}
	}
	for name, k := range byName {
		if !k.Own() && !k.Internal {
			t.Errorf("%s: we have it, Kafka does not", name)
		}
	}
}

func TestSettingsAreKafkas(t *testing.T) {
	used := map[string]bool{}
	check(t, config.BrokerKeys(), golden.BrokerConfigs(), used)
	check(t, config.TopicKeys(), golden.TopicConfigs(), used)
	for id := range exceptions {
		if !used[id] {
			t.Errorf("exception %q allows nothing: remove it", id)
		}
	}
}

// valid writes a key's bounds in Kafka's notation.
func valid(k *config.Key) string { return k.Want.Notation() }

// The defaults that Kafka 4.0 changed (KIP-1030) and that older pages get wrong.
func TestDefaultsOfKIP1030(t *testing.T) {
	for name, want := range map[string]string{
		"message.timestamp.after.max.ms":    "3600000",
		"num.recovery.threads.per.data.dir": "2",
	} {
		k := config.LookupTopic(name)
		if k == nil {
			k = config.LookupBroker(name)
		}
		if k == nil || k.Default != want {
			t.Errorf("%s: default is not %s", name, want)
		}
	}
	if err := config.ValidateTopic("segment.bytes", "1048575"); err == nil {
		t.Error("segment.bytes below 1 MiB was allowed")
	}
	if err := config.ValidateTopic("segment.bytes", "1048576"); err != nil {
		t.Error(err)
	}
}
