package controller

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller/metadata"
)

// quotaKind is what a quota's value may be.
type quotaKind struct {
	whole bool    // a fraction means nothing
	most  float64 // if it is whole
}

// quotaOf returns the kind of a quota of an entity that is an address, or is not;
// false if it can't have it. Source: Kafka's QuotaConfig.
func quotaOf(key string, address bool) (quotaKind, bool) {
	switch {
	case address && key == "connection_creation_rate":
		return quotaKind{whole: true, most: math.MaxInt32}, true
	case address:
	case key == "producer_byte_rate", key == "consumer_byte_rate":
		return quotaKind{whole: true, most: math.MaxInt64}, true
	case key == "request_percentage", key == "controller_mutation_rate":
		return quotaKind{}, true
	}
	return quotaKind{}, false
}

// alterClientQuotas handles AlterClientQuotas v0–1: each entity by itself, though
// all that is good goes into the log together.
func (c *Controller) alterClientQuotas(view *metadata.Image, req *kmsg.AlterClientQuotasRequest) Result {
	resp := req.ResponseKind().(*kmsg.AlterClientQuotasResponse)
	at := map[string]int{} // answers by entity
	var unit []metadata.Record
	for i := range req.Entries {
		in := &req.Entries[i]
		res, e := quotaResource(in.Entity)
		if n, again := at[res.Name]; again {
			resp.Entries[n].ErrorCode, resp.Entries[n].ErrorMessage = codeInvalidRequest, ptr("the entity is given twice: the second is ignored")
			continue
		}
		var recs []metadata.Record
		if !e.failed() {
			recs, e = editQuotas(view, res, in)
		}
		if !e.failed() {
			unit = append(unit, recs...)
		}
		at[res.Name] = len(resp.Entries)
		resp.Entries = append(resp.Entries, alteredQuota(in, e))
	}
	r := Result{reply: resp}
	if len(unit) > 0 && !req.ValidateOnly {
		r.Units = append(r.Units, unit)
	}
	return r
}

func ptr(s string) *string { return &s }

func alteredQuota(in *kmsg.AlterClientQuotasRequestEntry, e apiError) kmsg.AlterClientQuotasResponseEntry {
	out := kmsg.NewAlterClientQuotasResponseEntry()
	out.ErrorCode, out.ErrorMessage = e.code, e.text()
	for _, part := range in.Entity {
		p := kmsg.NewAlterClientQuotasResponseEntryEntity()
		p.Type, p.Name = part.Type, part.Name
		out.Entity = append(out.Entity, p)
	}
	return out
}

// quotaResource is where an entity's quotas stand in the image.
func quotaResource(parts []kmsg.AlterClientQuotasRequestEntryEntity) (metadata.Resource, apiError) {
	var q metadata.QuotaEntity
	for _, p := range parts {
		q = append(q, metadata.QuotaPart{Kind: p.Type, Name: p.Name})
	}
	res := metadata.Resource{Type: metadata.QuotaResource, Name: q.Key()}
	has := map[string]bool{}
	for _, p := range q {
		switch {
		case p.Kind != metadata.QuotaUser && p.Kind != metadata.QuotaClientID && p.Kind != metadata.QuotaIP:
			return res, apiError{codeInvalidRequest, "Unhandled client quota entity type: " + p.Kind}
		case has[p.Kind]:
			return res, apiError{codeInvalidRequest, "Invalid client quota entity, duplicate entity entry " + p.Kind}
		case p.Kind == metadata.QuotaIP && p.Name != nil:
			if _, err := netip.ParseAddr(*p.Name); err != nil {
				return res, apiError{codeInvalidRequest, *p.Name + " is not an IP address."}
			}
		}
		has[p.Kind] = true
	}
	switch {
	case len(q) == 0:
		return res, apiError{codeInvalidRequest, "Invalid empty client quota entity"}
	case has[metadata.QuotaIP] && len(q) > 1:
		return res, apiError{codeInvalidRequest, "Invalid quota entity combination, IP entity should not be combined with User or ClientId"}
	}
	return res, apiError{}
}

// editQuotas returns the records of the operations on one entity's quotas.
func editQuotas(view *metadata.Image, res metadata.Resource, in *kmsg.AlterClientQuotasRequestEntry) ([]metadata.Record, apiError) {
	address := in.Entity[0].Type == metadata.QuotaIP
	now := view.Config(res.Type, res.Name)
	done := map[string]bool{}
	var recs []metadata.Record
	for _, op := range in.Ops {
		if done[op.Key] {
			return nil, apiError{codeInvalidRequest, fmt.Sprintf("Duplicate quota key %s", op.Key)}
		}
		done[op.Key] = true
		was, set := now[op.Key]
		if op.Remove {
			if set {
				recs = append(recs, &metadata.ConfigRecord{Resource: res, Key: op.Key})
			}
			continue
		}
		if e := checkQuota(address, op.Key, op.Value); e.failed() {
			return nil, e
		}
		if is := strconv.FormatFloat(op.Value, 'g', -1, 64); !set || is != was {
			recs = append(recs, &metadata.ConfigRecord{Resource: res, Key: op.Key, Value: &is})
		}
	}
	return recs, apiError{}
}

// checkQuota says what is wrong with a quota. Source: Kafka's
// ClientQuotaControlManager.
func checkQuota(address bool, key string, value float64) apiError {
	kind, ok := quotaOf(key, address)
	switch {
	case !ok:
		return apiError{codeInvalidRequest, "Invalid configuration key " + key}
	case !(value > 0): // also what is no number
		return apiError{codeInvalidRequest, "Quota " + key + " must be greater than 0"}
	case kind.whole && value > kind.most:
		return apiError{codeInvalidRequest, "Proposed value for " + key + " is too large."}
	case kind.whole && math.Abs(math.Mod(value, 1)) > 1e-6:
		return apiError{codeInvalidRequest, key + " cannot be a fractional value."}
	case math.IsInf(value, 0):
		return apiError{codeInvalidRequest, "Quota " + key + " must be a number"}
	}
	return apiError{}
}

func failAlterClientQuotas(req *kmsg.AlterClientQuotasRequest, e apiError) kmsg.Response {
	r := req.ResponseKind().(*kmsg.AlterClientQuotasResponse)
	for i := range req.Entries {
		r.Entries = append(r.Entries, alteredQuota(&req.Entries[i], e))
	}
	return r
}
