package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

const second = model.Instant(time.Second)

// scene is a Registry with a clock. Instances are named by single letters.
type scene struct {
	t   *testing.T
	r   *Registry
	now model.Instant
	who Client
	ids map[InstanceID]int32 // the last subscription told to each
	new uint16               // the last id drawn
}

func newScene(t *testing.T, max int) *scene {
	s := &scene{t: t, now: 1000 * second, ids: map[InstanceID]int32{}}
	s.r = New(Config{BytesMax: 100, InstancesMax: max, NewID: func() InstanceID { s.new++; return InstanceID{byte(s.new >> 8), byte(s.new)} }})
	return s
}

// subscribe replaces the subscriptions: "name interval.ms=1000 metrics=a,b" each.
func (s *scene) subscribe(subs ...string) {
	s.t.Helper()
	all := map[string]config.ClientMetrics{}
	for _, sub := range subs {
		f := strings.Fields(sub)
		set := map[string]string{}
		for _, kv := range f[1:] {
			k, v, _ := strings.Cut(kv, "=")
			set[k] = v
		}
		c, err := config.ParseClientMetrics(set)
		if err != nil {
			s.t.Fatal(err)
		}
		all[f[0]] = c
	}
	s.r.Subscribe(all)
}

func id(b byte) InstanceID { return InstanceID{0xff, b} }

// do is one step: "+MS" passes time, "get X", "push X" with sub=wrong, codec=N,
// bytes=N, last, "closed X".
func (s *scene) do(step string) string {
	f := strings.Fields(step)
	if ms, ok := strings.CutPrefix(f[0], "+"); ok {
		var n int64
		fmt.Sscan(ms, &n)
		s.now += model.Instant(n) * second / 1000
		return ""
	}
	who := id(f[1][0])
	switch f[1] {
	case "zero":
		who = InstanceID{}
	case "one":
		who = InstanceID{15: 1}
	}
	switch f[0] {
	case "closed":
		s.r.Closed(who)
		return ""
	case "get":
		sub, code := s.r.Get(s.now, who, &s.who)
		if code != protocol.CodeNone {
			return protocol.CodeName(code)
		}
		s.ids[sub.Instance] = sub.ID
		return fmt.Sprintf("%v every %s", sub.Metrics, sub.Interval)
	}
	p := Push{Instance: who, ID: s.ids[who], Bytes: 10}
	for _, arg := range f[2:] {
		switch k, v, _ := strings.Cut(arg, "="); k {
		case "sub":
			p.ID++
		case "codec":
			fmt.Sscan(v, &p.Codec)
		case "bytes":
			fmt.Sscan(v, &p.Bytes)
		case "last":
			p.Terminating = true
		}
	}
	return protocol.CodeName(s.r.Push(s.now, p, &s.who))
}

func (s *scene) play(script string) {
	s.t.Helper()
	for _, line := range strings.Split(script, "\n") {
		step, want, _ := strings.Cut(line, ":")
		if step = strings.TrimSpace(step); step == "" {
			continue
		}
		if got := s.do(step); got != strings.TrimSpace(want) {
			s.t.Errorf("%s: %s, want %s", step, got, want)
		}
	}
}

