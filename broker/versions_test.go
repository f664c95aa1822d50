package broker

import (
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/protocol"
)

// TestApiVersionsOfEveryVersion: the table, at each version; an unknown version
// is answered in version 0 with this API's own range, and the connection stays.
func TestApiVersionsOfEveryVersion(t *testing.T) {
	a := newAPI(t)
	c := a.dial()
	for _, v := range versions(t, protocol.KeyApiVersions) {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "test", "1.0"
		resp := c.call(req, v).(*kmsg.ApiVersionsResponse)
		if resp.ErrorCode != 0 {
			t.Fatalf("v%d: code %d", v, resp.ErrorCode)
		}
		advertised := map[int16]kmsg.ApiVersionsResponseApiKey{}
		for _, k := range resp.ApiKeys {
			advertised[k.ApiKey] = k
		}
		for _, row := range protocol.Table() {
			got, ok := advertised[row.Key]
			if row.Key == protocol.KeyGetTelemetrySubs || row.Key == protocol.KeyPushTelemetry {
				continue // see TestTelemetryIsAdvertisedOnRequest
			}
			if on := row.Scope&protocol.OnBroker != 0; on != ok || on && (got.MinVersion != row.Min || got.MaxVersion < row.Max) {
				t.Errorf("v%d: %s is advertised %t as %+v", v, row.Name, ok, got)
			}
		}
		if v >= 3 && resp.FinalizedFeaturesEpoch < 0 {
			t.Errorf("v%d: no epoch of finalized features", v)
		}
	}
	for _, v := range []int16{5, 99} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.SetVersion(4)
		raw := kmsg.NewRequestFormatter().AppendRequest(nil, req, c.id+1)
		binary.BigEndian.PutUint16(raw[6:], uint16(v))
		c.id++
		if _, err := c.c.Write(raw); err != nil {
			t.Fatal(err)
		}
		var resp kmsg.ApiVersionsResponse
		if err := resp.ReadFrom(c.answer()[4:]); err != nil {
			t.Fatalf("v%d: %v", v, err)
		}
		if resp.ErrorCode != protocol.CodeUnsupportedVersion || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != 18 || resp.ApiKeys[0].MaxVersion != 4 {
			t.Errorf("v%d: %+v", v, resp)
		}
	}
	for _, bad := range []string{"", "-x", "a b", "x-"} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = bad, "1"
		if resp := c.call(req, 3).(*kmsg.ApiVersionsResponse); resp.ErrorCode != protocol.CodeInvalidRequest {
			t.Errorf("software name %q: code %d", bad, resp.ErrorCode)
		}
	}
}

// TestUnservedRequestsCloseTheConnection: there is no other way to say so.
func TestUnservedRequestsCloseTheConnection(t *testing.T) {
	a := newAPI(t)
	for _, h := range []struct{ key, version int16 }{{3, 14}, {3, -1}, {0, 99}, {1, 3}, {2, 0}, {19, 1}, {999, 0}, {-1, 0}, {7, 0}, {62, 0}, {56, 2}} {
		c := a.dial()
		raw := binary.BigEndian.AppendUint32(nil, 10)
		raw = binary.BigEndian.AppendUint16(raw, uint16(h.key))
		raw = binary.BigEndian.AppendUint16(raw, uint16(h.version))
		raw = append(raw, 0, 0, 0, 1, 0xff, 0xff)
		if _, err := c.c.Write(raw); err != nil {
			t.Fatal(err)
		}
		c.wantClosed()
	}
}
