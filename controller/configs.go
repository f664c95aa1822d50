package controller

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// keyMinISR is the setting that ELR membership is relative to; keyUnclean lets
// anybody lead.
const (
	keyMinISR  = "min.insync.replicas"
	keyUnclean = "unclean.leader.election.enable"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// alterConfigs handles the legacy AlterConfigs v0–2: the settings given replace
// all that the resource has.
func (c *Controller) alterConfigs(view *metadata.Image, req *kmsg.AlterConfigsRequest) Result {
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	count := map[metadata.Resource]int{}
	for i := range req.Resources {
		count[resource(req.Resources[i].ResourceType, req.Resources[i].ResourceName)]++
	}
	r := Result{reply: resp}
	for i := range req.Resources {
		in := &req.Resources[i]
		res := resource(in.ResourceType, in.ResourceName)
		n := count[res]
		if n == 0 {
			continue // answered with the first
		}
		var unit []metadata.Record
		e := apiError{codeInvalidRequest, "each resource may be named once"}
		if n == 1 {
			unit, e = c.replaceConfigs(view, res, in.Configs)
		}
		count[res] = 0
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName, out.ErrorCode, out.ErrorMessage = in.ResourceType, in.ResourceName, e.code, e.text()
		resp.Resources = append(resp.Resources, out)
		if len(unit) > 0 && !req.ValidateOnly {
			r.Units = append(r.Units, unit)
			r.Units = append(r.Units, c.uncleanElections(view, res, unit)...)
		}
	}
	return r
}

func resource(t kmsg.ConfigResourceType, name string) metadata.Resource {
	return metadata.Resource{Type: metadata.ResourceType(t), Name: name}
}

// replaceConfigs returns the records that make configs all that res has.
func (c *Controller) replaceConfigs(view *metadata.Image, res metadata.Resource, configs []kmsg.AlterConfigsRequestResourceConfig) ([]metadata.Record, apiError) {
	if e := c.checkResource(view, res); e.failed() {
		return nil, e
	}
	next := make(map[string]string, len(configs))
	touched := map[string]bool{}
	for _, kv := range configs {
		switch {
		case touched[kv.Name]:
			return nil, apiError{codeInvalidRequest, fmt.Sprintf("setting %q is given twice", kv.Name)}
		case kv.Value == nil:
			return nil, apiError{codeInvalidRequest, fmt.Sprintf("setting %q has no value", kv.Name)}
		}
		next[kv.Name], touched[kv.Name] = *kv.Value, true
	}
	for k, v := range view.Config(res.Type, res.Name) { // order-free: a set
		if _, given := next[k]; !given && k == keyMinISR && c.pins(res) {
			next[k] = v // what is not named is not asked to go
		}
		touched[k] = true
	}
	return c.configUnit(view, res, next, touched)
}

// incrementalAlterConfigs handles IncrementalAlterConfigs v0–1.
func (c *Controller) incrementalAlterConfigs(view *metadata.Image, req *kmsg.IncrementalAlterConfigsRequest) Result {
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	count := map[metadata.Resource]int{}
	for i := range req.Resources {
		count[resource(req.Resources[i].ResourceType, req.Resources[i].ResourceName)]++
	}
	r := Result{reply: resp}
	for i := range req.Resources {
		in := &req.Resources[i]
		res := resource(in.ResourceType, in.ResourceName)
		n := count[res]
		if n == 0 {
			continue
		}
		var unit []metadata.Record
		e := apiError{codeInvalidRequest, "each resource may be named once"}
		if n == 1 {
			unit, e = c.editConfigs(view, res, in.Configs)
		}
		count[res] = 0
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName, out.ErrorCode, out.ErrorMessage = in.ResourceType, in.ResourceName, e.code, e.text()
		resp.Resources = append(resp.Resources, out)
		if len(unit) > 0 && !req.ValidateOnly {
			r.Units = append(r.Units, unit)
			r.Units = append(r.Units, c.uncleanElections(view, res, unit)...)
		}
	}
	return r
}

// editConfigs returns the records of single operations on the settings of res.
func (c *Controller) editConfigs(view *metadata.Image, res metadata.Resource, ops []kmsg.IncrementalAlterConfigsRequestResourceConfig) ([]metadata.Record, apiError) {
	if e := c.checkResource(view, res); e.failed() {
		return nil, e
	}
	next := maps.Clone(view.Config(res.Type, res.Name))
	if next == nil {
		next = map[string]string{}
	}
	touched := map[string]bool{}
	for _, op := range ops {
		if touched[op.Name] {
			return nil, apiError{codeInvalidRequest, fmt.Sprintf("setting %q is given twice", op.Name)}
		}
		touched[op.Name] = true
		if e := c.editConfig(res, next, op); e.failed() {
			return nil, e
		}
	}
	return c.configUnit(view, res, next, touched)
}

// editConfig does one operation on settings.
func (c *Controller) editConfig(res metadata.Resource, settings map[string]string, op kmsg.IncrementalAlterConfigsRequestResourceConfig) apiError {
	if op.Op == kmsg.IncrementalAlterConfigOpDelete {
		delete(settings, op.Name)
		return apiError{}
	}
	if op.Value == nil {
		return apiError{codeInvalidRequest, fmt.Sprintf("setting %q has no value", op.Name)}
	}
	switch op.Op {
	case kmsg.IncrementalAlterConfigOpSet:
		settings[op.Name] = *op.Value
		return apiError{}
	case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
	default:
		return apiError{codeInvalidRequest, fmt.Sprintf("setting %q: unknown operation %d", op.Name, op.Op)}
	}
	if !c.config.Rules.IsList(res.Type, op.Name) {
		return apiError{codeInvalidConfig, fmt.Sprintf("setting %q is not a list: it cannot be appended to or subtracted from", op.Name)}
	}
	old, ok := settings[op.Name]
	if !ok {
		old, _ = c.config.Rules.Default(res.Type, op.Name)
	}
	items := splitList(old)
	for _, v := range strings.Split(*op.Value, ",") {
		i := slices.Index(items, v)
		switch {
		case op.Op == kmsg.IncrementalAlterConfigOpAppend && i < 0:
			items = append(items, v)
		case op.Op == kmsg.IncrementalAlterConfigOpSubtract && i >= 0:
			items = slices.Delete(items, i, i+1)
		}
	}
	settings[op.Name] = strings.Join(items, ",")
	return apiError{}
}

func splitList(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// checkResource reports whether res exists and can have dynamic settings.
func (c *Controller) checkResource(view *metadata.Image, res metadata.Resource) apiError {
	switch res.Type {
	case metadata.TopicResource:
		switch {
		case res.Name == "":
			return apiError{codeInvalidRequest, "a topic resource needs a name"}
		case view.Topic(res.Name) == nil:
			if why := CheckTopicName(res.Name); why != "" {
				return apiError{codeInvalidTopic, why}
			}
			return apiError{codeUnknownTopicOrPartition, fmt.Sprintf("no topic %q", res.Name)}
		}
		return apiError{}
	case metadata.BrokerResource:
		if res.Name == "" {
			return apiError{} // the cluster's default
		}
		id, err := strconv.ParseInt(res.Name, 10, 32)
		if err != nil || id < 0 {
			return apiError{codeInvalidRequest, fmt.Sprintf("broker %q is not a number of a broker", res.Name)}
		}
		if view.Broker(model.BrokerID(id)) == nil {
			return apiError{codeBrokerIDNotRegistered, fmt.Sprintf("broker %d is not registered", id)}
		}
		return apiError{}
	}
	if res.Type == metadata.GroupResource { // it need not exist
		if res.Name == "" {
			return apiError{codeInvalidRequest, "Default group resources are not allowed."}
		}
		return apiError{}
	}
	if res.Type == metadata.ClientMetricsResource { // set is made
		if res.Name == "" {
			return apiError{codeInvalidRequest, "a subscription to clients' metrics needs a name"}
		}
		return apiError{}
	}
	return apiError{codeInvalidRequest, fmt.Sprintf("resource type %d has no settings that can be altered here", res.Type)}
}

// pins reports whether res must have a minimum of in-sync replicas.
func (c *Controller) pins(res metadata.Resource) bool {
	return c.config.PinMinISR && res == metadata.Resource{Type: metadata.BrokerResource}
}

// configUnit returns the records that take res to its next settings, of which
// the touched keys may differ, after a check of the whole.
func (c *Controller) configUnit(view *metadata.Image, res metadata.Resource, next map[string]string, touched map[string]bool) ([]metadata.Record, apiError) {
	keys := sortedKeys(touched)
	if _, kept := next[keyMinISR]; c.pins(res) && touched[keyMinISR] && !kept {
		return nil, apiError{codeInvalidConfig, "the cluster's " + keyMinISR + " can be altered, not removed"}
	}
	if e := c.checkSettings(res, next, keys); e.failed() {
		return nil, e
	}
	old := view.Config(res.Type, res.Name)
	var unit []metadata.Record
	for _, k := range keys {
		was, had := old[k]
		is, has := next[k]
		switch {
		case has && (!had || was != is):
			unit = append(unit, &metadata.ConfigRecord{Resource: res, Key: k, Value: &is})
		case had && !has:
			unit = append(unit, &metadata.ConfigRecord{Resource: res, Key: k})
		default:
			continue
		}
		if k != keyMinISR {
			continue
		}
		if res.Type == metadata.BrokerResource && res.Name != "" {
			return nil, apiError{codeInvalidRequest, keyMinISR + " cannot be set for one broker: eligible leaders depend on one value"}
		}
		if !mutant.On("ctl-elr-kept") {
			unit = append(unit, clearELR(view, res)...)
		}
	}
	return unit, apiError{}
}

// checkSettings says what is wrong with the settings of a resource, of which the
// changed keys differ from what it has.
func (c *Controller) checkSettings(res metadata.Resource, next map[string]string, changed []string) apiError {
	switch res.Type {
	case metadata.TopicResource:
		if err := c.config.Rules.CheckTopic(next); err != nil {
			return apiError{codeInvalidConfig, err.Error()}
		}
	case metadata.GroupResource:
		if err := c.config.Rules.CheckGroup(next); err != nil {
			return apiError{codeInvalidConfig, err.Error()}
		}
	case metadata.ClientMetricsResource:
		if err := c.config.Rules.CheckClientMetrics(next); err != nil {
			var op *config.BadOp
			if errors.As(err, &op) && op.Request {
				return apiError{codeInvalidRequest, err.Error()}
			}
			return apiError{codeInvalidConfig, err.Error()}
		}
	default:
		if err := c.config.Rules.CheckBroker(res.Name == "", next, changed); err != nil {
			// For a broker's settings Kafka says INVALID_REQUEST, also of a bad value.
			return apiError{codeInvalidRequest, err.Error()}
		}
	}
	return apiError{}
}

// clearELR empties the eligible leaders of the topics that a changed
// min.insync.replicas applies to: they were chosen under another minimum and
// may lack what was committed since. It goes into the entry of the change.
func clearELR(view *metadata.Image, res metadata.Resource) (recs []metadata.Record) {
	for t := range view.Topics() {
		if res.Type == metadata.TopicResource && t.Name != res.Name {
			continue
		}
		for n, p := range t.Partitions {
			if len(p.ELR) == 0 {
				continue
			}
			r := metadata.NewPartitionChange(t.ID, int32(n))
			r.ELR = []model.BrokerID{}
			if len(p.ISR) == 0 { // they are still the best there is
				r.LastKnown = p.ELR
			}
			recs = append(recs, r)
		}
	}
	return recs
}

// uncleanElections returns the elections that a changed setting allows at once:
// of the partitions without a leader, once the records of unit hold.
func (c *Controller) uncleanElections(view *metadata.Image, res metadata.Resource, unit []metadata.Record) [][]metadata.Record {
	touched := slices.ContainsFunc(unit, func(r metadata.Record) bool {
		cr, ok := r.(*metadata.ConfigRecord)
		return ok && cr.Key == keyUnclean
	})
	if !touched || view.Offline() == 0 {
		return nil
	}
	after, _, err := metadata.Apply(view, view.At(), unit)
	if err != nil {
		return nil // Replay will say so
	}
	s := c.settings(after)
	leaderless := func(p *metadata.PartitionRegistration) bool { return p.Leader == model.NoLeader }
	if res.Type == metadata.TopicResource {
		return chunked(c.changesOf(s, after.Topic(res.Name), leaderless, nil))
	}
	return chunked(c.changes(after, leaderless, nil))
}
