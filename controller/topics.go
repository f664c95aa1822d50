package controller

import (
	"fmt"
	"slices"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadataTopic is reserved: it is shown by DescribeQuorum and never a topic.
const metadataTopic = "__cluster_metadata"

// createTopics handles CreateTopics v2–7. Each topic stands for itself: its
// records are one unit, its errors do not touch the others.
func (c *Controller) createTopics(view *metadata.Image, req *kmsg.CreateTopicsRequest) Result {
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	count := map[string]int{}
	for _, t := range req.Topics {
		count[t.Topic]++
	}
	r := Result{reply: resp}
	for i := range req.Topics {
		t := &req.Topics[i]
		if n := count[t.Topic]; n == 0 {
			continue // the duplicates were answered with the first
		} else if n > 1 {
			count[t.Topic] = 0
			resp.Topics = append(resp.Topics, createdTopic(t.Topic, apiError{codeInvalidRequest, "duplicate topic name"}))
			continue
		}
		out, unit, e := c.createTopic(view, t)
		if e.failed() {
			resp.Topics = append(resp.Topics, createdTopic(t.Topic, e))
			continue
		}
		// Later topics of the request see this one, so that two names which
		// collide cannot both be made.
		next, _, err := metadata.Apply(view, view.At(), unit)
		if err != nil {
			resp.Topics = append(resp.Topics, createdTopic(t.Topic, apiError{codeUnknownServerError, err.Error()}))
			continue
		}
		view = next
		resp.Topics = append(resp.Topics, out)
		if !req.ValidateOnly {
			r.Units = append(r.Units, unit)
		}
	}
	return r
}

// createTopic checks one topic and returns its answer and its records.
func (c *Controller) createTopic(view *metadata.Image, t *kmsg.CreateTopicsRequestTopic) (kmsg.CreateTopicsResponseTopic, []metadata.Record, apiError) {
	var none kmsg.CreateTopicsResponseTopic
	if e := checkNewTopic(view, t.Topic); e.failed() {
		return none, nil, e
	}
	overrides, e := c.newTopicConfigs(t.Configs)
	if e.failed() {
		return none, nil, e
	}
	assigned, e := c.assignNewTopic(view, t)
	if e.failed() {
		return none, nil, e
	}
	id := c.newTopicID(view)
	unit := make([]metadata.Record, 0, 1+len(overrides)+len(assigned))
	unit = append(unit, &metadata.TopicRecord{Name: t.Topic, ID: id})
	res := metadata.Resource{Type: metadata.TopicResource, Name: t.Topic}
	for _, k := range sortedKeys(overrides) {
		v := overrides[k]
		unit = append(unit, &metadata.ConfigRecord{Resource: res, Key: k, Value: &v})
	}
	for i, replicas := range assigned {
		unit = append(unit, newPartition(view, id, int32(i), replicas))
	}
	out := kmsg.NewCreateTopicsResponseTopic()
	out.Topic, out.TopicID = t.Topic, id
	out.NumPartitions, out.ReplicationFactor = int32(len(assigned)), int16(len(assigned[0]))
	out.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
	for _, ec := range c.config.Rules.EffectiveTopic(view, overrides) {
		rc := kmsg.NewCreateTopicsResponseTopicConfig()
		rc.Name, rc.Value, rc.ReadOnly, rc.Source, rc.IsSensitive = ec.Name, ec.Value, ec.ReadOnly, ec.Source, ec.Sensitive
		out.Configs = append(out.Configs, rc)
	}
	return out, unit, apiError{}
}

func checkNewTopic(view *metadata.Image, name string) apiError {
	switch {
	case name == metadataTopic:
		return apiError{codeInvalidRequest, fmt.Sprintf("topic %q is reserved", name)}
	case view.Topic(name) != nil:
		return apiError{codeTopicExists, fmt.Sprintf("topic %q already exists", name)}
	}
	if why := CheckTopicName(name); why != "" {
		return apiError{codeInvalidTopic, why}
	}
	if other := collision(view, name); other != "" {
		return apiError{codeInvalidTopic, fmt.Sprintf("topic %q collides with existing topic %q: '.' and '_' count as equal", name, other)}
	}
	return apiError{}
}

// newTopicConfigs checks the settings of a new topic.
func (c *Controller) newTopicConfigs(configs []kmsg.CreateTopicsRequestTopicConfig) (map[string]string, apiError) {
	overrides := make(map[string]string, len(configs))
	for _, kv := range configs {
		switch _, twice := overrides[kv.Name]; {
		case twice:
			return nil, apiError{codeInvalidRequest, fmt.Sprintf("setting %q is given twice", kv.Name)}
		case kv.Value == nil:
			return nil, apiError{codeInvalidConfig, fmt.Sprintf("setting %q has no value", kv.Name)}
		}
		overrides[kv.Name] = *kv.Value
	}
	if err := c.config.Rules.CheckTopic(overrides); err != nil {
		return nil, apiError{codeInvalidConfig, err.Error()}
	}
	return overrides, apiError{}
}

// assignNewTopic returns the replicas of each partition of a new topic.
func (c *Controller) assignNewTopic(view *metadata.Image, t *kmsg.CreateTopicsRequestTopic) ([][]model.BrokerID, apiError) {
	if len(t.ReplicaAssignment) > 0 {
		return manualAssignment(view, t)
	}
	rf, n := t.ReplicationFactor, t.NumPartitions
	switch {
	case rf < -1 || rf == 0:
		return nil, apiError{codeInvalidReplicationFactor, fmt.Sprintf("replication factor %d: must be above 0, or -1 for the default", rf)}
	case n < -1 || n == 0:
		return nil, apiError{codeInvalidPartitions, fmt.Sprintf("%d partitions: must be above 0, or -1 for the default", n)}
	}
	if rf == -1 {
		rf = c.config.ReplicationFactor
	}
	if n == -1 {
		n = c.config.NumPartitions
	}
	if n > RecordsMax {
		return nil, apiError{codePolicyViolation, fmt.Sprintf("excessively large operation: %d partitions, at most %d at once", n, RecordsMax)}
	}
	return c.place(view, 0, n, int(rf))
}

// manualAssignment checks the replicas that the client chose itself.
func manualAssignment(view *metadata.Image, t *kmsg.CreateTopicsRequestTopic) ([][]model.BrokerID, apiError) {
	switch {
	case t.ReplicationFactor != -1:
		return nil, apiError{codeInvalidRequest, "replicas are assigned by hand: the replication factor must be -1"}
	case t.NumPartitions != -1:
		return nil, apiError{codeInvalidRequest, "replicas are assigned by hand: the number of partitions must be -1"}
	}
	assigned := make([][]model.BrokerID, len(t.ReplicaAssignment))
	for _, a := range t.ReplicaAssignment {
		if a.Partition < 0 || int(a.Partition) >= len(assigned) {
			return nil, apiError{codeInvalidReplicaAssignment, fmt.Sprintf("partition %d: numbers must run from 0 to %d", a.Partition, len(assigned)-1)}
		}
		if assigned[a.Partition] != nil {
			return nil, apiError{codeInvalidReplicaAssignment, fmt.Sprintf("partition %d is assigned twice", a.Partition)}
		}
		assigned[a.Partition] = brokerIDs(a.Replicas)
	}
	for i, replicas := range assigned {
		if e := checkReplicas(view, int32(i), replicas, len(assigned[0])); e.failed() {
			return nil, e
		}
	}
	return assigned, apiError{}
}

// brokerIDs returns ids as broker ids; never nil.
func brokerIDs(ids []int32) []model.BrokerID {
	out := make([]model.BrokerID, len(ids))
	for i, id := range ids {
		out[i] = model.BrokerID(id)
	}
	return out
}

// checkReplicas checks the hand-made assignment of partition p: rf distinct
// registered brokers, at least one of them active.
func checkReplicas(view *metadata.Image, p int32, replicas []model.BrokerID, rf int) apiError {
	bad := func(format string, args ...any) apiError {
		return apiError{codeInvalidReplicaAssignment, fmt.Sprintf("partition %d: ", p) + fmt.Sprintf(format, args...)}
	}
	if len(replicas) == 0 {
		return bad("the replica list is empty")
	}
	active := false
	for i, id := range replicas {
		b := view.Broker(id)
		if b == nil {
			return bad("broker %d is not registered", id)
		}
		if slices.Contains(replicas[:i], id) {
			return bad("broker %d is listed twice", id)
		}
		active = active || b.Active()
	}
	if len(replicas) != rf {
		return bad("%d replicas, the other partitions have %d", len(replicas), rf)
	}
	if !active {
		return bad("all of its brokers %v are fenced or shutting down", replicas)
	}
	return apiError{}
}

// newPartition returns the record of a new partition: both epochs 0, the active
// replicas in sync, the first of them leading.
func newPartition(view *metadata.Image, id model.TopicID, n int32, replicas []model.BrokerID) *metadata.PartitionRecord {
	p := &metadata.PartitionRecord{TopicID: id, Partition: n}
	p.Replicas, p.Leader = replicas, model.NoLeader
	p.Directories = make([]metadata.DirectoryID, len(replicas))
	known := false
	for i, b := range replicas {
		reg := view.Broker(b)
		if len(reg.Directories) == 1 { // the broker has no choice
			p.Directories[i], known = reg.Directories[0], true
		}
		if !reg.Active() {
			continue
		}
		p.ISR = append(p.ISR, b)
		if p.Leader == model.NoLeader {
			p.Leader = b
		}
	}
	if !known {
		p.Directories = nil
	}
	return p
}

// newTopicID draws an id that is not in use. It has the bits of a random UUID,
// is none of the reserved ones (zero, the metadata topic's) and does not print
// with a leading dash, which tools would take for an option.
func (c *Controller) newTopicID(view *metadata.Image) model.TopicID {
	for {
		var id model.TopicID
		for i := 0; i < len(id); i += 8 {
			v := c.config.Rand.Uint64()
			for j := range 8 {
				id[i+j] = byte(v >> (8 * j))
			}
		}
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
		if id.String()[0] != '-' && view.TopicByID(id) == nil {
			return id
		}
	}
}

// deleteTopics handles DeleteTopics v1–6, by name and by id.
func (c *Controller) deleteTopics(view *metadata.Image, req *kmsg.DeleteTopicsRequest) Result {
	if c.config.TopicDeletionDisabled {
		code := codeTopicDeletionDisabled
		if req.Version < 3 {
			code = codeInvalidRequest
		}
		return Result{reply: ErrorReply(req, code, "topic deletion is disabled")}
	}
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	r := Result{reply: resp}
	wanted := deletions(req)
	names, ids := map[string]int{}, map[model.TopicID]int{}
	for _, w := range wanted {
		if w.Topic != nil {
			names[*w.Topic]++
		} else {
			ids[w.TopicID]++
		}
	}
	gone := map[model.TopicID]bool{}
	for _, w := range wanted {
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID = w.Topic, w.TopicID
		t, e := findDeletion(view, w, names, ids)
		switch {
		case e.failed():
		case gone[t.ID]:
			e = apiError{codeInvalidRequest, fmt.Sprintf("topic %q is named by its id as well", t.Name)}
		default:
			gone[t.ID] = true
			out.Topic, out.TopicID = &t.Name, t.ID
			r.Units = append(r.Units, []metadata.Record{&metadata.RemoveTopic{ID: t.ID}})
		}
		out.ErrorCode, out.ErrorMessage = e.code, e.text()
		resp.Topics = append(resp.Topics, out)
	}
	return r
}

// findDeletion resolves one wish of DeleteTopics.
func findDeletion(view *metadata.Image, w kmsg.DeleteTopicsRequestTopic, names map[string]int, ids map[model.TopicID]int) (*metadata.Topic, apiError) {
	if w.Topic == nil {
		switch t := view.TopicByID(w.TopicID); {
		case w.TopicID == model.NoTopicID:
			return nil, apiError{codeInvalidRequest, "neither topic name nor topic id is given"}
		case ids[w.TopicID] > 1:
			return nil, apiError{codeInvalidRequest, "duplicate topic id"}
		case t == nil:
			return nil, apiError{codeUnknownTopicID, fmt.Sprintf("no topic has id %s", model.TopicID(w.TopicID))}
		default:
			return t, apiError{}
		}
	}
	switch t := view.Topic(*w.Topic); {
	case w.TopicID != model.NoTopicID:
		return nil, apiError{codeInvalidRequest, "topic name and topic id are both given"}
	case names[*w.Topic] > 1:
		return nil, apiError{codeInvalidRequest, "duplicate topic name"}
	case t == nil:
		return nil, apiError{codeUnknownTopicOrPartition, fmt.Sprintf("no topic %q", *w.Topic)}
	default:
		return t, apiError{}
	}
}
