package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group/consumer"
	"github.com/tidemark/tidemark/internal/model"
)

// emptyData is a directive without arguments.
var emptyData datadriven.TestData

const ms = model.Instant(1e6)

// world is a partition with its groups, and a log that does what it is told.
type world struct {
	cfg     Config
	now     model.Now
	rt      coordinator.Runtime
	out     coordinator.Out
	records []coordinator.Record
	high    model.Offset
	open    []*coordinator.Write // appended, not committed
	// held: nothing is committed by itself. refuse is what appends are answered.
	held   bool
	refuse Code

	seed    uint64
	names   map[string]string // of member ids, and back
	ids     map[string]string
	written strings.Builder
	calls   map[*coordinator.Call]string
	group   string
}

func defaultConfig() Config {
	return Config{
		SessionMin: 6_000 * ms, SessionMax: 1_800_000 * ms, InitialDelay: 0, SizeMax: 1 << 30, MetadataMax: 4096,
		RetentionMs: 7 * 24 * 3_600_000, CheckEvery: 600_000 * ms, CommitTimeout: 5_000 * ms,
		ConsumerSession: 45_000 * ms, ConsumerHeartbeat: 5_000 * ms, ConsumerSizeMax: 100, Migration: Migration{Upgrade: true, Downgrade: true},
		Topics: func() consumer.Topics { return someTopics{"t": 4} },
	}
}

func newWorld(cfg Config) *world {
	w := &world{cfg: cfg, names: make(map[string]string), ids: make(map[string]string), calls: make(map[*coordinator.Call]string), group: "g"}
	w.now = model.Now{Mono: 0, Wall: 1_000_000}
	w.lead()
	return w
}

// lead begins a reign with everything that is in the log.
func (w *world) lead() {
	w.rt.Lead(w.rt.Epoch()+1, &w.out)
	w.carry()
}

// load makes a machine of the log.
func (w *world) load() {
	w.seed++
	m := New(&w.cfg, rand.New(rand.NewPCG(w.seed, 0)))
	for i, r := range w.records {
		m.Replay(model.Offset(i), r)
	}
	w.rt.Committed(w.now, w.high, &w.out)
	w.rt.Loaded(w.now, w.rt.Load(), m, model.Offset(len(w.records)), &w.out)
}

// carry does what the runtime wants.
func (w *world) carry() {
	for {
		for _, c := range w.out.Answers {
			w.tell(c)
		}
		wr, load := w.out.Append, w.out.Load
		w.out.Reset()
		switch {
		case load:
			w.load()
		case wr != nil && w.refuse != 0:
			w.rt.Done(w.now, wr, w.refuse, &w.out)
		case wr != nil:
			base := model.Offset(len(w.records))
			w.records = append(w.records, wr.Records...)
			w.open = append(w.open, wr)
			w.rt.Appended(w.now, wr, base, &w.out)
		case !w.held && len(w.open) > 0:
			w.commit()
		default:
			return
		}
	}
}

// commit lets everything in the log be replicated.
func (w *world) commit() {
	w.high = model.Offset(len(w.records))
	w.rt.Committed(w.now, w.high, &w.out)
	w.end(0)
}

// end ends what is open with a code.
func (w *world) end(code Code) {
	open := w.open
	w.open = nil
	for _, wr := range open {
		w.rt.Done(w.now, wr, code, &w.out)
		w.carry()
	}
}

// pass lets time go by, deadline by deadline.
func (w *world) pass(d model.Instant) {
	until := w.now.Mono + d
	for at := w.rt.NextDeadline(); at <= until; at = w.rt.NextDeadline() {
		at = max(at, w.now.Mono)
		w.now.Wall += model.Timestamp((at - w.now.Mono) / ms)
		w.now.Mono = at
		w.rt.Tick(w.now, &w.out)
		w.carry()
	}
	w.now.Wall += model.Timestamp((until - w.now.Mono) / ms)
	w.now.Mono = until
}

func (w *world) machine() *Machine {
	m, _ := w.rt.Machine().(*Machine)
	return m
}

