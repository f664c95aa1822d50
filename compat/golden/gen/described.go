package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/compat/golden"
	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/compat/proc"
)

// layered sets something in every layer, some settings in several.
func layered() golden.Described {
	return golden.Described{
		Static: map[string]string{
			"log.retention.hours": "2", "log.roll.hours": "3", "log.roll.jitter.ms": "5", "message.max.bytes": "1000000",
			"num.partitions": "3", "log.cleanup.policy": "compact,delete", "log.flush.scheduler.interval.ms": "7000",
			"ssl.keystore.type": "JKS", "broker.rack": "r1", "log.index.interval.bytes": "5000",
		},
		Cluster: map[string]string{
			"message.max.bytes": "2000000", "log.retention.bytes": "5000000", "log.segment.bytes": "3000000", "log.roll.ms": "900000",
			"log.cleaner.threads": "2",
		},
		BrokerSet: map[string]string{"message.max.bytes": "3000000", "log.flush.interval.ms": "8000", "log.index.interval.bytes": "6000"},
		TopicSet:  map[string]string{"cleanup.policy": "compact", "segment.bytes": "4000000", "flush.messages": "1", "internal.segment.bytes": "5000"},
	}
}

// described sets Kafka up by every layer and writes down what it answers.
func described(ctx context.Context, jars kafka.Jars, out string) error {
	dir, err := os.MkdirTemp("", "golden")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	port, err := proc.FreePorts(2)
	if err != nil {
		return err
	}
	d := layered()
	b, err := jars.Start(ctx, kafka.Options{Dir: filepath.Join(dir, "kafka"), Port: port, Set: d.Static})
	if err != nil {
		return err
	}
	defer b.Kill()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := createTopic(ctx, cl, "described", 1, d.TopicSet); err != nil {
		return err
	}
	if err := alter(ctx, cl, "", d.Cluster); err != nil {
		return err
	}
	if err := alter(ctx, cl, "1", d.BrokerSet); err != nil {
		return err
	}
	// The broker applies the change a moment after the controller's answer.
	err = b.Until(10*time.Second, func() bool {
		all, err := describe(ctx, cl, kmsg.ConfigResourceTypeBroker, "1")
		v := all["log.index.interval.bytes"].Value
		return err == nil && v != nil && *v == "6000"
	})
	if err != nil {
		return err
	}
	for _, r := range []struct {
		kind kmsg.ConfigResourceType
		name string
		to   *[]golden.DescribedConfig
	}{
		{kmsg.ConfigResourceTypeBroker, "1", &d.OfBroker},
		{kmsg.ConfigResourceTypeBroker, "", &d.OfCluster},
		{kmsg.ConfigResourceTypeTopic, "described", &d.OfTopic},
	} {
		all, err := describe(ctx, cl, r.kind, r.name)
		if err != nil {
			return err
		}
		*r.to = answers(all)
	}
	if err := writeList(out, "described.json", []golden.Described{d}); err != nil {
		return err
	}
	return steady(filepath.Join(out, "described.json"), dir, port)
}

// steady replaces what differs from run to run: the directory and the ports.
func steady(name, dir string, port int) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	text := strings.NewReplacer(dir, "/golden", fmt.Sprint(":", port), ":9092", fmt.Sprint(":", port+1), ":9093").Replace(string(data))
	return os.WriteFile(name, []byte(text), 0o644)
}

func alter(ctx context.Context, cl *kgo.Client, broker string, set map[string]string) error {
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeBroker, broker
	for k, v := range set {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = k, &v
		res.Configs = append(res.Configs, c)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, res)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return fmt.Errorf("alter broker %q: %w", broker, err)
		}
	}
	return nil
}

func answers(all map[string]kmsg.DescribeConfigsResponseResourceConfig) []golden.DescribedConfig {
	var list []golden.DescribedConfig
	for _, c := range all {
		d := golden.DescribedConfig{
			Name: c.Name, Value: c.Value, Source: int8(c.Source), Type: int8(c.ConfigType), ReadOnly: c.ReadOnly, Sensitive: c.IsSensitive,
		}
		for _, s := range c.ConfigSynonyms {
			d.Synonyms = append(d.Synonyms, golden.DescribedSynonym{Name: s.Name, Value: s.Value, Source: int8(s.Source)})
		}
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b golden.DescribedConfig) int { return strings.Compare(a.Name, b.Name) })
	return list
}
