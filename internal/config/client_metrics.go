package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// ClientMetrics is the settings of one subscription to the metrics of clients.
// Source: KIP-714.
type ClientMetrics struct {
	// Metrics are prefixes of the names that are asked for; AllMetrics asks for all,
	// none for nothing.
	Metrics []string
	// Interval is how often clients are to push.
	Interval time.Duration
	// Match is the text of Rules.
	Match []string
	// Rules all have to hold for a client that is meant, one for each attribute at
	// most; without any all clients are meant.
	Rules []ClientRule
}

// AllMetrics stands for every metric among ClientMetrics.Metrics.
const AllMetrics = "*"

// ClientRule is what one attribute of a client must look like.
type ClientRule struct {
	Attribute ClientAttribute
	// Whole matches the attribute as a whole or not at all.
	Whole *regexp.Regexp
}

// ClientAttribute is something that is known of a client.
type ClientAttribute uint8

// The attributes that rules may name.
const (
	ClientInstanceID ClientAttribute = iota
	ClientID
	ClientSoftwareName
	ClientSoftwareVersion
	ClientSourceAddress
	ClientSourcePort

	ClientAttributes // how many there are
)

// String returns Kafka's name of the attribute.
func (a ClientAttribute) String() string {
	return [...]string{"client_instance_id", "client_id", "client_software_name", "client_software_version",
		"client_source_address", "client_source_port"}[a]
}

const (
	keyClientInterval = "interval.ms"
	keyClientMatch    = "match"

	clientIntervalMin, clientIntervalMax = 100, 3_600_000
)

// clientMetricsKeys are the settings of a subscription.
var clientMetricsKeys = []Key{
	{Name: keyClientInterval, Type: Int, Default: "300000", Scope: ScopeClientMetrics, client: func(c *ClientMetrics) any { return &c.Interval },
		Doc: "How often the clients meant are to push, from 100 to 3600000. Of several subscriptions that mean a client the most often one counts, and five minutes at the most."},
	{Name: keyClientMatch, Type: List, Default: "", Scope: ScopeClientMetrics, client: func(c *ClientMetrics) any { return &c.Match },
		Doc: "Which clients are meant: attribute=expression, comma separated, of which all must hold; the expressions (RE2) match an attribute as a whole. The attributes are client_instance_id, client_id, client_software_name, client_software_version, client_source_address and client_source_port. Empty means all clients."},
	{Name: "metrics", Type: List, Default: "", Scope: ScopeClientMetrics, client: func(c *ClientMetrics) any { return &c.Metrics },
		Doc: "Prefixes of the names of metrics, comma separated; * is all, empty none."},
}

// ClientMetricsKeys returns every setting of a subscription, sorted by name. The
// slice is the caller's.
func ClientMetricsKeys() []Key { return sortedKeys([][]Key{clientMetricsKeys}) }

// ParseClientMetrics returns the settings of a subscription that sets overrides, or
// says what is wrong with them: a *BadValue, or a *BadOp for what Kafka calls a bad
// request.
func ParseClientMetrics(overrides map[string]string) (ClientMetrics, error) {
	var c ClientMetrics
	names := make([]string, 0, len(overrides))
	for n := range overrides { // order-free: sorted below
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		if lookup([][]Key{clientMetricsKeys}, n) == nil {
			return c, &BadOp{Key: n, Why: "is no setting of a subscription to clients' metrics", Request: true}
		}
	}
	for i := range clientMetricsKeys {
		k := &clientMetricsKeys[i]
		text, set := overrides[k.Name]
		if !set {
			text = k.Default
		}
		v, err := k.parse(text)
		if err != nil {
			return c, err
		}
		if items, is := v.([]string); is && slices.Contains(items, "") {
			return c, k.bad(text, "a comma separated list without empty items")
		}
		k.store(k.client(&c), v)
	}
	if ms := c.Interval.Milliseconds(); ms < clientIntervalMin || ms > clientIntervalMax {
		return c, &BadOp{Key: keyClientInterval, Why: fmt.Sprintf("%d is not from %d to %d", ms, clientIntervalMin, clientIntervalMax), Request: true}
	}
	var err error
	c.Rules, err = parseClientRules(c.Match)
	return c, err
}

// parseClientRules reads the items of match. As in Kafka, of two for one attribute
// the later counts.
func parseClientRules(items []string) ([]ClientRule, error) {
	var rules []ClientRule
	for _, item := range items {
		r, ok := parseClientRule(item)
		if !ok {
			return nil, &BadValue{Key: keyClientMatch, Value: item, Want: "attribute=expression, the attribute one of Kafka's, the expression in the syntax of RE2"}
		}
		if i := slices.IndexFunc(rules, func(o ClientRule) bool { return o.Attribute == r.Attribute }); i >= 0 {
			rules[i] = r
			continue
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func parseClientRule(item string) (r ClientRule, ok bool) {
	name, expression, found := strings.Cut(item, "=")
	name, expression = strings.TrimSpace(name), strings.TrimSpace(expression)
	if !found || expression == "" || strings.Contains(expression, "=") {
		return r, false
	}
	for r.Attribute < ClientAttributes && r.Attribute.String() != name {
		r.Attribute++
	}
	if r.Attribute == ClientAttributes {
		return r, false
	}
	// By itself first: a)(b is none, though it would be one in the brackets below.
	if _, err := regexp.Compile(expression); err != nil {
		return r, false
	}
	whole, err := regexp.Compile(`\A(?:` + expression + `)\z`)
	r.Whole = whole
	return r, err == nil
}

// DescribeClientMetrics returns the settings of a subscription that sets overrides,
// sorted by name.
func DescribeClientMetrics(overrides map[string]string) []Entry {
	var all []Entry
	for _, k := range ClientMetricsKeys() {
		var syn []EntrySynonym
		if v, ok := overrides[k.Name]; ok {
			if k.Type == List {
				v = strings.Join(splitList(v), ",")
			}
			syn = append(syn, EntrySynonym{Name: k.Name, Value: v, Source: SourceClientMetrics})
		}
		all = append(all, k.entry(syn))
	}
	return all
}
