package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/protocol"
)

// quotaEntry is a change of quotas: "user=a,ip=" names whom, an empty name is the
// default; "key=value" sets, "key" alone removes.
func quotaEntry(entity string, ops ...string) kmsg.AlterClientQuotasRequestEntry {
	e := kmsg.NewAlterClientQuotasRequestEntry()
	for _, part := range strings.Split(entity, ",") {
		if part == "" {
			continue
		}
		kind, name, _ := strings.Cut(part, "=")
		p := kmsg.NewAlterClientQuotasRequestEntryEntity()
		if p.Type = kind; name != "" {
			p.Name = &name
		}
		e.Entity = append(e.Entity, p)
	}
	for _, op := range ops {
		o := kmsg.NewAlterClientQuotasRequestEntryOp()
		key, value, sets := strings.Cut(op, "=")
		if o.Key, o.Remove = key, !sets; sets {
			if _, err := fmt.Sscan(value, &o.Value); err != nil {
				panic(err)
			}
		}
		e.Ops = append(e.Ops, o)
	}
	return e
}

func (c *rawConn) alterQuotas(v int16, only bool, entries ...kmsg.AlterClientQuotasRequestEntry) (codes []protocol.Code) {
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Entries, req.ValidateOnly = entries, only
	for _, e := range c.call(req, v).(*kmsg.AlterClientQuotasResponse).Entries {
		codes = append(codes, e.ErrorCode)
	}
	slices.Sort(codes) // Kafka answers in any order
	return codes
}

// quotas describes what a filter lets through: "user=a" exactly, "user=" the
// default, "user" any.
func (c *rawConn) quotas(v int16, strict bool, filter ...string) (protocol.Code, []string) {
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	req.Strict = strict
	for _, f := range filter {
		p := kmsg.NewDescribeClientQuotasRequestComponent()
		kind, name, is := strings.Cut(f, "=")
		switch p.EntityType = kind; {
		case !is:
			p.MatchType = matchSpecified
		case name == "":
			p.MatchType = matchDefault
		default:
			p.Match = &name
		}
		req.Components = append(req.Components, p)
	}
	resp := c.call(req, v).(*kmsg.DescribeClientQuotasResponse)
	var found []string
	for _, e := range resp.Entries {
		var parts, values []string
		for _, p := range e.Entity {
			name := "*"
			if p.Name != nil {
				name = *p.Name
			}
			parts = append(parts, p.Type+"="+name)
		}
		for _, value := range e.Values {
			values = append(values, fmt.Sprintf("%s=%g", value.Key, value.Value))
		}
		slices.Sort(parts)
		slices.Sort(values)
		found = append(found, strings.Join(append(parts, values...), " "))
	}
	slices.Sort(found)
	return resp.ErrorCode, found
}

// TestScramCredentials: nobody has any.
func TestScramCredentials(t *testing.T) {
	a := newAPI(t)
	req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	if resp := a.dial().call(req, 0).(*kmsg.DescribeUserSCRAMCredentialsResponse); resp.ErrorCode != 0 || len(resp.Results) != 0 {
		t.Errorf("%+v", resp)
	}
	for _, name := range []string{"twice", "once", "twice"} {
		u := kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
		u.Name = name
		req.Users = append(req.Users, u)
	}
	got := map[string]protocol.Code{}
	for _, u := range a.dial().call(req, 0).(*kmsg.DescribeUserSCRAMCredentialsResponse).Results {
		got[u.User] = u.ErrorCode
	}
	if len(got) != 2 || got["once"] != protocol.CodeResourceNotFound || got["twice"] != protocol.CodeDuplicateResource {
		t.Errorf("%v", got)
	}
}

