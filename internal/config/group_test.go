package config

import (
	"errors"
	"testing"
	"time"
)

// TestGroupSettings: bounds are the broker's, and a value that has got out of them
// since counts as the nearest.
func TestGroupSettings(t *testing.T) {
	b, _, _, err := Load(Sources{Flags: []string{"group.consumer.min.session.timeout.ms=10000", "group.consumer.min.heartbeat.interval.ms=1000"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		set  map[string]string
		good bool
	}{
		{nil, true},
		{map[string]string{"consumer.session.timeout.ms": "10000"}, true},
		{map[string]string{"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "15000"}, true},
		{map[string]string{"consumer.session.timeout.ms": "9999"}, false},
		{map[string]string{"consumer.session.timeout.ms": "60001"}, false},
		{map[string]string{"consumer.heartbeat.interval.ms": "999"}, false},
		{map[string]string{"consumer.heartbeat.interval.ms": "15001"}, false},
		{map[string]string{"consumer.heartbeat.interval.ms": "soon"}, false},
		{map[string]string{"consumer.session.timeout.ms": "10000", "consumer.heartbeat.interval.ms": "10000"}, false},
		{map[string]string{"share.auto.offset.reset": "earliest"}, true},
		{map[string]string{"share.delivery.count.limit": "1"}, false},
		{map[string]string{"cleanup.policy": "delete"}, false},
	} {
		if err := b.ValidateGroupSet(tt.set); (err == nil) != tt.good {
			t.Errorf("%v: %v", tt.set, err)
		}
	}
	var unknown *UnknownKey
	if err := b.ValidateGroupSet(map[string]string{"x": "1"}); !errors.As(err, &unknown) {
		t.Error(err)
	}
	for _, tt := range []struct {
		session, heartbeat         string
		wantSession, wantHeartbeat time.Duration
	}{
		{"20000", "2000", 20 * time.Second, 2 * time.Second},
		{"5000", "1", 10 * time.Second, time.Second},
		{"9000000", "100000", 60 * time.Second, 15 * time.Second},
		{"10000", "15000", 45 * time.Second, 5 * time.Second}, // they contradict each other
		{"soon", "", 45 * time.Second, 5 * time.Second},
	} {
		got := b.Group(map[string]string{"consumer.session.timeout.ms": tt.session, "consumer.heartbeat.interval.ms": tt.heartbeat})
		if got.Session != tt.wantSession || got.Heartbeat != tt.wantHeartbeat {
			t.Errorf("%s, %s: %+v", tt.session, tt.heartbeat, got)
		}
	}
	for _, e := range b.DescribeGroup(Dynamic{}, map[string]string{"consumer.session.timeout.ms": "20000"}) {
		switch e.Name {
		case "consumer.session.timeout.ms":
			if e.Value != "20000" || e.Source != SourceGroup || len(e.Synonyms) != 2 || e.Synonyms[1].Value != "45000" {
				t.Errorf("%+v", e)
			}
		case "consumer.heartbeat.interval.ms":
			if e.Value != "5000" || e.Source != SourceDefault {
				t.Errorf("%+v", e)
			}
		}
	}
}
