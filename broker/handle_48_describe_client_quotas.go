package broker

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// How a part of a filter matches an entity. Source: KIP-546.
const (
	matchExact     = 0
	matchDefault   = 1
	matchSpecified = 2
)

// DescribeClientQuotas (48), versions 0-1.
//
// The quotas of users, client ids and addresses that match a filter (KIP-546).
// They are stored and shown; no request is slowed down by them yet. A filter that
// makes no sense is INVALID_REQUEST, one for a kind of entity that Kafka doesn't
// know UNSUPPORTED_VERSION.
func (b *Broker) handleDescribeClientQuotas(r *server.Request) {
	req := r.Msg.(*kmsg.DescribeClientQuotasRequest)
	resp := req.ResponseKind().(*kmsg.DescribeClientQuotasResponse)
	if code, why := checkQuotaFilter(req.Components); code != protocol.CodeNone {
		resp.ErrorCode, resp.ErrorMessage = code, &why
		r.Reply(resp)
		return
	}
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{}
	for res, quotas := range b.quorum.Image().ConfigResources() {
		if res.Type != metadata.QuotaResource {
			continue
		}
		entity, err := metadata.ParseQuotaEntity(res.Name)
		if err != nil || !quotaMatches(entity, req) {
			continue
		}
		resp.Entries = append(resp.Entries, describedQuota(entity, quotas))
	}
	r.Reply(resp)
}

// checkQuotaFilter says what is wrong with a filter, in Kafka's order.
func checkQuotaFilter(parts []kmsg.DescribeClientQuotasRequestComponent) (protocol.Code, string) {
	seen := map[string]bool{}
	for i := range parts {
		p := &parts[i]
		switch {
		case p.EntityType == "":
			return protocol.CodeInvalidRequest, "Invalid empty entity type."
		case seen[p.EntityType]:
			return protocol.CodeInvalidRequest, "Entity type " + p.EntityType + " cannot appear more than once in the filter."
		case p.EntityType != metadata.QuotaUser && p.EntityType != metadata.QuotaClientID && p.EntityType != metadata.QuotaIP:
			return protocol.CodeUnsupportedVersion, "Unsupported entity type " + p.EntityType
		case p.MatchType == matchExact && p.Match == nil:
			return protocol.CodeInvalidRequest, "Request specified MATCH_TYPE_EXACT, but set match string to null."
		case p.MatchType != matchExact && p.MatchType != matchDefault && p.MatchType != matchSpecified:
			return protocol.CodeInvalidRequest, fmt.Sprintf("Unknown match type %d", p.MatchType)
		case p.MatchType != matchExact && p.Match != nil:
			return protocol.CodeInvalidRequest, "Request specified a match type without a string, but also a match string."
		}
		seen[p.EntityType] = true
	}
	if seen[metadata.QuotaIP] && len(seen) > 1 {
		return protocol.CodeInvalidRequest, "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component."
	}
	return protocol.CodeNone, ""
}

// quotaMatches reports whether an entity passes the filter; a strict one lets only
// those pass that have no other part.
func quotaMatches(entity metadata.QuotaEntity, req *kmsg.DescribeClientQuotasRequest) bool {
	if req.Strict && len(entity) != len(req.Components) {
		return false
	}
	for i := range req.Components {
		c := &req.Components[i]
		at := slices.IndexFunc(entity, func(p metadata.QuotaPart) bool { return p.Kind == c.EntityType })
		switch {
		case at < 0:
			return false
		case c.MatchType == matchDefault && entity[at].Name != nil:
			return false
		case c.MatchType == matchExact && (entity[at].Name == nil || *entity[at].Name != *c.Match):
			return false
		}
	}
	return true
}

func describedQuota(entity metadata.QuotaEntity, quotas map[string]string) kmsg.DescribeClientQuotasResponseEntry {
	e := kmsg.NewDescribeClientQuotasResponseEntry()
	for _, p := range entity {
		ep := kmsg.NewDescribeClientQuotasResponseEntryEntity()
		ep.Type, ep.Name = p.Kind, p.Name
		e.Entity = append(e.Entity, ep)
	}
	for _, key := range slices.Sorted(maps.Keys(quotas)) {
		if value, err := strconv.ParseFloat(quotas[key], 64); err == nil {
			v := kmsg.NewDescribeClientQuotasResponseEntryValue()
			v.Key, v.Value = key, value
			e.Values = append(e.Values, v)
		}
	}
	return e
}