// The errors, their order, and after which of them a client need not wait. Each was
// seen of Apache Kafka 4.3.1 as well.
func TestErrors(t *testing.T) {
	const asked = "[a] every 1s"
	for name, script := range map[string]string{ // order-free: each by itself
		"in time": `
			get a: ` + asked + `
			push a: NONE
			+1000
			push a: NONE
			+1000
			push a bytes=100 codec=4: NONE
			+1000
			push a bytes=0: NONE`,
		"the first push may come at any time after the get": `
			get a: ` + asked + `
			push a: NONE
			+1000
			get a: ` + asked + `
			+1
			push a: NONE
			+999
			push a: THROTTLING_QUOTA_EXCEEDED
			+1
			push a: NONE`,
		"too early": `
			get a: ` + asked + `
			get a: THROTTLING_QUOTA_EXCEEDED
			push a: NONE
			push a: THROTTLING_QUOTA_EXCEEDED
			get a: THROTTLING_QUOTA_EXCEEDED
			+999
			push a: THROTTLING_QUOTA_EXCEEDED
			get a: THROTTLING_QUOTA_EXCEEDED
			+1
			push a: NONE
			+999
			get a: THROTTLING_QUOTA_EXCEEDED
			+1
			get a: ` + asked,
		"the subscription is not the client's: it asks again at once, and pushes in time": `
			get a: ` + asked + `
			push a sub=wrong: UNKNOWN_SUBSCRIPTION_ID
			get a: ` + asked + `
			push a: THROTTLING_QUOTA_EXCEEDED
			get a: THROTTLING_QUOTA_EXCEEDED
			+1000
			push a: NONE`,
		"the codec is none: likewise": `
			get a: ` + asked + `
			push a codec=5: UNSUPPORTED_COMPRESSION_TYPE
			get a: ` + asked + `
			get a: THROTTLING_QUOTA_EXCEEDED
			+1000
			push a codec=-1: UNSUPPORTED_COMPRESSION_TYPE`,
		"too large: in time again": `
			get a: ` + asked + `
			push a bytes=101: TELEMETRY_TOO_LARGE
			get a: THROTTLING_QUOTA_EXCEEDED
			+1000
			push a bytes=100: NONE`,
		"the order of the errors": `
			get a: ` + asked + `
			push a sub=wrong codec=9 bytes=101: UNKNOWN_SUBSCRIPTION_ID
			push a sub=wrong codec=9 bytes=101: THROTTLING_QUOTA_EXCEEDED
			+1000
			push a codec=9 bytes=101: UNSUPPORTED_COMPRESSION_TYPE`,
		"the last push comes before its time, and once": `
			get a: ` + asked + `
			push a: NONE
			push a last: NONE
			push a: INVALID_REQUEST
			push a: THROTTLING_QUOTA_EXCEEDED
			+1000
			push a: NONE`,
		"the last push is looked at as any other": `
			get a: ` + asked + `
			push a last sub=wrong: UNKNOWN_SUBSCRIPTION_ID
			push a last: INVALID_REQUEST`,
		"ids that are none": `
			push zero: INVALID_REQUEST
			push one: INVALID_REQUEST
			get one: ` + asked,
		"an instance that is not known": `
			push a: UNKNOWN_SUBSCRIPTION_ID
			push a: THROTTLING_QUOTA_EXCEEDED
			+1000
			get a: ` + asked + `
			push a: NONE
			push b: UNKNOWN_SUBSCRIPTION_ID
			get b: ` + asked,
		"a broker that forgot goes on": `
			get a: ` + asked + `
			closed a:
			push a: NONE
			push a: THROTTLING_QUOTA_EXCEEDED
			closed a:
			get a: ` + asked + `
			get a: THROTTLING_QUOTA_EXCEEDED
			+60000
			get a: ` + asked,
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, 10)
			s.subscribe("s interval.ms=1000 metrics=a")
			s.play(script)
		})
	}
}

// A change of the subscriptions gives everybody another id, and nobody need wait to
// ask for it.
func TestChangedSubscriptions(t *testing.T) {
	s := newScene(t, 10)
	s.play("get a: [] every 5m0s\npush a: NONE\nget a: THROTTLING_QUOTA_EXCEEDED")
	first := s.ids[id('a')]
	s.subscribe("s interval.ms=1000 metrics=x")
	s.play("push a: UNKNOWN_SUBSCRIPTION_ID\nget a: [x] every 1s\npush a: THROTTLING_QUOTA_EXCEEDED")
	second := s.ids[id('a')]
	s.subscribe("s interval.ms=2000 metrics=x")
	s.play("get a: [x] every 2s\npush a: NONE")
	third := s.ids[id('a')]
	if first == second || second == third || first == third {
		t.Errorf("ids %d, %d, %d", first, second, third)
	}
	s.subscribe("t interval.ms=2000 metrics=x") // the same by another name
	s.play("push a: NONE")
	s.subscribe()
	s.play("push a: UNKNOWN_SUBSCRIPTION_ID\nget a: [] every 5m0s")
	if s.ids[id('a')] != first {
		t.Errorf("the id without subscriptions is %d, was %d", s.ids[id('a')], first)
	}
}

// Brokers agree about subscription ids, clients have different ones.
func TestSubscriptionIDs(t *testing.T) {
	one, two := newScene(t, 10), newScene(t, 10)
	one.subscribe("s metrics=a", "u metrics=b,a")
	two.subscribe("u metrics=a", "s metrics=b")
	for _, step := range []string{"get a", "get b"} {
		one.do(step)
		two.do(step)
	}
	if a := one.ids[id('a')]; a != two.ids[id('a')] || a == one.ids[id('b')] {
		t.Errorf("%v, %v", one.ids, two.ids)
	}
}

