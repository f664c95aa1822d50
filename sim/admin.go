package sim

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

// admin makes the topics, and with some seeds changes them all the time. It
// remembers what the broker said was done.
type admin struct {
	link
	ending  bool
	waiting bool
	topics  map[string]*wanted
	names   []string // of topics, in a fixed order
}

// wanted is what was acknowledged of one topic's name.
type wanted struct {
	name   string
	churn  bool
	unsure bool // a request about it was not answered: a later incarnation's image says what came of it
	asked  model.Instant
	era    int // when that was
	exists bool
	id     model.TopicID // NoTopicID: not known
	parts  int
	config map[string]string
}

func newAdmin(w *World) *admin {
	a := &admin{topics: make(map[string]*wanted)}
	a.link = link{world: w, lost: func(model.BrokerID) {}}
	for _, name := range w.o.topics {
		a.names = append(a.names, name)
		a.topics[name] = &wanted{name: name, churn: isChurn(name)}
	}
	return a
}

func (a *admin) finish() { a.ending = true }

func (a *admin) unfinished() string {
	if a.waiting {
		return "an admin request is not answered"
	}
	return ""
}

// act implements client.
func (a *admin) act() {
	w := a.world
	w.think(a.act)
	if a.waiting {
		return
	}
	c := a.any()
	if c == nil {
		return
	}
	for _, name := range a.names {
		if t := a.topics[name]; !t.churn && !t.exists && !t.unsure {
			a.create(c, t)
			return
		}
	}
	if a.ending || w.play != nil || w.clientRand.IntN(8) > 0 {
		return
	}
	if len(w.machines) > 1 && w.clientRand.IntN(3) == 0 && w.o.on[KindMove] {
		a.move(c)
		return
	}
	if len(w.machines) > 1 && w.clientRand.IntN(3) == 0 && a.relax(c) {
		return
	}
	switch k := w.clientRand.IntN(4); {
	case k == 0 && w.o.on[KindDelete]:
		a.deleteRecords()
	case k == 1:
		a.ask(c)
	case w.o.on[KindAdmin]:
		a.change(c)
	}
}

// adminTimeout is how long a command may wait for its turn, in milliseconds.
const adminTimeout = 3000

// change does something to a topic that comes and goes.
func (a *admin) change(c *conn) {
	r := a.world.clientRand
	t := a.topics[pick(r, []string{"x0", "x1"})]
	switch {
	case t == nil: // this world has no such topic
	case t.unsure:
	case !t.exists:
		a.create(c, t)
	case r.IntN(3) == 0:
		a.delete(c, t)
	case r.IntN(2) == 0:
		a.grow(c, t)
	default:
		a.configure(c, t)
	}
}

// do sends a request about one topic; ok is told whether it was done.
func (a *admin) do(c *conn, t *wanted, req kmsg.Request, version int16, code func(kmsg.Response) int16, ok func(kmsg.Response)) {
	w := a.world
	a.waiting = true
	t.unsure, t.asked, t.era = true, w.sim.Now(), w.era
	answered := false
	a.watch(c, &answered)
	w.counts.admin++
	c.send(req, version,
		func(resp kmsg.Response) {
			answered = true
			c.node.m.line("admin      %s of %s: code %d", kmsg.NameForKey(req.Key()), t.name, code(resp))
			switch code(resp) {
			case protocol.CodeNone:
				t.unsure = false
				ok(resp)
				a.checkTopic(t)
			case protocol.CodeRequestTimedOut, protocol.CodeNotController:
			case protocol.CodeTopicAlreadyExists, protocol.CodeUnknownTopicOrPartition, protocol.CodeInvalidPartitions:
				// The broker may have sent it twice, the answer to the first got lost.
				t.unsure = len(w.machines) > 1
				a.checkTopic(t)
			default:
				t.unsure = false
				a.checkTopic(t)
			}
		},
		func(kmsg.Response, error) {
			// What is unsure stays so for a while: see known.
			answered, a.waiting = true, false
		})
}