// TestClientQuotas: all kinds of entities, their defaults, what is refused, and
// what a filter finds. Source: KIP-546.
func TestClientQuotas(t *testing.T) {
	a := newAPI(t)
	c := a.dial()
	for _, v := range versions(t, protocol.KeyAlterClientQuotas) {
		for _, tt := range []struct {
			what string
			e    kmsg.AlterClientQuotasRequestEntry
			want protocol.Code
		}{
			{"nobody", quotaEntry("", "producer_byte_rate=1"), protocol.CodeInvalidRequest},
			{"a kind that isn't", quotaEntry("group=g", "producer_byte_rate=1"), protocol.CodeInvalidRequest},
			{"an address and a user", quotaEntry("ip=10.0.0.1,user=a", "connection_creation_rate=1"), protocol.CodeInvalidRequest},
			{"no address", quotaEntry("ip=1.2.3.4.5", "connection_creation_rate=1"), protocol.CodeInvalidRequest},
			{"a key that isn't", quotaEntry("user=a", "bytes=1"), protocol.CodeInvalidRequest},
			{"a user's key for an address", quotaEntry("ip=10.0.0.1", "producer_byte_rate=1"), protocol.CodeInvalidRequest},
			{"nothing", quotaEntry("user=a", "producer_byte_rate=0"), protocol.CodeInvalidRequest},
			{"less than nothing", quotaEntry("user=a", "request_percentage=-1"), protocol.CodeInvalidRequest},
			{"a fraction of a byte", quotaEntry("user=a", "producer_byte_rate=1.5"), protocol.CodeInvalidRequest},
			{"too many connections", quotaEntry("ip=10.0.0.1", "connection_creation_rate=3e9"), protocol.CodeInvalidRequest},
			{"a key twice", quotaEntry("user=a", "producer_byte_rate=1", "producer_byte_rate=2"), protocol.CodeInvalidRequest},
			{"removing what isn't", quotaEntry("user=a", "bytes"), protocol.CodeNone},
		} {
			if got := c.alterQuotas(v, false, tt.e); len(got) != 1 || got[0] != tt.want {
				t.Errorf("v%d %s: %v, want %d", v, tt.what, got, tt.want)
			}
		}
		if got := c.alterQuotas(v, true, quotaEntry("user=a", "producer_byte_rate=7")); len(got) != 1 || got[0] != 0 {
			t.Errorf("v%d: only to be checked: %v", v, got)
		}
		if code, found := c.quotas(v, false); code != 0 || len(found) != 0 {
			t.Errorf("v%d: %d, something is there: %v", v, code, found)
		}
		codes := c.alterQuotas(v, false,
			quotaEntry("user=a", "producer_byte_rate=1000", "request_percentage=12.5"), quotaEntry("user=", "consumer_byte_rate=5"),
			quotaEntry("user=a,client-id=c", "controller_mutation_rate=0.5"), quotaEntry("client-id=", "producer_byte_rate=9"),
			quotaEntry("ip=10.0.0.1", "connection_creation_rate=3"), quotaEntry("ip=", "connection_creation_rate=4"), quotaEntry("user=b", "nonsense=1"))
		if want := "[0 0 0 0 0 0 42]"; fmt.Sprint(codes) != want {
			t.Errorf("v%d: %v, want %s", v, codes, want)
		}
		if a.kafka() {
			eventually(t, "the quotas show", func() bool { _, found := c.quotas(v, false); return len(found) == 6 })
		}
		for _, tt := range []struct {
			strict bool
			filter string
			want   string
		}{
			{false, "", "client-id=* producer_byte_rate=9|client-id=c user=a controller_mutation_rate=0.5|ip=* connection_creation_rate=4|ip=10.0.0.1 connection_creation_rate=3|user=* consumer_byte_rate=5|user=a producer_byte_rate=1000 request_percentage=12.5"},
			{false, "user=a", "client-id=c user=a controller_mutation_rate=0.5|user=a producer_byte_rate=1000 request_percentage=12.5"},
			{true, "user=a", "user=a producer_byte_rate=1000 request_percentage=12.5"},
			{false, "user=", "user=* consumer_byte_rate=5"},
			{true, "user,client-id", "client-id=c user=a controller_mutation_rate=0.5"},
			{true, "ip", "ip=* connection_creation_rate=4|ip=10.0.0.1 connection_creation_rate=3"},
			{true, "user=nobody", ""},
		} {
			var filter []string
			if tt.filter != "" {
				filter = strings.Split(tt.filter, ",")
			}
			if code, found := c.quotas(v, tt.strict, filter...); code != 0 || strings.Join(found, "|") != tt.want {
				t.Errorf("v%d %v %q: %d %q", v, tt.strict, tt.filter, code, found)
			}
		}
		for _, tt := range []struct {
			filter []string
			want   protocol.Code
		}{
			{[]string{""}, protocol.CodeInvalidRequest}, {[]string{"user", "user=a"}, protocol.CodeInvalidRequest},
			{[]string{"group"}, protocol.CodeUnsupportedVersion}, {[]string{"ip", "user"}, protocol.CodeInvalidRequest},
		} {
			if code, _ := c.quotas(v, false, tt.filter...); code != tt.want {
				t.Errorf("v%d %q: %d, want %d", v, tt.filter, code, tt.want)
			}
		}
		twice := c.alterQuotas(v, false, quotaEntry("user=a", "producer_byte_rate"), quotaEntry("user=a", "request_percentage"))
		if len(twice) != 1 || twice[0] != protocol.CodeInvalidRequest {
			t.Errorf("v%d: an entity twice: %v", v, twice)
		}
		c.alterQuotas(v, false, quotaEntry("user=a", "producer_byte_rate", "request_percentage"), quotaEntry("user=", "consumer_byte_rate"),
			quotaEntry("user=a,client-id=c", "controller_mutation_rate"), quotaEntry("client-id=", "producer_byte_rate"),
			quotaEntry("ip=10.0.0.1", "connection_creation_rate"), quotaEntry("ip=", "connection_creation_rate"))
		eventually(t, "no quotas are left", func() bool { _, found := c.quotas(v, false); return len(found) == 0 })
	}
}