func TestWhoIsMeant(t *testing.T) {
	subs := []string{
		"all metrics=m.all interval.ms=9000",
		"id metrics=m.id match=client_id=app-.*", "port metrics=m.port match=client_source_port=99",
		"both metrics=m.both match=client_software_name=java,client_software_version=4\\..*",
		"own metrics=m.own match=client_instance_id=_wAAAAAAAAAAAAAAAAAAAA", "part metrics=m.part match=client_id=pp-",
		"slow metrics=m.slow match=client_id=slow interval.ms=3600000", "quick metrics=m.all match=client_id=app-1 interval.ms=100",
		"star metrics=x,* match=client_source_address=10\\.0\\..*",
	}
	text := func(s string) *string { return &s }
	for _, tt := range []struct {
		who  Client
		want string
	}{
		{Client{}, "[m.all] every 9s"},
		{Client{config.ClientID: text("app-2")}, "[m.all m.id] every 9s"},
		{Client{config.ClientID: text("app-1")}, "[m.all m.id] every 100ms"},
		{Client{config.ClientID: text("slow")}, "[m.all m.slow] every 9s"},
		{Client{config.ClientID: text("")}, "[m.all] every 9s"},
		{Client{config.ClientSourcePort: text("99")}, "[m.all m.port] every 9s"},
		{Client{config.ClientSourcePort: text("9")}, "[m.all] every 9s"},
		{Client{config.ClientSoftwareName: text("java")}, "[m.all] every 9s"},
		{Client{config.ClientSoftwareName: text("java"), config.ClientSoftwareVersion: text("4.3")}, "[m.all m.both] every 9s"},
		{Client{config.ClientSourceAddress: text("10.0.0.1"), config.ClientID: text("app-2")}, "[*] every 9s"},
	} {
		s := newScene(t, 10)
		s.subscribe(subs...)
		s.who = tt.who
		if got := s.do("get a"); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
	s := newScene(t, 10)
	s.subscribe(subs...)
	if sub, _ := s.r.Get(s.now, InstanceID{0xff}, &Client{}); !slices.Contains(sub.Metrics, "m.own") {
		t.Errorf("the instance named: %v", sub.Metrics)
	}
}

// Ids are drawn until one is free.
func TestNewIDs(t *testing.T) {
	s := newScene(t, 10)
	draws := []InstanceID{{}, {15: 1}, {7}, {7}, {}, {8}}
	s.r.cfg.NewID = func() InstanceID { d := draws[0]; draws = draws[1:]; return d }
	for _, want := range []InstanceID{{7}, {8}} {
		if sub, code := s.r.Get(s.now, InstanceID{}, &s.who); code != protocol.CodeNone || sub.Instance != want {
			t.Errorf("%v %d, want %v", sub.Instance, code, want)
		}
	}
}

// The number of instances is bounded, and old ones go.
func TestBounds(t *testing.T) {
	s := newScene(t, 3)
	s.subscribe("s interval.ms=30000")
	s.play("get a: [] every 30s\nget b: [] every 30s\nget c: [] every 30s\n+30000\nget a: [] every 30s\nget d: [] every 30s")
	if s.r.instances[id('b')] != nil || len(s.r.instances) != 3 || s.r.heard.Len() != 3 {
		t.Fatal("b was not heard for longest, or is still there")
	}
	want := func(what string, instances, forgotten, displaced int64) {
		t.Helper()
		if c := s.r.Counts(s.now); c.Instances != instances || c.Forgotten != forgotten || c.Displaced != displaced || c.Subscriptions != 1 {
			t.Errorf("%s: %+v", what, c)
		}
	}
	want("d displaced b", 3, 0, 1)
	s.play("+59999") // 89.999 s since c, three intervals are 90 s
	want("just before", 3, 0, 1)
	s.play("+1")
	want("c is old", 2, 1, 1)
	s.play("+30000")
	want("all are old", 0, 3, 1)

	// At least a minute, whatever the interval; one is known to be old before it
	// is looked for.
	s.subscribe("s interval.ms=100")
	s.play("get a: [] every 100ms\n+59999\nget b: [] every 100ms\n+1")
	if s.do("push a"); s.r.counts.Forgotten != 4 {
		t.Errorf("%+v", s.r.counts)
	}
	// They go without being asked for.
	s.play("+60000\nget c: [] every 100ms")
	if len(s.r.instances) != 1 || s.r.counts.Forgotten != 6 {
		t.Errorf("%d are left, %+v", len(s.r.instances), s.r.counts)
	}
}

func TestCounts(t *testing.T) {
	s := newScene(t, 10)
	s.subscribe("s interval.ms=1000 metrics=a")
	for _, step := range strings.Split("get a,push a bytes=7,push a,push a last bytes=5,push a,+1000,push a sub=wrong,+1000,push a codec=9,+1000,push a bytes=101,push zero,get b,get b", ",") {
		s.do(step)
	}
	want := Counts{Instances: 2, Subscriptions: 1, Pushes: 2, Bytes: 12, Last: 1, Unknown: 1, Throttled: 2, Refused: 4}
	if got := s.r.Counts(s.now); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Combinations of subscriptions are remembered, and not without end.
func TestCombinationsAreBounded(t *testing.T) {
	s := newScene(t, 4096)
	var subs []string
	for i := range 11 {
		subs = append(subs, fmt.Sprintf("s%d metrics=m%d match=client_id=.*%c.*", i, i, 'a'+i))
	}
	s.subscribe(subs...)
	for n := range 2048 {
		name := ""
		for i := range 11 {
			if n>>i&1 == 1 {
				name += string(rune('a' + i))
			}
		}
		s.who[config.ClientID] = &name
		sub, _ := s.r.Get(s.now, InstanceID{}, &s.who)
		if len(sub.Metrics) != len(name) {
			t.Fatalf("%q: %v", name, sub.Metrics)
		}
		if len(s.r.asked.combined) > combinationsMax {
			t.Fatalf("%d combinations", len(s.r.asked.combined))
		}
	}
}