// name gives a member id a short name: its prefix and a number.
func (w *world) name(id string) string {
	if id == "" {
		return ""
	}
	if n, ok := w.names[id]; ok {
		return n
	}
	if len(id) == 22 {
		w.names[id] = fmt.Sprintf("g%d", len(w.names)+1) // the coordinator made it for a guest
		w.ids[w.names[id]] = id
		return w.names[id]
	}
	if len(id) <= 37 {
		return id // no UUID: the story's own
	}
	prefix := id[:len(id)-37]
	n := fmt.Sprintf("%s%d", prefix, len(w.names)+1)
	w.names[id], w.ids[n] = n, id
	return n
}

// id is the member id that a short name stands for.
func (w *world) id(name string) string {
	if id, ok := w.ids[name]; ok {
		return id
	}
	return name
}

func codeName(c Code) string {
	if c == 0 {
		return "ok"
	}
	if err, ok := kerr.ErrorForCode(c).(*kerr.Error); ok {
		return fmt.Sprintf("%d %s", c, err.Message)
	}
	return fmt.Sprint(c)
}

// tell writes down an answer.
func (w *world) tell(c *coordinator.Call) {
	tag := w.calls[c]
	delete(w.calls, c)
	fmt.Fprintf(&w.written, "%s: %s\n", tag, w.answer(c))
}

func (w *world) answer(c *coordinator.Call) string {
	switch r := c.Response.(type) {
	case *kmsg.JoinGroupResponse:
		s := codeName(r.ErrorCode) + " " + w.name(r.MemberID)
		if r.ErrorCode == 0 {
			s += fmt.Sprintf(" generation=%d leader=%s protocol=%s", r.Generation, w.name(r.LeaderID), *r.Protocol)
		}
		for _, m := range r.Members {
			s += fmt.Sprintf(" [%s %s]", w.name(m.MemberID), shown(m.ProtocolMetadata))
		}
		if r.SkipAssignment {
			s += " skip-assignment"
		}
		return s
	case *kmsg.SyncGroupResponse:
		var a kmsg.ConsumerMemberAssignment
		if len(r.MemberAssignment) > 5 && a.ReadFrom(r.MemberAssignment) == nil {
			s := "ok " + shownAssignment(&a)
			if r.Protocol != nil {
				s += " " + *r.Protocol
			}
			return s
		}
		if r.Protocol == nil {
			return fmt.Sprintf("ok %q", r.MemberAssignment)
		}
		return fmt.Sprintf("ok %q %s", r.MemberAssignment, *r.Protocol)
	case *kmsg.ConsumerGroupHeartbeatResponse:
		if r.ErrorCode != 0 {
			why := ""
			if r.ErrorMessage != nil {
				why = " " + *r.ErrorMessage
			}
			return codeName(r.ErrorCode) + why
		}
		s := fmt.Sprintf("ok epoch=%d", r.MemberEpoch)
		if r.Assignment != nil {
			for _, t := range r.Assignment.Topics {
				s += fmt.Sprintf(" %s%v", w.topic(t.TopicID), t.Partitions)
			}
		}
		return s
	case *kmsg.ConsumerGroupDescribeResponseGroup:
		s := fmt.Sprintf("%s %s epoch=%d", codeName(r.ErrorCode), r.State, r.Epoch)
		for _, m := range r.Members {
			s += fmt.Sprintf(" [%s%s type=%d epoch=%d", w.name(m.MemberID), orDash(m.InstanceID), m.MemberType, m.MemberEpoch)
			for _, t := range m.Assignment.TopicPartitions {
				s += fmt.Sprintf(" %s%v", t.Topic, t.Partitions)
			}
			s += "]"
		}
		return s
	case *kmsg.LeaveGroupResponse:
		s := codeName(r.ErrorCode)
		for _, m := range r.Members {
			s += fmt.Sprintf(" [%s%s %s]", w.name(m.MemberID), orDash(m.InstanceID), codeName(m.ErrorCode))
		}
		return s
	case *kmsg.OffsetCommitResponse:
		var s []string
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				s = append(s, fmt.Sprintf("%s-%d %s", t.Topic, p.Partition, codeName(p.ErrorCode)))
			}
		}
		return strings.Join(s, ", ")
	case *kmsg.OffsetFetchResponseGroup:
		s := []string{codeName(r.ErrorCode)}
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				s = append(s, fmt.Sprintf("%s-%d=%d e%d %q", t.Topic, p.Partition, p.Offset, p.LeaderEpoch, *p.Metadata))
			}
		}
		return strings.Join(s, " ")
	case *kmsg.OffsetDeleteResponse:
		s := []string{codeName(r.ErrorCode)}
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				s = append(s, fmt.Sprintf("%s-%d %s", t.Topic, p.Partition, codeName(p.ErrorCode)))
			}
		}
		return strings.Join(s, ", ")
	case []kmsg.ListGroupsResponseGroup:
		s := []string{"ok"}
		for _, g := range r {
			s = append(s, fmt.Sprintf("[%s %q %s %s]", g.Group, g.ProtocolType, g.GroupState, g.GroupType))
		}
		return strings.Join(s, " ")
	case *kmsg.DescribeGroupsResponseGroup:
		s := fmt.Sprintf("%s %s type=%q protocol=%q", codeName(r.ErrorCode), r.State, r.ProtocolType, r.Protocol)
		for _, m := range r.Members {
			s += fmt.Sprintf(" [%s%s %s %s %q %q]", w.name(m.MemberID), orDash(m.InstanceID), m.ClientID, m.ClientHost, shown(m.ProtocolMetadata), m.MemberAssignment)
		}
		return s
	}
	return codeName(c.Code)
}

