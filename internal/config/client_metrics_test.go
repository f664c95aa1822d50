package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestClientMetricsSettings: what Apache Kafka 4.3.1 takes and refuses, and as
// which kind of error, but for what only Java's expressions can say.
func TestClientMetricsSettings(t *testing.T) {
	const good, request, value = "", "request", "value"
	for _, tt := range []struct{ set, want string }{
		{"", good},
		{"interval.ms=100", good}, {"interval.ms=3600000", good},
		{"interval.ms=99", request}, {"interval.ms=3600001", request}, {"interval.ms=-1", request},
		{"interval.ms=x", value}, {"interval.ms=", value}, {"interval.ms=99999999999", value},
		{"nope=1", request}, {"nope=1;interval.ms=x", request},
		{"metrics=", good}, {"metrics=*", good}, {"metrics=*,a", good}, {"metrics=a,a", good}, {"metrics= a , b ", good},
		{"metrics=a,,b", value}, {"metrics=,", value},
		{"match=", good}, {"match=client_id=a", good}, {"match= client_id = pro.* , client_software_name=p", good},
		{"match=client_id=a,client_id=b", good}, {"match=client_source_port=9.*", good},
		{"match=foo=bar", value}, {"match=client_id=[", value}, {"match=client_id", value}, {"match=client_id=a=b", value},
		{"match=client_id=", value}, {"match==x", value}, {"match=,", value}, {"match=client_id=a{1,2}", value},
		{"match=client_id=(?=x)y", value}, {"match=client_id=a)(b", value},
		{`match=client_id=(a)\1`, value}, {"match=client_id=a++", value}, // Java's only
	} {
		set := map[string]string{}
		for _, kv := range strings.Split(tt.set, ";") {
			if k, v, ok := strings.Cut(kv, "="); ok {
				set[k] = v
			}
		}
		_, err := ParseClientMetrics(set)
		var op *BadOp
		var bad *BadValue
		got := good
		switch {
		case errors.As(err, &op) && op.Request:
			got = request
		case errors.As(err, &bad):
			got = value
		case err != nil:
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %v, want %q", tt.set, err, tt.want)
		}
	}
}

func TestClientMetricsValues(t *testing.T) {
	c, err := ParseClientMetrics(map[string]string{"metrics": " a , b", "match": "client_id=x,client_software_name=n,client_id=pro.*"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Interval != 5*time.Minute || !slices.Equal(c.Metrics, []string{"a", "b"}) || len(c.Rules) != 2 {
		t.Fatalf("%+v", c)
	}
	// The later rule of an attribute counts, and matches it as a whole.
	for id, want := range map[string]bool{"probe": true, "x": false, "a probe": false, "probe\nagain": false} { // order-free: each by itself
		if got := c.Rules[0].Attribute == ClientID && c.Rules[0].Whole.MatchString(id); got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
	names := map[string]bool{}
	for a := range ClientAttributes {
		names[a.String()] = true
	}
	if len(names) != 6 {
		t.Errorf("%v", names)
	}
}

func TestDescribeClientMetrics(t *testing.T) {
	var got []string
	for _, e := range DescribeClientMetrics(map[string]string{"metrics": " a , b "}) {
		got = append(got, e.Name+"="+e.Value)
		if set := e.Name == "metrics"; set != (e.Source == SourceClientMetrics) || set != (len(e.Synonyms) == 1) || e.ReadOnly || e.Doc == "" {
			t.Errorf("%+v", e)
		}
	}
	if want := []string{"interval.ms=300000", "match=", "metrics=a,b"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
