package broker

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/protocol"
)

// alterMetrics changes a subscription to clients' metrics: "key=value" sets, "key"
// alone removes.
func (c *rawConn) alterMetrics(op kmsg.IncrementalAlterConfigOp, name string, settings ...string) protocol.Code {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = resourceClientMetrics, name
	for _, s := range settings {
		kv := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		k, v, sets := strings.Cut(s, "=")
		if kv.Name, kv.Op, kv.Value = k, op, &v; !sets {
			kv.Op, kv.Value = kmsg.IncrementalAlterConfigOpDelete, nil
		}
		res.Configs = append(res.Configs, kv)
	}
	req.Resources = append(req.Resources, res)
	return c.call(req, 1).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode
}

func (c *rawConn) telemetry(id [16]byte) *kmsg.GetTelemetrySubscriptionsResponse {
	req := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
	req.ClientInstanceID = id
	return c.call(req, 0).(*kmsg.GetTelemetrySubscriptionsResponse)
}

func (c *rawConn) push(id [16]byte, sub int32, change ...func(*kmsg.PushTelemetryRequest)) protocol.Code {
	req := kmsg.NewPtrPushTelemetryRequest()
	req.ClientInstanceID, req.SubscriptionID, req.Metrics = id, sub, []byte("metrics")
	for _, f := range change {
		f(req)
	}
	return c.call(req, 0).(*kmsg.PushTelemetryResponse).ErrorCode
}

// introduce tells which software the client is.
func (c *rawConn) introduce(name, version string) *kmsg.ApiVersionsResponse {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = name, version
	return c.call(req, 3).(*kmsg.ApiVersionsResponse)
}

// TestClientMetricsConfigs: the settings of subscriptions, and what is refused.
func TestClientMetricsConfigs(t *testing.T) {
	a := newAPI(t)
	c, name := a.dial(), a.name("subscription")
	set, add := kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpAppend
	for _, tt := range []struct {
		op      kmsg.IncrementalAlterConfigOp
		name    string
		setting string
		want    protocol.Code
	}{
		{set, name, "interval.ms=99", protocol.CodeInvalidRequest},
		{set, name, "interval.ms=soon", protocol.CodeInvalidConfig},
		{set, name, "nope=1", protocol.CodeInvalidRequest},
		{set, name, "match=foo=bar", protocol.CodeInvalidConfig},
		{set, name, "match=client_id=[", protocol.CodeInvalidConfig},
		{set, name, "metrics=a,,b", protocol.CodeInvalidConfig},
		{add, name, "metrics=a", protocol.CodeInvalidConfig},
		{set, "", "metrics=a", protocol.CodeInvalidRequest},
		{set, name, "metrics= a , b ", protocol.CodeNone},
		{set, name, "match=client_id=nobody", protocol.CodeNone},
		{set, name, "interval.ms=700", protocol.CodeNone},
	} {
		if got := c.alterMetrics(tt.op, tt.name, tt.setting); got != tt.want {
			t.Errorf("%q %s: %s, want %s", tt.name, tt.setting, protocol.CodeName(got), protocol.CodeName(tt.want))
		}
	}
	describe := func(name string) (got []string) {
		resp := c.describe(4, resourceClientMetrics, name)
		if resp.ErrorCode != 0 {
			return []string{protocol.CodeName(resp.ErrorCode)}
		}
		for _, e := range resp.Configs {
			got = append(got, e.Name+"="+*e.Value+" "+e.Source.String())
		}
		slices.Sort(got)
		return got
	}
	listed := func(v int16) bool {
		req := kmsg.NewPtrListConfigResourcesRequest()
		if v > 0 {
			req.ResourceTypes = []int8{resourceClientMetrics}
		}
		return slices.ContainsFunc(c.call(req, v).(*kmsg.ListConfigResourcesResponse).ConfigResources,
			func(r kmsg.ListConfigResourcesResponseConfigResource) bool {
				return r.Name == name && r.Type == resourceClientMetrics
			})
	}
	eventually(t, "the subscription is listed", func() bool { return listed(0) && listed(1) })
	const mine, builtIn = " CLIENT_METRICS_CONFIG", " DEFAULT_CONFIG"
	if got, want := describe(name), []string{"interval.ms=700" + mine, "match=client_id=nobody" + mine, "metrics=a,b" + mine}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	defaults := []string{"interval.ms=300000" + builtIn, "match=" + builtIn, "metrics=" + builtIn}
	if got := describe(a.name("none")); !slices.Equal(got, defaults) {
		t.Errorf("one that was never set: %q, want %q", got, defaults)
	}
	if got := describe(""); got[0] != "INVALID_REQUEST" {
		t.Errorf("one without a name: %q", got)
	}
	if got := c.alterMetrics(set, name, "interval.ms", "match", "metrics"); got != protocol.CodeNone {
		t.Errorf("remove: %d", got)
	}
	eventually(t, "the subscription is gone", func() bool { return !listed(1) && slices.Equal(describe(name), defaults) })
}