// topic is the name of a topic.
func (w *world) topic(id model.TopicID) string {
	name, _ := w.cfg.Topics().Name(id)
	return name
}

// shownAssignment is what a member may read, readable.
func shownAssignment(a *kmsg.ConsumerMemberAssignment) string {
	var s []string
	for _, t := range a.Topics {
		s = append(s, fmt.Sprintf("%s%v", t.Topic, t.Partitions))
	}
	return strings.Join(s, " ")
}

// shown is what a member says of itself, readable.
func shown(metadata []byte) string {
	if topics, ok := subscription(metadata); ok {
		return strings.Join(topics, "+")
	}
	return string(metadata)
}

func orDash(instance *string) string {
	if instance == nil {
		return ""
	}
	return "/" + *instance
}

// state is the group in one line.
func (w *world) state() string {
	m := w.machine()
	if m == nil {
		return w.rt.State().String() + "\n"
	}
	g := m.groups[w.group]
	if g == nil {
		return "no group\n"
	}
	if g.consumer != nil {
		return w.consumerState(g)
	}
	c := g.classic
	s := fmt.Sprintf("%s generation=%d", c.state, c.generation)
	for _, mem := range c.members {
		s += " " + w.name(mem.id) + orDash(mem.instance)
		if mem.id == c.leader {
			s += "*"
		}
		if mem.joining != nil {
			s += "(joining)"
		}
		if mem.syncing != nil {
			s += "(syncing)"
		}
	}
	if n := len(c.unused); n > 0 {
		s += fmt.Sprintf(" ids-given=%d", n)
	}
	if g.waiting > 0 {
		s += fmt.Sprintf(" uncommitted=%d", g.waiting)
	}
	return s + "\n"
}

// consumerState is a group whose coordinator assigns; guests are marked.
func (w *world) consumerState(g *group) string {
	epoch, target := g.consumer.Epochs()
	s := fmt.Sprintf("consumer group %s epoch=%d target=%d", g.consumer.State(), epoch, target)
	for _, id := range g.consumer.Members() {
		mem := g.consumer.Member(id)
		s += " " + w.name(id) + orDash(mem.Instance)
		if mem.Classic != nil {
			s += "(classic)"
		}
		s += fmt.Sprintf("@%d", mem.Epoch)
		for _, t := range byTopic(mem.Assigned) {
			s += fmt.Sprintf("%v", t.partitions)
		}
	}
	return s + "\n"
}

