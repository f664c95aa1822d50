package protocol_test

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/compat/golden"
	"github.com/tidemark/tidemark/protocol"
)

func TestTableAgreesWithDecoder(t *testing.T) {
	for _, api := range protocol.Table() {
		req := kmsg.RequestForKey(api.Key)
		if req == nil {
			t.Errorf("%s: kmsg does not know key %d", api.Name, api.Key)
			continue
		}
		if api.Max > req.MaxVersion() {
			t.Errorf("%s: advertised up to %d, decoded up to %d", api.Name, api.Max, req.MaxVersion())
		}
		for v := range api.Max + 1 {
			req.SetVersion(v)
			if got := v >= api.Flexible; got != req.IsFlexible() {
				t.Errorf("%s v%d: flexible %v in the table, %v in kmsg", api.Name, v, got, req.IsFlexible())
			}
		}
		if api.Min > api.ServedMin || api.ServedMin > api.Max || api.Min < 0 {
			t.Errorf("%s: versions %d to %d served from %d", api.Name, api.Min, api.Max, api.ServedMin)
		}
		if api.Class.String() == "unknown" || api.Scope == 0 {
			t.Errorf("%s: class %d, scope %d", api.Name, api.Class, api.Scope)
		}
		if got, ok := protocol.Lookup(api.Key); !ok || got != api {
			t.Errorf("Lookup(%d) = %+v, %v", api.Key, got, ok)
		}
	}
	for _, key := range []int16{-1, 4, 1000, protocol.FirstPrivateKey} {
		if api, ok := protocol.Lookup(key); ok {
			t.Errorf("Lookup(%d) = %+v", key, api)
		}
	}
}

// TestTableAgreesWithKafka holds that what we advertise to clients is exactly
// what Apache Kafka advertises, for every API that we have, but for those that both
// advertise on request.
func TestTableAgreesWithKafka(t *testing.T) {
	for _, api := range protocol.Table() {
		if !api.On(protocol.OnBroker) || api.Key == protocol.KeyGetTelemetrySubs || api.Key == protocol.KeyPushTelemetry {
			continue
		}
		i := slices.IndexFunc(golden.APIs(), func(g golden.API) bool { return g.Key == api.Key })
		if i < 0 {
			t.Errorf("%s: Kafka does not advertise key %d", api.Name, api.Key)
			continue
		}
		if g := golden.APIs()[i]; g.Min != api.Min || g.Max != api.Max || g.Name != api.Name {
			t.Errorf("%s %d–%d, Kafka has %s %d–%d", api.Name, api.Min, api.Max, g.Name, g.Min, g.Max)
		}
	}
}

func TestCodesHaveKafkaNames(t *testing.T) {
	for code := protocol.Code(-1); code < 134; code++ {
		name := protocol.CodeName(code)
		if code == protocol.CodeNone {
			if name != "NONE" {
				t.Errorf("code 0 is %q", name)
			}
			continue
		}
		kind := kerr.TypedErrorForCode(code)
		if kind == nil || kind.Code != code {
			continue // newer than kerr
		}
		if code == protocol.CodeNotLeaderOrFollower {
			continue // kerr keeps the name it had before Kafka 2.6
		}
		if kind.Message != name {
			t.Errorf("code %d is %q, in kerr %q", code, name, kind.Message)
		}
	}
	for _, code := range []protocol.Code{-2, 134, 32767, -32768} {
		if got := protocol.CodeName(code); got != "UNKNOWN_CODE" {
			t.Errorf("code %d is %q", code, got)
		}
	}
}