// TestTelemetryIsAdvertisedOnRequest: clients are told of it only by a broker that is
// to take their metrics.
func TestTelemetryIsAdvertisedOnRequest(t *testing.T) {
	for _, on := range []bool{false, true} {
		a := newAPI(t, "tidemark.client.telemetry.enable="+map[bool]string{false: "false", true: "true"}[on])
		if a.kafka() {
			t.Skip("Kafka's depends on its plugins")
		}
		n := 0
		for _, k := range a.dial().introduce("test", "1").ApiKeys {
			if k.ApiKey == protocol.KeyGetTelemetrySubs || k.ApiKey == protocol.KeyPushTelemetry {
				n++
			}
		}
		if want := map[bool]int{false: 0, true: 2}[on]; n != want {
			t.Errorf("on %t: %d of the APIs are advertised, want %d", on, n, want)
		}
	}
}

// TestTelemetry: the codes of Apache Kafka, which needs a plugin for client metrics
// to be asked the same (TIDEMARK_TEST_ADDR).
func TestTelemetry(t *testing.T) {
	a := newAPI(t)
	c, name := a.dial(), a.name("telemetry")
	c.introduce("telemetry-test", "1.2")
	want := func(what string, got, want protocol.Code) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s, want %s", what, protocol.CodeName(got), protocol.CodeName(want))
		}
	}
	alter := func(settings ...string) {
		t.Helper()
		want("alter", c.alterMetrics(kmsg.IncrementalAlterConfigOpSet, name, settings...), protocol.CodeNone)
	}
	alter("interval.ms=60000", "metrics=org.b,org.a", "match=client_software_name=telemetry-test,client_software_version=1\\..*,client_source_address=127.*")
	defer alter("interval.ms", "metrics", "match")
	first := func() *kmsg.GetTelemetrySubscriptionsResponse { // of a new client
		t.Helper()
		s := c.telemetry([16]byte{})
		want("get", s.ErrorCode, protocol.CodeNone)
		return s
	}
	var s *kmsg.GetTelemetrySubscriptionsResponse
	eventually(t, "the subscription is in force", func() bool { s = first(); return len(s.RequestedMetrics) > 0 })
	slices.Sort(s.RequestedMetrics)
	if !slices.Equal(s.RequestedMetrics, []string{"org.a", "org.b"}) || s.PushIntervalMillis != 60_000 || !s.DeltaTemporality ||
		!slices.Equal(s.AcceptedCompressionTypes, []int8{4, 3, 1, 2}) || s.TelemetryMaxBytes != 1048576 || s.ThrottleMillis != 0 {
		t.Errorf("%+v", s)
	}
	id, sub := s.ClientInstanceID, s.SubscriptionID
	want("get again", c.telemetry(id).ErrorCode, protocol.CodeThrottlingQuotaExceeded)
	want("push", c.push(id, sub), protocol.CodeNone)
	want("push again", c.push(id, sub), protocol.CodeThrottlingQuotaExceeded)
	last := func(r *kmsg.PushTelemetryRequest) { r.Terminating = true }
	want("the last push", c.push(id, sub, last), protocol.CodeNone)
	want("after the last push", c.push(id, sub), protocol.CodeInvalidRequest)

	want("nobody's push", c.push([16]byte{}, sub), protocol.CodeInvalidRequest)
	want("an unknown client", c.push([16]byte{1, 2, 3}, sub), protocol.CodeUnknownSubscriptionID)
	if got := c.telemetry([16]byte{1, 2, 3}); got.ErrorCode != 0 || got.ClientInstanceID != [16]byte{1, 2, 3} {
		t.Errorf("it asks: %+v", got)
	}
	s = first()
	want("a codec that is none", c.push(s.ClientInstanceID, s.SubscriptionID, func(r *kmsg.PushTelemetryRequest) { r.CompressionType = 9 }), protocol.CodeUnsupportedCompressionType)
	want("it asks", c.telemetry(s.ClientInstanceID).ErrorCode, protocol.CodeNone)
	s = first()
	tooLarge := func(r *kmsg.PushTelemetryRequest) { r.Metrics = make([]byte, s.TelemetryMaxBytes+1) }
	want("too large", c.push(s.ClientInstanceID, s.SubscriptionID, tooLarge), protocol.CodeTelemetryTooLarge)
	want("it asks", c.telemetry(s.ClientInstanceID).ErrorCode, protocol.CodeThrottlingQuotaExceeded)

	s = first()
	alter("metrics=*,org.a")
	var code protocol.Code
	eventually(t, "the subscription is another", func() bool {
		if code = c.push(s.ClientInstanceID, s.SubscriptionID); code == protocol.CodeNone || code == protocol.CodeThrottlingQuotaExceeded {
			s = first()
			return s.RequestedMetrics[0] == "*"
		}
		return true
	})
	now := c.telemetry(s.ClientInstanceID)
	if code == protocol.CodeUnknownSubscriptionID && (now.ErrorCode != 0 || !slices.Equal(now.RequestedMetrics, []string{"*"}) || now.SubscriptionID == s.SubscriptionID) {
		t.Errorf("%+v", now)
	}

	// Another software is not meant, and is asked for nothing.
	other := a.dial()
	other.introduce("other", "1.2")
	if s := other.telemetry([16]byte{}); s.ErrorCode != 0 || len(s.RequestedMetrics) != 0 || s.PushIntervalMillis != 300_000 {
		t.Errorf("%+v", s)
	}
}

