package controller

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestTranscripts runs testdata: each command prints its answer, the records
// that it made, and the partitions and brokers that these changed.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := newWorld(t, 7)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.t = t
			return w.run(d)
		})
	})
}

func (w *world) run(d *datadriven.TestData) string {
	switch d.Cmd {
	case "register":
		return w.runRegister(d)
	case "heartbeat":
		req := w.heartbeatRequest(brokerArg(d))
		req.WantFence, req.WantShutdown = d.HasArg("fence"), d.HasArg("shutdown")
		scan(d, "epoch", &req.BrokerEpoch)
		scan(d, "offset", &req.CurrentMetadataOffset)
		if d.HasArg("offline") {
			req.OfflineLogDirs = [][16]byte{{0xd, byte(req.BrokerID), 0}}
		}
		return w.show(Command{Request: req})
	case "unregister":
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = int32(brokerArg(d))
		return w.show(Command{Request: req})
	case "producer-ids":
		req := kmsg.NewPtrAllocateProducerIDsRequest()
		req.BrokerID = int32(brokerArg(d))
		req.BrokerEpoch = w.heartbeatRequest(model.BrokerID(req.BrokerID)).BrokerEpoch
		scan(d, "epoch", &req.BrokerEpoch)
		return w.show(Command{Request: req})
	case "create":
		return w.show(Command{Request: createInput(d)})
	case "delete":
		return w.show(Command{Request: w.deleteInput(d)})
	case "grow":
		return w.show(Command{Request: growInput(d)})
	case "alter", "alter-incremental":
		return w.show(Command{Request: alterInput(d)})
	case "isr":
		return w.runISR(d)
	case "elect":
		return w.show(Command{Request: electInput(d)})
	case "reassign":
		return w.show(Command{Request: reassignInput(d)})
	case "reassignments":
		return answer(ListReassignments(w.c.Image(), kmsg.NewPtrListPartitionReassignmentsRequest()))
	case "features":
		return w.show(Command{Request: featuresInput(d)})
	case "hint":
		ago := int64(0)
		scan(d, "ago", &ago)
		hints := []FenceHint{{Broker: brokerArg(d), Since: w.now.Mono - model.Instant(ago)*1e6}}
		for _, f := range strings.Fields(d.Input) { // with others
			n, err := strconv.Atoi(f)
			if err != nil {
				panic(err)
			}
			hints = append(hints, FenceHint{Broker: model.BrokerID(n), Since: hints[0].Since})
		}
		return w.show(Command{Hints: hints})
	case "stalled":
		b := brokerArg(d)
		r := &DamageReport{Broker: b, Epoch: model.BrokerEpoch(w.heartbeatRequest(b).BrokerEpoch)}
		for _, f := range strings.Fields(d.Input) {
			r.Stalled = append(r.Stalled, w.replica(f))
		}
		return w.show(Command{Damage: r})
	case "damage":
		b := brokerArg(d)
		r := &DamageReport{Broker: b, Epoch: model.BrokerEpoch(w.heartbeatRequest(b).BrokerEpoch)}
		for _, f := range strings.Fields(d.Input) { // topic-n, or topic-n:offset if it can be read below that
			name, below, readable := strings.Cut(f, ":")
			id := w.replica(name)
			r.Replicas = append(r.Replicas, id)
			if readable {
				r.Remnants = append(r.Remnants, ReplicaEnd{id, metadata.RemnantEnd(model.Offset(number(below)))})
			}
		}
		return w.show(Command{Damage: r})
	case "counters":
		return fmt.Sprintf("%+v", w.c.Counters())
	case "pin": // as a controller that makes its minimum the cluster's
		w.c.config.PinMinISR = true
		cfg, _, _, err := config.Load(config.Sources{Flags: []string{"min.insync.replicas=" + d.CmdArgs[0].Key}})
		if err != nil {
			d.Fatalf(w.t.(*testing.T), "%v", err)
		}
		w.c.config.Rules = NewConfigRules(cfg)
		w.c.Deactivate()
		w.c.Activate(w.now)
		return ""
	case "activate":
		w.c.Deactivate()
		w.c.Activate(w.now)
		return ""
	case "sleep":
		dur, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(w.t.(*testing.T), "%v", err)
		}
		w.now.Mono += model.Instant(dur)
		w.now.Wall += model.Timestamp(dur.Milliseconds())
		return ""
	case "tick":
		return w.runTick()
	case "image":
		return w.describe()
	}
	d.Fatalf(w.t.(*testing.T), "unknown command %q", d.Cmd)
	return ""
}

