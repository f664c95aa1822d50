package config

import (
	"strings"
	"testing"
)

func TestListeners(t *testing.T) {
	for _, c := range []struct{ flags, listeners, advertised, inter string }{
		{"", "PLAINTEXT://localhost:9092", "PLAINTEXT://localhost:9092", "PLAINTEXT"},
		{"listeners=127.0.0.1:0", "PLAINTEXT://127.0.0.1:0", "PLAINTEXT://127.0.0.1:0", "PLAINTEXT"},
		{"listeners=[::1]:5", "PLAINTEXT://[::1]:5", "PLAINTEXT://[::1]:5", "PLAINTEXT"},
		{"listeners=PLAINTEXT://:5", "PLAINTEXT://:5", "PLAINTEXT://:5", "PLAINTEXT"},
		{"listeners=PLAINTEXT://0.0.0.0:5", "PLAINTEXT://0.0.0.0:5", "PLAINTEXT://:5", "PLAINTEXT"},
		{
			"listeners=in://a:1,out://b:2 listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT inter.broker.listener.name=out",
			"IN://a:1 OUT://b:2", "IN://a:1 OUT://b:2", "OUT",
		},
		{
			"listeners=PLAINTEXT://:1,CONTROLLER://:2 controller.listener.names=CONTROLLER",
			"PLAINTEXT://:1 CONTROLLER://:2", "PLAINTEXT://:1", "PLAINTEXT",
		},
		{
			"process.roles=controller listeners=CONTROLLER://h:2 controller.listener.names=CONTROLLER",
			"CONTROLLER://h:2", "", "",
		},
		{
			"process.roles=broker controller.quorum.bootstrap.servers=h:2 controller.listener.names=CONTROLLER",
			"PLAINTEXT://localhost:9092", "PLAINTEXT://localhost:9092", "PLAINTEXT",
		},
		{
			"listeners=PLAINTEXT://:1 advertised.listeners=PLAINTEXT://far:99",
			"PLAINTEXT://:1", "PLAINTEXT://far:99", "PLAINTEXT",
		},
	} {
		b := loadFlags(t, strings.Fields(c.flags)...)
		if got := listenersText(b.Listeners); got != c.listeners {
			t.Errorf("%q: listeners %s", c.flags, got)
		}
		if got := listenersText(b.Advertised); got != c.advertised {
			t.Errorf("%q: advertised %s", c.flags, got)
		}
		if b.InterBrokerListener != c.inter {
			t.Errorf("%q: inter broker %s", c.flags, b.InterBrokerListener)
		}
		for _, l := range b.Listeners {
			if l.Protocol != Plaintext {
				t.Errorf("%q: %s is %s", c.flags, l, l.Protocol)
			}
		}
	}
}

// Clients differ in whether they try the IPv4 or the IPv6 loopback first.
func TestLocalhostIsBothLoopbacks(t *testing.T) {
	got := strings.Join(Defaults().Listeners[0].Addresses(), " ")
	if got != "127.0.0.1:9092 [::1]:9092" {
		t.Errorf("got %s", got)
	}
	if got := (Listener{Host: "h", Port: 1}).Addresses(); len(got) != 1 || got[0] != "h:1" {
		t.Errorf("got %v", got)
	}
}

func TestWildcardListenerIsNoted(t *testing.T) {
	_, _, warn := load(t, Sources{Flags: []string{"listeners=PLAINTEXT://0.0.0.0:9092"}})
	if len(warn.Notes) != 1 || !strings.Contains(warn.Notes[0], "advertised.listeners") {
		t.Errorf("notes %v", warn.Notes)
	}
}

func TestVotersAndOverrides(t *testing.T) {
	b := loadFlags(t, "controller.quorum.voters=1@a:1,2@[::1]:2", "controller.listener.names=C",
		"listeners=PLAINTEXT://:9,C://:1", "max.connections.per.ip.overrides=10.0.0.1:5, ::1:6")
	if len(b.Quorum.Voters) != 2 || b.Quorum.Voters[1] != (Voter{ID: 2, Host: "::1", Port: 2}) {
		t.Errorf("voters %v", b.Quorum.Voters)
	}
	if o := b.Server.ConnectionsPerIPOverrides; o["10.0.0.1"] != 5 || o["::1"] != 6 {
		t.Errorf("overrides %v", o)
	}
	if !b.IsController("C") || b.IsController("PLAINTEXT") {
		t.Error("controller listeners mixed up")
	}
}