// TestTelemetryEndsWithTheConnection: a client that comes back on another need not
// wait, and is not counted twice.
func TestTelemetryEndsWithTheConnection(t *testing.T) {
	a := newAPI(t)
	c := a.dial()
	s := c.telemetry([16]byte{})
	if again := c.telemetry(s.ClientInstanceID); again.ErrorCode != protocol.CodeThrottlingQuotaExceeded {
		t.Fatalf("%+v", again)
	}
	if a.b != nil {
		if got := a.b.telemetry.counts(); got.Instances != 1 || got.Throttled != 1 {
			t.Errorf("%+v", got)
		}
	}
	c.c.Close()
	c = a.dial()
	eventually(t, "the client is forgotten", func() bool { return c.telemetry(s.ClientInstanceID).ErrorCode == 0 })
	if a.b != nil {
		if got := a.b.telemetry.counts(); got.Instances != 1 {
			t.Errorf("%+v", got)
		}
	}
}

// TestSubscriptionsSurviveARestart: they are the cluster's.
func TestSubscriptionsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	b := startBroker(t, dir)
	if code := rawDial(t, b).alterMetrics(kmsg.IncrementalAlterConfigOpSet, "s", "metrics=org.a"); code != 0 {
		t.Fatal(code)
	}
	stopBroker(t, b)
	b = startBroker(t, dir)
	defer stopBroker(t, b)
	if s := rawDial(t, b).telemetry([16]byte{}); !slices.Equal(s.RequestedMetrics, []string{"org.a"}) {
		t.Errorf("%+v", s)
	}
}