// call hands a request in.
func (w *world) call(tag string, version int16, client string, request any) *coordinator.Call {
	c := &coordinator.Call{Key: w.group, Version: version, ClientID: client, ClientHost: "/10.0.0.1", Request: request}
	w.calls[c] = tag
	w.rt.Call(w.now, c, &w.out)
	w.carry()
	return c
}

// args are the arguments of a directive.
type args struct{ *datadriven.TestData }

func (a args) has(key string) bool {
	return slices.ContainsFunc(a.CmdArgs, func(c datadriven.CmdArg) bool { return c.Key == key })
}

func (a args) str(key, def string) string {
	for _, c := range a.CmdArgs {
		if c.Key == key && len(c.Vals) > 0 {
			return c.Vals[0]
		}
	}
	return def
}

func (a args) num(key string, def int64) int64 {
	n, err := strconv.ParseInt(a.str(key, strconv.FormatInt(def, 10)), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func (a args) instance() *string {
	if !a.has("instance") {
		return nil
	}
	s := a.str("instance", "")
	return &s
}

// first is the name that a directive begins with.
func (a args) first() string {
	if len(a.CmdArgs) == 0 || len(a.CmdArgs[0].Vals) > 0 {
		return a.Cmd
	}
	return a.CmdArgs[0].Key
}

// TestTranscripts runs the stories of testdata. Run with -rewrite to write down
// what the code does, and read the difference.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "fuzz") {
			return
		}
		w := newWorld(defaultConfig())
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			a := args{d}
			if d.Cmd == "new" {
				cfg := defaultConfig()
				cfg.InitialDelay = model.Instant(a.num("delay", 0)) * ms
				cfg.SizeMax = int(a.num("size", 1<<30))
				cfg.MetadataMax = int(a.num("metadata", 4096))
				cfg.RetentionMs = a.num("retention", cfg.RetentionMs)
				cfg.Migration = map[string]Migration{
					"": {Upgrade: true, Downgrade: true}, "upgrade": {Upgrade: true}, "downgrade": {Downgrade: true}, "disabled": {},
				}[a.str("policy", "")]
				cfg.ConsumerSizeMax = int(a.num("consumers", 100))
				w = newWorld(cfg)
				return ""
			}
			w.written.Reset()
			w.command(t, a)
			return w.written.String() + w.state()
		})
	})
}

