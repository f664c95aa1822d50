package main

import (
	"context"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/compat/golden"
	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/compat/proc"
)

// lists asks a fresh Kafka with default settings for everything it lists.
func lists(ctx context.Context, jars kafka.Jars, out string) error {
	dir, err := os.MkdirTemp("", "golden")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	port, err := proc.FreePorts(2)
	if err != nil {
		return err
	}
	b, err := jars.Start(ctx, kafka.Options{Dir: filepath.Join(dir, "kafka"), Port: port})
	if err != nil {
		return err
	}
	defer b.Kill()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	steps := []func() error{
		func() error { return apis(ctx, jars, b.Addr, out) },
		func() error { return features(ctx, cl, out) },
		func() error { return brokerConfigs(ctx, jars, cl, out) },
		func() error { return topicConfigs(ctx, jars, cl, out) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return b.Stop(30 * time.Second)
}

var apiLine = regexp.MustCompile(`^\s+(\w+)\((\d+)\): (?:(\d+) to )?(\d+)`)

func apis(ctx context.Context, jars kafka.Jars, addr, out string) error {
	r, err := jars.Run(ctx, nil, kafka.BrokerAPIVersions, "--bootstrap-server", addr)
	if err != nil {
		return err
	}
	var list []golden.API
	for _, line := range strings.Split(r.Stdout, "\n") {
		m := apiLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if m[3] == "" {
			m[3] = m[4]
		}
		list = append(list, golden.API{Name: m[1], Key: number(m[2]), Min: number(m[3]), Max: number(m[4])})
	}
	if len(list) < 60 {
		return fmt.Errorf("only %d APIs listed:\n%s", len(list), r.All())
	}
	slices.SortFunc(list, func(a, b golden.API) int { return int(a.Key) - int(b.Key) })
	return writeList(out, "apis.json", list)
}

func number(s string) int16 {
	n, _ := strconv.ParseInt(s, 10, 16)
	return int16(n)
}

func features(ctx context.Context, cl *kgo.Client, out string) error {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "golden", "1"
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	var list []golden.Feature
	for _, s := range resp.SupportedFeatures {
		f := golden.Feature{Name: s.Name, Min: s.MinVersion, Max: s.MaxVersion}
		for _, done := range resp.FinalizedFeatures {
			if done.Name == s.Name {
				f.Finalized = done.MaxVersionLevel
			}
		}
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b golden.Feature) int { return strings.Compare(a.Name, b.Name) })
	return writeList(out, "features.json", list)
}

// setting is what Kafka's own table of settings says, without its prose.
type setting struct{ kind, fallback, valid, update, server string }

var (
	tableEntry = regexp.MustCompile(`(?s)<h4><a id="([^"]+)".*?<table><tbody>(.*?)</tbody>`)
	tableRow   = regexp.MustCompile(`(?s)<tr><th>(.*?):</th><td>(.*?)</td></tr>`)
	tag        = regexp.MustCompile(`<[^>]*>`)
	readable   = regexp.MustCompile(` \(\d.*\)$`)
)

func table(ctx context.Context, jars kafka.Jars, t kafka.Tool) (map[string]setting, error) {
	r, err := jars.Run(ctx, nil, t)
	if err != nil {
		return nil, err
	}
	all := map[string]setting{}
	for _, m := range tableEntry.FindAllStringSubmatch(r.Stdout, -1) {
		cells := map[string]string{}
		for _, row := range tableRow.FindAllStringSubmatch(m[2], -1) {
			cells[row[1]] = strings.Join(strings.Fields(html.UnescapeString(tag.ReplaceAllString(row[2], ""))), " ")
		}
		s := setting{
			kind: strings.ToUpper(cells["Type"]), fallback: readable.ReplaceAllString(cells["Default"], ""),
			valid: cells["Valid Values"], update: cells["Update Mode"], server: cells["Server Default Property"],
		}
		if s.server == "null" {
			s.server = ""
		}
		all[m[1]] = s
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no table:\n%s", t, proc.Tail(r.All(), 20))
	}
	return all, nil
}

func describe(ctx context.Context, cl *kgo.Client, kind kmsg.ConfigResourceType, name string) (map[string]kmsg.DescribeConfigsResponseResourceConfig, error) {
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName = kind, name
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources, req.IncludeSynonyms = append(req.Resources, res), true
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	all := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, r := range resp.Resources {
		for _, c := range r.Configs {
			all[c.Name] = c
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("describe %v %q: nothing came back", kind, name)
	}
	return all, nil
}

// merge joins the printed table with what DescribeConfigs says.
func merge(tables map[string]setting, described map[string]kmsg.DescribeConfigsResponseResourceConfig) []golden.Config {
	var list []golden.Config
	for name, s := range tables {
		c := golden.Config{Name: name, Type: s.kind, Valid: s.valid, Update: s.update, ServerDefault: s.server}
		d, ok := described[name]
		if ok {
			c.Type, c.ReadOnly, c.Sensitive, c.Described = d.ConfigType.String(), d.ReadOnly, d.IsSensitive, true
			c.Default = defaultOf(d)
		} else if s.fallback != "null" {
			c.Default = &s.fallback
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b golden.Config) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// defaultOf finds the built-in default: the value itself when nothing set it,
// else the last synonym when that is a default.
func defaultOf(d kmsg.DescribeConfigsResponseResourceConfig) *string {
	if d.Source == kmsg.ConfigSourceDefaultConfig {
		return d.Value
	}
	for _, s := range d.ConfigSynonyms {
		if s.Source == kmsg.ConfigSourceDefaultConfig {
			return s.Value
		}
	}
	return nil
}

func brokerConfigs(ctx context.Context, jars kafka.Jars, cl *kgo.Client, out string) error {
	tables, err := table(ctx, jars, kafka.BrokerSettings)
	if err != nil {
		return err
	}
	described, err := describe(ctx, cl, kmsg.ConfigResourceTypeBroker, "1")
	if err != nil {
		return err
	}
	return writeList(out, "broker_configs.json", merge(tables, described))
}

func topicConfigs(ctx context.Context, jars kafka.Jars, cl *kgo.Client, out string) error {
	tables, err := table(ctx, jars, kafka.TopicSettings)
	if err != nil {
		return err
	}
	if err := createTopic(ctx, cl, "golden", 1, nil); err != nil {
		return err
	}
	described, err := describe(ctx, cl, kmsg.ConfigResourceTypeTopic, "golden")
	if err != nil {
		return err
	}
	return writeList(out, "topic_configs.json", merge(tables, described))
}