func scan(d *datadriven.TestData, key string, v *int64) {
	if arg, ok := d.Arg(key); ok {
		n, err := strconv.ParseInt(arg.Vals[0], 10, 64)
		if err != nil {
			panic(err)
		}
		*v = n
	}
}

func brokerArg(d *datadriven.TestData) model.BrokerID {
	n, err := strconv.Atoi(d.CmdArgs[0].Key)
	if err != nil {
		panic(err)
	}
	return model.BrokerID(n)
}

func (w *world) runRegister(d *datadriven.TestData) string {
	life, dirs := int64(1), int64(1)
	scan(d, "life", &life)
	scan(d, "dirs", &dirs)
	rack := ""
	if arg, ok := d.Arg("rack"); ok {
		rack = arg.Vals[0]
	}
	req := w.registerRequest(brokerArg(d), int(life), rack, int(dirs))
	scan(d, "previous", &req.PreviousBrokerEpoch)
	if d.HasArg("wiped") {
		req.LogDirs[0][15] = byte(life)
	}
	if d.HasArg("cluster") {
		req.ClusterID = "another"
	}
	cmd := Command{Request: req}
	if arg, ok := d.Arg("stop"); ok {
		stops := map[string]metadata.Stop{"clean": metadata.StopClean, "process": metadata.StopProcess, "power": metadata.StopPower}
		cmd.Registration = &RegistrationFacts{Stop: stops[arg.Vals[0]]}
	}
	if arg, ok := d.Arg("damaged"); ok {
		for _, v := range arg.Vals {
			cmd.Registration.Damaged = append(cmd.Registration.Damaged, w.replica(v))
		}
	}
	if arg, ok := d.Arg("ends"); ok { // topic-n:epoch:end
		if cmd.Registration == nil {
			cmd.Registration = &RegistrationFacts{Stop: metadata.StopPower}
		}
		cmd.Registration.Ends = []ReplicaEnd{}
		for _, v := range arg.Vals {
			if v == "" {
				continue
			}
			f := strings.Split(v, ":")
			cmd.Registration.Ends = append(cmd.Registration.Ends, ReplicaEnd{w.replica(f[0]),
				model.OffsetAndEpoch{Epoch: model.LeaderEpoch(number(f[1])), Offset: model.Offset(number(f[2]))}})
		}
	}
	return w.show(cmd)
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// replica reads topic or topic-n.
func (w *world) replica(s string) model.TopicIDPartition {
	name, n := s, int64(0)
	if i := strings.LastIndexByte(s, '-'); i >= 0 {
		name, n = s[:i], number(s[i+1:])
	}
	return model.TopicIDPartition{TopicID: w.c.Image().Topic(name).ID, Partition: int32(n)}
}

// runISR is an AlterPartition of one broker, a partition a line:
// topic-n 1,2@epoch [leader=e] [partition=p] [recovery=r]. What is left out is as
// registered.
func (w *world) runISR(d *datadriven.TestData) string {
	m := w.c.Image()
	req := kmsg.NewPtrAlterPartitionRequest()
	version := int64(3)
	scan(d, "version", &version)
	req.Version, req.BrokerID = int16(version), int32(brokerArg(d))
	req.BrokerEpoch = w.heartbeatRequest(brokerArg(d)).BrokerEpoch
	scan(d, "epoch", &req.BrokerEpoch)
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		f := strings.Fields(line)
		tp := model.TopicIDPartition{TopicID: model.TopicID{77}}
		if f[0] != "?" {
			tp = w.replica(f[0])
		}
		t, p := kmsg.NewAlterPartitionRequestTopic(), kmsg.NewAlterPartitionRequestTopicPartition()
		t.TopicID, p.Partition = tp.TopicID, tp.Partition
		if old := m.PartitionByID(tp); old != nil {
			p.LeaderEpoch, p.PartitionEpoch = int32(old.LeaderEpoch), int32(old.PartitionEpoch)
		}
		for _, member := range strings.Split(strings.Trim(f[1], "-"), ",") {
			if member == "" {
				continue
			}
			id, epoch, given := strings.Cut(member, "@")
			e := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
			e.BrokerID = int32(number(id))
			if b := m.Broker(model.BrokerID(e.BrokerID)); b != nil {
				e.BrokerEpoch = int64(b.Epoch)
			}
			if given {
				e.BrokerEpoch = number(epoch)
			}
			p.NewISR, p.NewEpochISR = append(p.NewISR, e.BrokerID), append(p.NewEpochISR, e)
		}
		for _, kv := range f[2:] {
			switch k, v, _ := strings.Cut(kv, "="); k {
			case "leader":
				p.LeaderEpoch = int32(number(v))
			case "partition":
				p.PartitionEpoch = int32(number(v))
			case "recovery":
				p.LeaderRecoveryState = int8(number(v))
			}
		}
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	return w.show(Command{Request: req})
}

// electInput: elect preferred|unclean|type=n [all] with a topic-n a word.
func electInput(d *datadriven.TestData) *kmsg.ElectLeadersRequest {
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version = 2
	if d.HasArg("unclean") {
		req.ElectionType = 1
	}
	kind := int64(req.ElectionType)
	scan(d, "type", &kind)
	req.ElectionType = int8(kind)
	if d.HasArg("all") {
		return req
	}
	for _, f := range strings.Fields(d.Input) {
		i := strings.LastIndexByte(f, '-')
		t := kmsg.NewElectLeadersRequestTopic()
		t.Topic, t.Partitions = f[:i], []int32{int32(number(f[i+1:]))}
		req.Topics = append(req.Topics, t)
	}
	return req
}

// reassignInput reads lines: topic-n 1,2,3 or topic-n cancel or topic-n none.
func reassignInput(d *datadriven.TestData) *kmsg.AlterPartitionAssignmentsRequest {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.Version, req.AllowReplicationFactorChange = 1, !d.HasArg("fixed")
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		f := strings.Fields(line)
		i := strings.LastIndexByte(f[0], '-')
		t, p := kmsg.NewAlterPartitionAssignmentsRequestTopic(), kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		t.Topic, p.Partition = f[0][:i], int32(number(f[0][i+1:]))
		switch f[1] {
		case "cancel":
		case "none":
			p.Replicas = []int32{}
		default:
			p.Replicas = idList(f[1])
		}
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// featuresInput reads lines: name level [upgrade type].
func featuresInput(d *datadriven.TestData) *kmsg.UpdateFeaturesRequest {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	version := int64(1)
	scan(d, "version", &version)
	req.Version, req.ValidateOnly = int16(version), d.HasArg("validate")
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		f := strings.Fields(line)
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = f[0], int16(number(f[1])), 1
		if len(f) > 2 {
			u.UpgradeType = int8(number(f[2]))
			u.AllowDowngrade = u.UpgradeType > 1
		}
		req.FeatureUpdates = append(req.FeatureUpdates, u)
	}
	return req
}

// createInput reads one topic a line: name partitions rf [key=value]... or
// name assign 0:1,2 1:2,1.
func createInput(d *datadriven.TestData) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.ValidateOnly = 7, d.HasArg("validate")
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		f := strings.Fields(line)
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = strings.Trim(f[0], `"`), -1, -1
		if strings.HasPrefix(t.Topic, "x*") {
			n, _ := strconv.Atoi(t.Topic[2:])
			t.Topic = strings.Repeat("x", n)
		}
		rest := f[3:]
		if f[1] != "assign" {
			n, _ := strconv.Atoi(f[1])
			rf, _ := strconv.Atoi(f[2])
			t.NumPartitions, t.ReplicationFactor = int32(n), int16(rf)
		} else {
			rest = f[2:]
		}
		for _, kv := range rest {
			if k, v, ok := strings.Cut(kv, "="); ok {
				c := kmsg.NewCreateTopicsRequestTopicConfig()
				c.Name, c.Value = k, &v
				if v == "null" {
					c.Value = nil
				}
				t.Configs = append(t.Configs, c)
				continue
			}
			p, ids, _ := strings.Cut(kv, ":")
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			n, _ := strconv.Atoi(p)
			a.Partition, a.Replicas = int32(n), idList(ids)
			t.ReplicaAssignment = append(t.ReplicaAssignment, a)
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

func idList(s string) (ids []int32) {
	for _, f := range strings.Split(s, ",") {
		if f == "" {
			continue
		}
		n, err := strconv.Atoi(f)
		if err != nil {
			panic(err)
		}
		ids = append(ids, int32(n))
	}
	return ids
}

// deleteInput reads names; id:name asks by the topic's id, id:? by an unknown
// one, both:name by both.
func (w *world) deleteInput(d *datadriven.TestData) *kmsg.DeleteTopicsRequest {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = 6
	for _, f := range strings.Fields(d.Input) {
		t := kmsg.NewDeleteTopicsRequestTopic()
		how, name, by := strings.Cut(f, ":")
		switch {
		case !by:
			t.Topic = &f
		case name == "?":
			t.TopicID = [16]byte{9}
		case name == "":
		default:
			t.TopicID = w.c.Image().Topic(name).ID
			if how == "both" {
				t.Topic = &name
			}
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

// growInput reads lines: name count [1,2 2,1 ...].
func growInput(d *datadriven.TestData) *kmsg.CreatePartitionsRequest {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version, req.ValidateOnly = 3, d.HasArg("validate")
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		f := strings.Fields(line)
		t := kmsg.NewCreatePartitionsRequestTopic()
		n, _ := strconv.Atoi(f[1])
		t.Topic, t.Count = f[0], int32(n)
		for _, ids := range f[2:] {
			a := kmsg.NewCreatePartitionsRequestTopicAssignment()
			a.Replicas = idList(ids)
			t.Assignment = append(t.Assignment, a)
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

// alterInput reads lines: type name key=value..., with a prefix of + - ! for
// APPEND, SUBTRACT and DELETE; "" is the empty name.
func alterInput(d *datadriven.TestData) kmsg.Request {
	legacy := kmsg.NewPtrAlterConfigsRequest()
	incr := kmsg.NewPtrIncrementalAlterConfigsRequest()
	legacy.Version, incr.Version = 2, 1
	legacy.ValidateOnly, incr.ValidateOnly = d.HasArg("validate"), d.HasArg("validate")
	types := map[string]kmsg.ConfigResourceType{"topic": 2, "broker": 4, "logger": 8, "group": 32, "metrics": 16, "strange": 99}
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		f := strings.Fields(line)
		lr, ir := kmsg.NewAlterConfigsRequestResource(), kmsg.NewIncrementalAlterConfigsRequestResource()
		lr.ResourceType, lr.ResourceName = types[f[0]], strings.Trim(f[1], `"`)
		ir.ResourceType, ir.ResourceName = lr.ResourceType, lr.ResourceName
		for _, kv := range f[2:] {
			ic, lc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig(), kmsg.NewAlterConfigsRequestResourceConfig()
			if i := strings.IndexByte("!+-?", kv[0]); i >= 0 {
				ic.Op, kv = []kmsg.IncrementalAlterConfigOp{1, 2, 3, 77}[i], kv[1:]
			}
			k, v, ok := strings.Cut(kv, "=")
			ic.Name, lc.Name = k, k
			if ok {
				ic.Value, lc.Value = &v, &v
			}
			ir.Configs, lr.Configs = append(ir.Configs, ic), append(lr.Configs, lc)
		}
		legacy.Resources, incr.Resources = append(legacy.Resources, lr), append(incr.Resources, ir)
	}
	if d.Cmd == "alter" {
		return legacy
	}
	return incr
}

func (w *world) runTick() string {
	var b strings.Builder
	w.c.Wake(w.now)
	for {
		r, more := w.c.Expire(w.now, w.c.Image())
		if !more {
			break
		}
		b.WriteString(w.showResult(r))
	}
	fmt.Fprintf(&b, "next in %s", time.Duration(w.c.NextDeadline()-w.now.Mono))
	w.invariants()
	return b.String()
}

func (w *world) show(cmd Command) string {
	w.c.Wake(w.now)
	return w.showResult(w.c.Handle(w.now, w.c.Image(), cmd))
}

// showResult commits r and prints answer, records and effect.
func (w *world) showResult(r Result) string {
	before := w.c.Image()
	var topics []*metadata.Topic
	for t := range before.Topics() {
		topics = append(topics, t)
	}
	var b strings.Builder
	var resp kmsg.Response
	var deltas []*metadata.Delta
	entries := Pack(r.Units)
	for _, e := range entries {
		deltas = append(deltas, w.replay(e))
		w.invariants()
	}
	if resp = r.Reply(w.c.Image().At()); resp != nil {
		b.WriteString(answer(resp))
	}
	for _, e := range entries {
		for _, rec := range e {
			fmt.Fprintf(&b, "+ %s\n", metadata.Format(rec))
		}
	}
	for _, d := range deltas {
		for _, td := range d.Topics {
			switch {
			case td.New == nil:
				fmt.Fprintf(&b, "= %s removed\n", td.Old.Name)
			default:
				for _, p := range td.Partitions {
					fmt.Fprintf(&b, "= %s-%d %s\n", td.New.Name, p, td.New.Partitions[p])
				}
			}
		}
		for _, id := range d.Brokers {
			b.WriteString(w.broker(id))
		}
	}
	return w.names(b.String(), topics...)
}

func (w *world) broker(id model.BrokerID) string {
	reg := w.c.Image().Broker(id)
	if reg == nil {
		return fmt.Sprintf("= broker %d gone\n", id)
	}
	return fmt.Sprintf("= broker %d epoch=%d fenced=%t inShutdown=%t rack=%q\n", id, reg.Epoch, reg.Fenced, reg.InShutdown, reg.Rack)
}

// describe prints the image.
func (w *world) describe() string {
	var b strings.Builder
	m := w.c.Image()
	for _, reg := range m.Brokers() {
		b.WriteString(w.broker(reg.ID))
	}
	for t := range m.Topics() {
		for n, p := range t.Partitions {
			fmt.Fprintf(&b, "= %s-%d %s\n", t.Name, n, p)
		}
	}
	for res, settings := range m.ConfigResources() {
		for _, k := range sortedKeys(settings) {
			fmt.Fprintf(&b, "= config %d %q %s=%s\n", res.Type, res.Name, k, settings[k])
		}
	}
	fmt.Fprintf(&b, "= producer ids from %d\n", m.NextProducerID())
	return b.String()
}

// answer prints what matters of a response.
func answer(resp kmsg.Response) string {
	var b strings.Builder
	line := func(what string, code int16, msg *string) {
		fmt.Fprintf(&b, "> %s code=%d", what, code)
		if msg != nil {
			fmt.Fprintf(&b, " %s", *msg)
		}
		b.WriteString("\n")
	}
	switch r := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		for _, t := range r.Topics {
			line(fmt.Sprintf("%s partitions=%d rf=%d id=%t configs=%t", t.Topic, t.NumPartitions, t.ReplicationFactor,
				t.TopicID != [16]byte{}, len(t.Configs) > 0), t.ErrorCode, t.ErrorMessage)
		}
	case *kmsg.DeleteTopicsResponse:
		for _, t := range r.Topics {
			name := "?"
			if t.Topic != nil {
				name = *t.Topic
			}
			line(name, t.ErrorCode, t.ErrorMessage)
		}
	case *kmsg.CreatePartitionsResponse:
		for _, t := range r.Topics {
			line(t.Topic, t.ErrorCode, t.ErrorMessage)
		}
	case *kmsg.AlterConfigsResponse:
		for _, t := range r.Resources {
			line(fmt.Sprintf("%d %q", t.ResourceType, t.ResourceName), t.ErrorCode, t.ErrorMessage)
		}
	case *kmsg.IncrementalAlterConfigsResponse:
		for _, t := range r.Resources {
			line(fmt.Sprintf("%d %q", t.ResourceType, t.ResourceName), t.ErrorCode, t.ErrorMessage)
		}
	case *kmsg.BrokerRegistrationResponse:
		line(fmt.Sprintf("epoch=%d", r.BrokerEpoch), r.ErrorCode, nil)
	case *kmsg.BrokerHeartbeatResponse:
		line(fmt.Sprintf("caughtUp=%t fenced=%t shutdown=%t", r.IsCaughtUp, r.IsFenced, r.ShouldShutdown), r.ErrorCode, nil)
	case *kmsg.AllocateProducerIDsResponse:
		line(fmt.Sprintf("ids=%d+%d", r.ProducerIDStart, r.ProducerIDLen), r.ErrorCode, nil)
	case *kmsg.AlterPartitionResponse:
		if r.ErrorCode != 0 {
			line("all", r.ErrorCode, nil)
		}
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				line(fmt.Sprintf("n=%d leader=%d e%d p%d isr=%v recovery=%d", p.Partition, p.LeaderID, p.LeaderEpoch, p.PartitionEpoch,
					p.ISR, p.LeaderRecoveryState), p.ErrorCode, nil)
			}
		}
	case *kmsg.ElectLeadersResponse:
		line("all", r.ErrorCode, nil)
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				line(fmt.Sprintf("%s-%d", t.Topic, p.Partition), p.ErrorCode, p.ErrorMessage)
			}
		}
	case *kmsg.AlterPartitionAssignmentsResponse:
		line(fmt.Sprintf("all rfChange=%t", r.AllowReplicationFactorChange), r.ErrorCode, r.ErrorMessage)
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				line(fmt.Sprintf("%s-%d", t.Topic, p.Partition), p.ErrorCode, p.ErrorMessage)
			}
		}
	case *kmsg.ListPartitionReassignmentsResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				line(fmt.Sprintf("%s-%d replicas=%v adding=%v removing=%v", t.Topic, p.Partition, p.Replicas, p.AddingReplicas,
					p.RemovingReplicas), r.ErrorCode, r.ErrorMessage)
			}
		}
	case *kmsg.UpdateFeaturesResponse:
		line("all", r.ErrorCode, r.ErrorMessage)
		for _, u := range r.Results {
			line(u.Feature, u.ErrorCode, u.ErrorMessage)
		}
	case *kmsg.UnregisterBrokerResponse:
		line("unregistered", r.ErrorCode, r.ErrorMessage)
	}
	return b.String()
}