func (w *world) command(t *testing.T, a args) {
	tag, v := a.first(), int16(a.num("v", 9))
	w.group = a.str("group", "g")
	switch a.Cmd {
	case "join":
		w.call(tag, v, a.str("client", "c"), w.joinRequest(a))
	case "sync":
		w.call(tag, v, "c", w.syncRequest(a))
	case "heartbeat":
		req := kmsg.NewPtrHeartbeatRequest()
		req.MemberID, req.Generation, req.InstanceID = w.id(tag), int32(a.num("generation", 1)), a.instance()
		w.call(tag, v, "c", req)
	case "leave":
		req := kmsg.NewPtrLeaveGroupRequest()
		req.MemberID = w.id(tag)
		rm := kmsg.NewLeaveGroupRequestMember()
		rm.MemberID, rm.InstanceID = w.id(tag), a.instance()
		if a.has("nameless") {
			rm.MemberID = ""
		}
		req.Members = append(req.Members, rm)
		w.call(tag, v, "c", req)
	case "beat":
		w.call(tag, 1, "c", w.beatRequest(a))
	case "describe-consumer":
		w.call(tag, 1, "", &DescribeConsumer{})
	case "commit":
		w.call(tag, v, "c", w.commitRequest(a))
	case "fetch":
		req := &FetchOffsets{All: a.has("all"), Stable: a.has("stable")}
		if !req.All {
			rt := kmsg.NewOffsetFetchRequestGroupTopic()
			rt.Topic, rt.Partitions = a.str("topic", "t"), []int32{int32(a.num("partition", 0))}
			req.Topics = append(req.Topics, rt)
		}
		w.call(tag, v, "c", req)
	case "delete-offsets":
		req := kmsg.NewPtrOffsetDeleteRequest()
		rt := kmsg.NewOffsetDeleteRequestTopic()
		rt.Topic = a.str("topic", "t")
		rp := kmsg.NewOffsetDeleteRequestTopicPartition()
		rp.Partition = int32(a.num("partition", 0))
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		w.call(tag, 0, "c", req)
	case "drop-topic":
		w.call(tag, 0, "", &DropTopics{Topics: []string{a.str("topic", "t")}, Since: w.now.Wall + model.Timestamp(a.num("since", 1))})
	case "list":
		req := &List{}
		if s := a.str("states", ""); s != "" {
			req.States = strings.Split(s, "+")
		}
		if s := a.str("types", ""); s != "" {
			req.Types = strings.Split(s, "+")
		}
		w.call(tag, v, "", req)
	case "describe":
		w.call(tag, v, "", &Describe{})
	case "delete":
		w.call(tag, v, "", &Delete{})
	case "pass":
		w.pass(model.Instant(a.num("ms", 0)) * ms)
	case "stopped": // the process was: deadlines are met late
		w.now.Mono += model.Instant(a.num("ms", 0)) * ms
		w.now.Wall += model.Timestamp(a.num("ms", 0))
		w.rt.Tick(w.now, &w.out)
		w.carry()
	case "hold":
		w.held = true
	case "release":
		w.held = false
		w.carry()
	case "fail":
		w.end(Code(a.num("code", 7)))
		w.carry()
	case "refuse":
		w.refuse = Code(a.num("code", 0))
	case "move": // to another broker, which has the log
		w.rt.Unlead(&w.out)
		w.carry()
		w.open = nil
		w.high = model.Offset(len(w.records))
		w.lead()
	case "foreign": // somebody else writes to the partition
		w.records = append(w.records, coordinator.Record{Key: []byte{0, 99}})
		w.high = model.Offset(len(w.records))
		w.rt.Committed(w.now, w.high, &w.out)
		w.carry()
	case "corrupt": // the last record's value
		w.records[len(w.records)-1].Value = []byte{0, 3, 1}
	case "log":
		for i, r := range w.records {
			fmt.Fprintf(&w.written, "%d %s\n", i, w.record(r))
		}
	default:
		t.Fatalf("unknown directive %s", a.Cmd)
	}
}

// record is one record in words.
func (w *world) record(r coordinator.Record) string {
	if v, ok := keyVersion(r.Key); ok && consumer.Known(v) {
		words := map[int16]string{3: "consumer group", 5: "member", 6: "target epoch", 7: "target", 8: "assignment"}[v]
		if r.Value == nil {
			words += " gone"
		}
		return words
	}
	p, err := parse(r)
	switch {
	case err != nil:
		return err.Error()
	case p.isOffset && p.offset == nil:
		return fmt.Sprintf("%s %s-%d gone", p.group, p.topic, p.partition)
	case p.isOffset:
		s := fmt.Sprintf("%s %s-%d=%d e%d %q", p.group, p.topic, p.partition, p.offset.offset, p.offset.epoch, p.offset.metadata)
		if p.offset.expires >= 0 {
			s += fmt.Sprintf(" expires after %d ms", p.offset.expires-p.offset.at)
		}
		return s
	case p.isGroup && p.metadata == nil:
		return p.group + " gone"
	case p.isGroup:
		s := fmt.Sprintf("%s generation=%d type=%q", p.group, p.metadata.Generation, p.metadata.ProtocolType)
		for _, m := range p.metadata.Members {
			s += fmt.Sprintf(" [%s %q %q]", w.name(m.MemberID), shown(m.Subscription), m.Assignment)
		}
		return s
	}
	return "a key of another kind"
}