func (a *admin) create(c *conn, t *wanted) {
	r := a.world.clientRand
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = adminTimeout
	o := &a.world.o
	ct := kmsg.NewCreateTopicsRequestTopic()
	ct.Topic, ct.NumPartitions, ct.ReplicationFactor = t.name, int32(1+r.IntN(2)), int16(o.replicas)
	if o.alone {
		ct.NumPartitions = 1
	} else if r.IntN(6) == 0 {
		ct.ReplicationFactor = int16(1 + r.IntN(o.replicas))
	}
	config := map[string]string{}
	if len(a.world.machines) > 1 {
		config["min.insync.replicas"] = utoa(uint64(o.minISR))
		if o.unclean && t.name == "c0" {
			config["unclean.leader.election.enable"] = "true"
		}
	}
	switch t.name[0] {
	case 'f':
		config["flush.messages"] = "1"
	case 't':
		config["message.timestamp.type"] = "LogAppendTime"
	case 'c':
		config["compression.type"] = pick(r, []string{"lz4", "snappy", "gzip", "uncompressed"})
	}
	for _, k := range sortedKeys(config) {
		cc := kmsg.NewCreateTopicsRequestTopicConfig()
		cc.Name, cc.Value = k, kmsg.StringPtr(config[k])
		ct.Configs = append(ct.Configs, cc)
	}
	req.Topics = append(req.Topics, ct)
	a.do(c, t, req, pick(r, []int16{2, 4, 5, 7}),
		func(resp kmsg.Response) int16 { return resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode },
		func(resp kmsg.Response) {
			if t.exists {
				a.world.fail(12, "topic %s was created a second time", t.name)
			}
			t.exists, t.parts, t.config = true, int(ct.NumPartitions), config
			t.id = resp.(*kmsg.CreateTopicsResponse).Topics[0].TopicID
		})
}

func (a *admin) delete(c *conn, t *wanted) {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = adminTimeout
	version := pick(a.world.clientRand, []int16{4, 6})
	if version == 6 {
		dt := kmsg.NewDeleteTopicsRequestTopic()
		dt.Topic = kmsg.StringPtr(t.name)
		req.Topics = append(req.Topics, dt)
	} else {
		req.TopicNames = []string{t.name}
	}
	a.do(c, t, req, version,
		func(resp kmsg.Response) int16 { return resp.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode },
		func(kmsg.Response) { t.exists, t.id = false, model.NoTopicID })
}

func (a *admin) grow(c *conn, t *wanted) {
	if t.parts >= 4 {
		return
	}
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = adminTimeout
	ct := kmsg.NewCreatePartitionsRequestTopic()
	ct.Topic, ct.Count = t.name, int32(t.parts+1)
	req.Topics = append(req.Topics, ct)
	a.do(c, t, req, pick(a.world.clientRand, []int16{0, 2, 3}),
		func(resp kmsg.Response) int16 { return resp.(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode },
		func(kmsg.Response) { t.parts++ })
}

func (a *admin) configure(c *conn, t *wanted) {
	r := a.world.clientRand
	key := pick(r, []string{"message.timestamp.type", "flush.messages", "retention.ms", "compression.type"})
	value := map[string][]string{
		"message.timestamp.type": {"CreateTime", "LogAppendTime"}, "flush.messages": {"1", "3", "100"},
		"retention.ms": {"-1", "100000000000"}, "compression.type": {"lz4", "snappy", "producer"},
	}[key]
	a.set(c, t, key, pick(r, value))
}

// set changes one setting of a topic.
func (a *admin) set(c *conn, t *wanted, key, value string) {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, t.name
	cc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	cc.Name, cc.Op, cc.Value = key, kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr(value)
	res.Configs = append(res.Configs, cc)
	req.Resources = append(req.Resources, res)
	a.do(c, t, req, int16(a.world.clientRand.IntN(2)),
		func(resp kmsg.Response) int16 {
			return resp.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode
		},
		func(kmsg.Response) { t.config[key] = value })
}

// deleteRecords raises a log start.
func (a *admin) deleteRecords() {
	w := a.world
	ts := w.targets()
	if len(ts) == 0 {
		return
	}
	to := pick(w.clientRand, ts)
	p := w.partOf(to)
	if !a.refresh() || p == nil || isChurn(to.topic) {
		return
	}
	c := a.leader(to)
	if c == nil {
		return
	}
	at := int64(-1)
	if w.clientRand.IntN(4) > 0 && p.acked > 0 {
		at = w.clientRand.Int64N(p.acked + 1)
	}
	a.deleteUpTo(c, to, at)
}

// deleteUpTo has a leader give up what lies below an offset, -1 for all that is
// committed.
func (a *admin) deleteUpTo(c *conn, to target, at int64) {
	w := a.world
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = adminTimeout
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = to.topic
	q := kmsg.NewDeleteRecordsRequestTopicPartition()
	q.Partition, q.Offset = to.partition, at
	t.Partitions = append(t.Partitions, q)
	req.Topics = append(req.Topics, t)
	a.waiting = true
	answered := false
	a.watch(c, &answered)
	d := c.node.deletion(at)
	c.send(req, pick(w.clientRand, []int16{0, 1, 2}),
		func(resp kmsg.Response) {
			d.answered(&resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0], c.node.partOf(to.topic, to.id, to.partition))
		},
		func(kmsg.Response, error) { answered, a.waiting = true, false })
}