func TestApiVersionsResponse(t *testing.T) {
	features := protocol.Features{
		Supported: []protocol.Feature{{Name: "from0", Min: 0, Max: 2}, {Name: "from1", Min: 1, Max: 5}},
		Finalized: []protocol.Feature{{Name: "from1", Min: 3, Max: 3}},
		Epoch:     42,
	}
	for version := range int16(5) {
		resp := protocol.NewApiVersionsResponse(version, protocol.OnBroker, features)
		back := kmsg.NewPtrApiVersionsResponse()
		back.Version = version
		if err := back.ReadFrom(resp.AppendTo(nil)); err != nil {
			t.Fatalf("v%d: %v", version, err)
		}
		for _, k := range back.ApiKeys {
			api, ok := protocol.Lookup(k.ApiKey)
			if !ok || !api.On(protocol.OnBroker) || k.MinVersion != api.Min || k.MaxVersion != api.Max {
				t.Errorf("v%d advertises %+v, the table has %+v", version, k, api)
			}
		}
		wantSupported := map[int16]int{3: 1, 4: 2}[version]
		if len(back.SupportedFeatures) != wantSupported {
			t.Errorf("v%d: %d supported features, want %d", version, len(back.SupportedFeatures), wantSupported)
		}
		if version >= 3 && (back.FinalizedFeaturesEpoch != 42 || len(back.FinalizedFeatures) != 1 || back.FinalizedFeatures[0].MaxVersionLevel != 3) {
			t.Errorf("v%d: finalized %+v at %d", version, back.FinalizedFeatures, back.FinalizedFeaturesEpoch)
		}
	}
}

// Clients are told to push their metrics only on request.
func TestTelemetryIsAdvertisedOnRequest(t *testing.T) {
	for _, on := range []bool{false, true} {
		var keys []int16
		for _, k := range protocol.NewApiVersionsResponse(4, protocol.OnBroker, protocol.Features{Telemetry: on}).ApiKeys {
			keys = append(keys, k.ApiKey)
		}
		for _, key := range []int16{protocol.KeyGetTelemetrySubs, protocol.KeyPushTelemetry} {
			if slices.Contains(keys, key) != on {
				t.Errorf("on %t: %d is advertised %t", on, key, !on)
			}
		}
	}
}

func TestControllerListenerAdvertisesItsOwn(t *testing.T) {
	var keys []int16
	for _, k := range protocol.NewApiVersionsResponse(4, protocol.OnController, protocol.Features{}).ApiKeys {
		keys = append(keys, k.ApiKey)
	}
	if !slices.Contains(keys, protocol.KeyBrokerHeartbeat) || slices.Contains(keys, protocol.KeyProduce) {
		t.Errorf("advertised on the controller listener: %v", keys)
	}
}

func TestApiVersionsRefusal(t *testing.T) {
	resp := protocol.NewApiVersionsRefusal()
	want := []byte{0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4}
	if got := resp.AppendTo(nil); !slices.Equal(got, want) {
		t.Errorf("refusal is %x, want %x", got, want)
	}
}

func TestCheckClientSoftware(t *testing.T) {
	tests := []struct {
		name, version string
		want          protocol.Code
	}{
		{"librdkafka", "2.3.0", protocol.CodeNone},
		{"a", "1", protocol.CodeNone},
		{"apache-kafka-java", "4.0.0-rc.1", protocol.CodeNone},
		{"", "1", protocol.CodeInvalidRequest},
		{"a", "", protocol.CodeInvalidRequest},
		{"-a", "1", protocol.CodeInvalidRequest},
		{"a.", "1", protocol.CodeInvalidRequest},
		{"a b", "1", protocol.CodeInvalidRequest},
		{"a", "1\n", protocol.CodeInvalidRequest},
		{"naïve", "1", protocol.CodeInvalidRequest},
	}
	for _, tt := range tests {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, tt.name, tt.version
		if got := protocol.CheckClientSoftware(req); got != tt.want {
			t.Errorf("%q %q: code %d, want %d", tt.name, tt.version, got, tt.want)
		}
		req.Version = 2
		if got := protocol.CheckClientSoftware(req); got != protocol.CodeNone {
			t.Errorf("%q %q in version 2: code %d", tt.name, tt.version, got)
		}
	}
}