// joinRequest: protocols are "name:topic+topic,...".
func (w *world) joinRequest(a args) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.MemberID, req.InstanceID = w.id(a.str("as", "")), a.instance()
	req.SessionTimeoutMillis = int32(a.num("session", 10_000))
	req.RebalanceTimeoutMillis = int32(a.num("rebalance", 60_000))
	req.ProtocolType = a.str("type", "consumer")
	protocols := a.str("protocols", "range:t")
	if a.has("no-protocols") {
		return req
	}
	for _, p := range strings.Split(protocols, "|") {
		name, topics, _ := strings.Cut(p, ":")
		rp := kmsg.NewJoinGroupRequestProtocol()
		rp.Name, rp.Metadata = name, []byte(topics)
		if req.ProtocolType == "consumer" {
			cm := kmsg.NewConsumerMemberMetadata()
			cm.Topics = strings.Split(topics, "+")
			if owned := a.str("owns", ""); owned != "" {
				cm.Version = 1
				for topic, ps := range topicParts(owned) { // order-free: one topic in each story
					cm.OwnedPartitions = append(cm.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: topic, Partitions: ps})
				}
			}
			rp.Metadata = cm.AppendTo(nil)
		}
		req.Protocols = append(req.Protocols, rp)
	}
	return req
}

// syncRequest: assignments are "member:what|...".
func (w *world) syncRequest(a args) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.MemberID, req.Generation, req.InstanceID = w.id(a.first()), int32(a.num("generation", 1)), a.instance()
	if s := a.str("protocol", ""); s != "" {
		req.Protocol = &s
	}
	if s := a.str("type", ""); s != "" {
		req.ProtocolType = &s
	}
	if parts := a.str("assign", ""); parts != "" {
		for _, p := range strings.Split(parts, "|") {
			who, what, _ := strings.Cut(p, ":")
			ra := kmsg.NewSyncGroupRequestGroupAssignment()
			ra.MemberID, ra.MemberAssignment = w.id(who), []byte(what)
			if parts := topicParts(what); parts != nil {
				var ca kmsg.ConsumerMemberAssignment
				for topic, ps := range parts { // order-free: one topic in each story
					ca.Topics = append(ca.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: topic, Partitions: ps})
				}
				if a.has("user-data") {
					ca.UserData = []byte("mine")
				}
				ra.MemberAssignment = ca.AppendTo(nil)
			}
			req.GroupAssignment = append(req.GroupAssignment, ra)
		}
	}
	return req
}

// topicParts reads "t.0.1": a topic and its partitions; nil if it is something
// else.
func topicParts(s string) map[string][]int32 {
	words := strings.Split(s, ".")
	if len(words) < 2 {
		return nil
	}
	ps := []int32{}
	for _, word := range words[1:] {
		n, err := strconv.ParseInt(word, 10, 32)
		if err != nil {
			return nil
		}
		ps = append(ps, int32(n))
	}
	return map[string][]int32{words[0]: ps}
}

// beatRequest is a heartbeat of the consumer protocol: full with epoch 0.
func (w *world) beatRequest(a args) *kmsg.ConsumerGroupHeartbeatRequest {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Group, r.MemberID, r.MemberEpoch, r.InstanceID = w.group, w.id(a.first()), int32(a.num("epoch", 0)), a.instance()
	if r.MemberEpoch == 0 {
		r.RebalanceTimeoutMillis, r.SubscribedTopicNames, r.Topics = 60_000, []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	if owned := a.str("owns", ""); owned != "" {
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for name, ps := range topicParts(owned) { // order-free: one topic in each story
			topic, _ := w.cfg.Topics().Topic(name)
			r.Topics = append(r.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: topic.ID, Partitions: ps})
		}
	}
	return r
}

func (w *world) commitRequest(a args) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.MemberID, req.InstanceID = w.id(a.str("as", "")), a.instance()
	req.Generation = int32(a.num("generation", -1))
	req.RetentionTimeMillis = a.num("retention", -1)
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = a.str("topic", "t")
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	text := a.str("text", "")
	rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = int32(a.num("partition", 0)), a.num("offset", 0), int32(a.num("epoch", -1)), &text
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}
