package golden_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/compat/golden"
	"github.com/tidemark/tidemark/internal/config"
)

// differs are the settings that we describe otherwise than Kafka, with reasons.
var differs = map[string]string{
	"socket.receive.buffer.bytes":              "the kernel sizes it: a fixed one doubles the cost of large produce requests",
	"node.id":                                  "a default of our own",
	"process.roles":                            "a default of our own",
	"listeners":                                "a default of our own; not altered while the broker runs",
	"log.dir":                                  "a default of our own",
	"log.dirs":                                 "the temporary directory of the run",
	"controller.listener.names":                "a default of our own",
	"controller.quorum.election.timeout.ms":    "a default of our own",
	"controller.quorum.bootstrap.servers":      "the ports of the run",
	"listener.security.protocol.map":           "not altered while the broker runs",
	"broker.id":                                "Kafka copies node.id into it",
	"log.flush.scheduler.interval.ms":          "Kafka shows the default as the value of what it knows to be set",
	"log.roll.hours":                           "Kafka shows the default as the value of what it knows to be set",
	"min.insync.replicas":                      "Kafka writes a cluster-wide value of 1 when it formats storage with ELR",
	"group.initial.rebalance.delay.ms":         "set by the run itself",
	"offsets.topic.replication.factor":         "set by the run itself",
	"transaction.state.log.min.isr":            "set by the run itself",
	"transaction.state.log.replication.factor": "set by the run itself",
}

func text(name string, value *string, source, kind int8, readOnly, sensitive bool, synonyms []string) string {
	return fmt.Sprintf("%s=%s source=%d type=%d readOnly=%v sensitive=%v %v", name, orNone(value), source, kind, readOnly, sensitive, synonyms)
}

func ours(all []config.Entry) map[string]string {
	m := map[string]string{}
	for _, e := range all {
		var synonyms []string
		for _, s := range e.Synonyms {
			synonyms = append(synonyms, fmt.Sprintf("%s=%s:%d", s.Name, orNone(pointer(s.Value, s.Null)), s.Source))
		}
		m[e.Name] = text(e.Name, pointer(e.Value, e.Null), int8(e.Source), int8(e.Type), e.ReadOnly, e.Sensitive, synonyms)
	}
	return m
}

func pointer(s string, null bool) *string {
	if null {
		return nil
	}
	return &s
}

func kafkas(all []golden.DescribedConfig) map[string]string {
	m := map[string]string{}
	for _, e := range all {
		var synonyms []string
		for _, s := range e.Synonyms {
			synonyms = append(synonyms, fmt.Sprintf("%s=%s:%d", s.Name, orNone(s.Value), s.Source))
		}
		m[e.Name] = text(e.Name, e.Value, e.Source, e.Type, e.ReadOnly, e.Sensitive, synonyms)
	}
	return m
}

// With the same settings in the same layers, we describe what Kafka describes:
// value, source, type, flags and synonyms in their order.
func TestDescribedAsKafkaDoes(t *testing.T) {
	d := golden.DescribeConfigs()
	if len(d.OfBroker) == 0 {
		t.Fatal("nothing to compare with")
	}
	var flags []string
	for k, v := range d.Static {
		flags = append(flags, k+"="+v)
	}
	slices.Sort(flags)
	b, _, _, err := config.Load(config.Sources{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	dyn := config.Dynamic{Broker: d.BrokerSet, Cluster: d.Cluster}
	used := map[string]bool{}
	compare(t, "broker", ours(b.DescribeBroker(dyn)), kafkas(d.OfBroker), used)
	compare(t, "cluster", ours(config.DescribeCluster(dyn)), kafkas(d.OfCluster), used)
	compare(t, "topic", ours(b.DescribeTopic(dyn, d.TopicSet)), kafkas(d.OfTopic), used)
	for name := range differs {
		if !used[name] {
			t.Errorf("exception %q allows nothing: remove it", name)
		}
	}
}

func compare(t *testing.T, what string, ours, kafka map[string]string, used map[string]bool) {
	t.Helper()
	for name, want := range kafka {
		if got := ours[name]; got != want {
			if _, ok := differs[name]; ok {
				used[name] = true
				continue
			}
			t.Errorf("%s\n ours    %s\n Kafka's %s", what, got, want)
		}
	}
	for name, got := range ours {
		if _, ok := kafka[name]; !ok && !strings.HasPrefix(name, "tidemark.") && name != "cluster.id" {
			t.Errorf("%s: Kafka does not describe %s", what, got)
		}
	}
}