// ask sends a request that changes nothing.
func (a *admin) ask(c *conn) {
	w := a.world
	var req kmsg.Request
	var version int16
	switch w.clientRand.IntN(5) {
	case 0:
		m := kmsg.NewPtrMetadataRequest()
		m.AllowAutoTopicCreation = false
		req, version = m, pick(w.clientRand, []int16{1, 5, 9, 12})
	case 1:
		req, version = kmsg.NewPtrApiVersionsRequest(), pick(w.clientRand, []int16{0, 2, 3, 100})
	case 2:
		d := kmsg.NewPtrDescribeConfigsRequest()
		res := kmsg.NewDescribeConfigsRequestResource()
		res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, "d0"
		d.Resources = append(d.Resources, res)
		req, version = d, 4
	case 3:
		req, version = kmsg.NewPtrDescribeLogDirsRequest(), 4
	case 4:
		req, version = kmsg.NewPtrDescribeClusterRequest(), 0
	}
	a.waiting = true
	answered := false
	a.watch(c, &answered)
	if version == 100 { // answered in version 0, whose body we don't look at
		version = 3
	}
	c.send(req, version, nil, func(kmsg.Response, error) { answered, a.waiting = true, false })
}

// adopt takes over what the metadata says of a topic of which too little is
// known.
func (a *admin) adopt(t *wanted) {
	w := a.world
	img := w.image().Topic(t.name)
	t.unsure, t.exists, t.id, t.parts, t.config = false, img != nil, model.NoTopicID, 0, map[string]string{}
	if img != nil {
		t.id, t.parts = img.ID, len(img.Partitions)
		for k, v := range w.image().Config(metadata.TopicResource, t.name) {
			t.config[k] = v
		}
	}
}

// known reports whether what came of an unanswered request can be seen by now.
// It may be in the log of a process that was killed, or on its way to a
// controller that takes it until its time is over.
func (a *admin) known(t *wanted) bool {
	w := a.world
	if len(w.machines) == 1 {
		return t.era < w.meta.era
	}
	return w.sim.Now()-t.asked > unsureFor
}

// unsureFor is how long a request may be under way whose answer nobody got.
const unsureFor = 4 * adminTimeout * millisecond

// checkImage compares the metadata with what was acknowledged.
func (a *admin) checkImage() {
	if a.world.image() == nil {
		return
	}
	for _, name := range a.names {
		t := a.topics[name]
		if t.unsure && !a.waiting && a.known(t) {
			a.adopt(t)
		}
		a.checkTopic(t)
	}
}

func (a *admin) checkTopic(t *wanted) {
	w := a.world
	if t.unsure {
		return
	}
	img := w.image().Topic(t.name)
	switch {
	case !t.exists && img == nil:
		return
	case t.exists != (img != nil):
		w.fail(12, "topic %s: acknowledged to exist %v, in the metadata %v", t.name, t.exists, img != nil)
	case t.id != model.NoTopicID && t.id != img.ID:
		w.fail(12, "topic %s has id %v, it was created with %v", t.name, img.ID, t.id)
	case t.parts != len(img.Partitions):
		w.fail(12, "topic %s has %d partitions, acknowledged were %d", t.name, len(img.Partitions), t.parts)
	}
	config := w.image().Config(metadata.TopicResource, t.name)
	if fmt.Sprint(config) != fmt.Sprint(t.config) {
		w.fail(12, "topic %s has settings %v, acknowledged were %v", t.name, config, t.config)
	}
}
