package partition_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/log/producer"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/record"
)

// store is a log in memory: what a partition's executor writes to.
type store struct {
	epochs    *epoch.Cache
	producers *producer.StateManager
	batches   []record.Batch
	start     model.Offset
	end       model.Offset
	durable   model.Offset
	// durableStart is the checkpoint's log start, base what the files' names say.
	durableStart, base model.Offset
	fault              partition.Fault // of the next write
}

func newStore() *store {
	return &store{epochs: &epoch.Cache{}, producers: producer.New()}
}

func (l *store) Epochs() *epoch.Cache              { return l.epochs }
func (l *store) Producers() *producer.StateManager { return l.producers }

// do carries out a write as the log package would.
func (l *store) do(w partition.Write) partition.Written {
	if f := l.fault; f != partition.FaultNone {
		l.fault = partition.FaultNone
		return partition.Written{Fault: f, LogStart: l.start, LogEnd: l.end}
	}
	switch w.Kind {
	case partition.WriteAppend:
		l.append(w.Set)
	case partition.WriteEpoch:
		l.epochs.Assign(w.Epoch, w.Offset)
	case partition.WriteLogStart, partition.WriteRetain:
		l.raise(w.Offset)
	case partition.WriteTruncate:
		l.truncate(w.Offset)
	case partition.WriteRestart:
		l.restart(w.Offset)
	case partition.WriteRefill:
		l.restart(w.Offset)
		l.append(w.Set)
		l.raise(w.Start)
	}
	return partition.Written{LogStart: l.start, LogEnd: l.end}
}

func (l *store) append(set []byte) {
	it := record.NewIter(slices.Clone(set))
	for it.Next() {
		b := it.Batch()
		if b.BaseOffset() < l.end || b.LeaderEpoch() < l.epochs.LatestEpoch() {
			panic(fmt.Sprintf("batch at %d of epoch %d, log ends at %d of epoch %d", b.BaseOffset(), b.LeaderEpoch(), l.end, l.epochs.LatestEpoch()))
		}
		l.epochs.Assign(b.LeaderEpoch(), b.BaseOffset())
		l.producers.Update(b)
		l.batches = append(l.batches, b)
		l.end = b.NextOffset()
	}
	if it.Err() != nil || it.Rest() > 0 {
		panic("an append that is not whole")
	}
}

func (l *store) raise(to model.Offset) {
	l.start = max(l.start, to)
	l.epochs.TruncateFromStart(l.start)
}

func (l *store) truncate(to model.Offset) {
	if to >= l.end {
		l.epochs.TruncateFromEnd(l.end)
		return
	}
	for len(l.batches) > 0 && l.batches[len(l.batches)-1].LastOffset() >= to {
		l.batches = l.batches[:len(l.batches)-1]
	}
	l.end, l.start, l.durable = to, min(l.start, to), min(l.durable, to)
	l.durableStart, l.base = min(l.durableStart, to), min(l.base, to)
	l.epochs.TruncateFromEnd(to)
	l.rebuild()
}

// wholeBelow is where the last batch ends that lies wholly below an offset.
func (l *store) wholeBelow(o model.Offset) (end model.Offset) {
	for _, b := range l.batches {
		if b.NextOffset() <= o {
			end = b.NextOffset()
		}
	}
	return end
}

func (l *store) restart(at model.Offset) {
	l.batches, l.start, l.end, l.durable = nil, at, at, min(l.durable, at)
	l.base = at
	l.epochs.Clear()
	l.rebuild()
}

// rebuild makes the producers' state, and where it is lost the epochs, anew from
// the batches.
func (l *store) rebuild() {
	l.producers.Reset(l.start)
	for _, b := range l.batches {
		l.producers.Update(b)
	}
}

func (l *store) rebuildEpochs() {
	l.epochs = &epoch.Cache{}
	for _, b := range l.batches {
		l.epochs.Assign(b.LeaderEpoch(), b.BaseOffset())
	}
	l.epochs.TruncateFromStart(l.start)
}

// read returns up to n batches from the one that holds an offset on.
func (l *store) read(from, end model.Offset, n int) []byte {
	var out []byte
	for _, b := range l.batches {
		if b.LastOffset() >= from && b.BaseOffset() < end && n > 0 {
			out = append(out, b...)
			n--
		}
	}
	return out
}

// node is one replica: a partition, its log, and what it knows when it starts.
type node struct {
	id    model.BrokerID
	epoch model.BrokerEpoch
	cfg   partition.Config
	plog  *store
	p     *partition.Partition // nil while down
	out   partition.Output
	// hw is the high watermark's checkpoint.
	hw     model.Offset
	follow *partition.Follow
	flush  model.Offset // log end when the running flush began, -1 if none runs
	// asked is the fetch in flight, verdict the leader's word on it, answer what
	// is on the way back.
	asked   *partition.ReplicaFetch
	askedOf *node // the leader
	answer  *partition.Fetched
	raw     []byte // the answer's records
	alter   *partition.AlterPartition
	old     *partition.Fetched // the last answer delivered, to be delivered again
	noRoom  bool               // for the checkpoint of the log start
	shown   string
	results []string
}

// cluster is N replicas of one partition, a controller that does as it is told,
// and a network that delivers when it is told.
type cluster struct {
	nodes []*node
	reg   partition.Registration
	now   model.Now
	text  strings.Builder
	flush bool
}

func newCluster(ids []model.BrokerID, cfg partition.Config) *cluster {
	c := &cluster{flush: cfg.FlushBeforeAck()}
	c.now = model.Now{Wall: 1_000}
	c.reg = partition.Registration{Leader: model.NoLeader, LeaderEpoch: -1, PartitionEpoch: -1}
	for _, id := range ids {
		n := &node{id: id, epoch: 100 + model.BrokerEpoch(id), cfg: cfg, plog: newStore()}
		c.nodes = append(c.nodes, n)
		c.reg.ISR = append(c.reg.ISR, id)
		c.start(n)
	}
	return c
}

func (c *cluster) node(id model.BrokerID) *node {
	for _, n := range c.nodes {
		if n.id == id {
			return n
		}
	}
	panic(fmt.Sprintf("no replica %d", id))
}

func (c *cluster) say(format string, args ...any) { fmt.Fprintf(&c.text, format+"\n", args...) }

// start begins a process on what the disk holds.
func (c *cluster) start(n *node) {
	l := n.plog
	n.p = partition.New(n.id, l, n.cfg, partition.Loaded{
		LogStart: l.start, DurableStart: l.durableStart, LogEnd: l.end, HighWatermark: n.hw, Durable: l.durable, AppendTime: -1,
	}, c.now)
	n.follow, n.flush, n.asked, n.answer, n.alter, n.old = nil, -1, nil, nil, nil, nil
}

// register gives a node what the cluster has agreed on.
func (c *cluster) register(n *node) {
	reg := c.reg
	reg.ISR, reg.Replicas = slices.Clone(c.reg.ISR), nil
	for _, o := range c.nodes {
		up := o.p != nil
		reg.Replicas = append(reg.Replicas, partition.Peer{ID: o.id, Epoch: o.epoch, Alive: up, Eligible: up})
	}
	if n.p != nil && reg.Leader != model.NoLeader || reg.LeaderEpoch >= 0 {
		c.step(n, partition.Input{Kind: partition.KindRegistration, Registration: &reg})
	}
}

// step runs one input of a node and everything that can be done at once.
func (c *cluster) step(n *node, in partition.Input) {
	if n.p == nil {
		return
	}
	for {
		n.p.Step(c.now, &in, &n.out)
		write, urgency, keep := n.out.Write, n.out.Flush, n.out.KeepStart
		c.collect(n)
		n.out.Reset()
		if urgency != partition.FlushNone {
			n.flush = n.plog.end
		}
		if keep {
			if n.noRoom {
				in = partition.Input{Kind: partition.KindStartKept, Start: partition.StartKept{Fault: partition.FaultRefused}}
				continue
			}
			n.plog.durableStart = n.plog.start
			in = partition.Input{Kind: partition.KindStartKept, Start: partition.StartKept{LogStart: n.plog.start}}
			continue
		}
		if write.Kind == partition.WriteNone {
			if d := n.p.Durable(); d > n.plog.durable {
				c.say("%d says that its disk has what is below %d, it has %d", n.id, d, n.plog.durable)
			}
			return
		}
		in = partition.Input{Kind: partition.KindWritten, Written: n.plog.do(write)}
	}
}

// collect says what a node has done.
func (c *cluster) collect(n *node) {
	for _, e := range n.out.Events {
		switch e.Kind {
		case partition.EventTruncated, partition.EventBelowHW, partition.EventLogStart:
			c.say("%d %s %d to %d", n.id, e.Kind, e.From, e.To)
		case partition.EventISRProposed:
			c.say("%d %s %v", n.id, e.Kind, e.ISR)
		case partition.EventLeader, partition.EventFollower, partition.EventISRCommitted:
		default:
			c.say("%d %s code=%d", n.id, e.Kind, e.Code)
		}
	}
	if n.out.Alter != nil {
		n.alter = n.out.Alter
	}
	if f := n.out.Follow; f != nil {
		n.follow = nil
		if f.Leader != model.NoLeader {
			n.follow = f
		}
	}
	for _, m := range n.out.Produced {
		n.results = append(n.results, fmt.Sprintf("%v code=%d base=%d", m.Token, m.Result.Code, m.Result.BaseOffset))
		c.say("%d answers %v: code=%d base=%d", n.id, m.Token, m.Result.Code, m.Result.BaseOffset)
	}
	for _, d := range n.out.Deleted {
		if d.Token != nil {
			c.say("%d answers %v: code=%d low=%d", n.id, d.Token, d.Code, d.LowWatermark)
		}
	}
	for _, f := range n.out.Fetched {
		g := f.Progress
		if start := max(n.plog.durableStart, n.plog.base); g.LogStart > start {
			c.say("%d tells that it starts at %d, its disk has %d", n.id, g.LogStart, start)
		}
		if g.Outcome != partition.OutcomeApplied {
			c.say("%d %s", n.id, g.Outcome)
		}
		if g.Following && n.cfg.FlushBeforeAck() && g.Position.Offset > n.plog.durable {
			c.say("%d promises what is below %d, its disk has %d", n.id, g.Position.Offset, n.plog.durable)
		}
		if n.follow != nil && g.Following {
			n.follow.Position, n.follow.LogStart, n.follow.HighWatermark = g.Position, g.LogStart, g.HighWatermark
		}
	}
}

// leaderOf is the node that a follower fetches from, nil if it is down.
func (c *cluster) leaderOf(n *node) *node {
	if n.follow == nil {
		return nil
	}
	return c.node(n.follow.Leader)
}

// ask has a follower's fetch arrive at its leader, which judges it.
func (c *cluster) ask(n *node) bool {
	l := c.leaderOf(n)
	if l == nil || l.p == nil {
		c.say("%d has nobody to fetch from", n.id)
		return false
	}
	at := n.follow
	n.askedOf = l
	n.asked = &partition.ReplicaFetch{
		Replica: n.id, BrokerEpoch: n.epoch, CurrentEpoch: at.LeaderEpoch,
		Offset: at.Offset, LastEpoch: at.LastEpoch, LogStart: at.LogStart,
	}
	c.say("%d -> %d fetch from=%d last=%d epoch=%d", n.id, l.id, at.Offset, at.LastEpoch, at.LeaderEpoch)
	c.step(l, partition.Input{Kind: partition.KindReplicaFetch, Replica: n.asked})
	return true
}

// reply makes the answer to what was asked, of what the leader's log holds now.
func (c *cluster) reply(n *node, most int) {
	l, f := n.askedOf, n.asked
	r := f.Result
	a := &partition.Fetched{
		Asked:         partition.Position{LeaderEpoch: f.CurrentEpoch, Offset: f.Offset, LastEpoch: f.LastEpoch},
		HighWatermark: r.Mark.HighWatermark, LogStart: r.Mark.LogStart, Diverging: r.Diverging,
	}
	n.asked = nil
	switch {
	case r.Code == partition.CodeOffsetOutOfRange:
		c.say("%d -> %d out of range, bounds [%d, %d)", l.id, n.id, l.plog.start, l.plog.end)
		a.Kind, a.LeaderStart, a.LeaderEnd = partition.AnswerBounds, l.plog.start, l.plog.end
		if l.plog.end < f.Offset {
			a.LeaderStart = model.NoOffset
		}
	case r.Code != 0:
		c.say("%d -> %d code=%d", l.id, n.id, r.Code)
		return
	case r.Diverging.Epoch >= 0:
		c.say("%d -> %d diverging epoch=%d end=%d", l.id, n.id, r.Diverging.Epoch, r.Diverging.Offset)
		a.Kind = partition.AnswerDiverging
	default:
		set := l.plog.read(f.Offset, l.plog.end, most)
		c.say("%d -> %d %s hw=%d", l.id, n.id, show(set), a.HighWatermark)
		n.raw, a.Records = set, partition.CheckRecords(set)
	}
	n.answer = a
}

func (c *cluster) deliver(n *node) {
	a := n.answer
	n.answer = nil
	if a == nil {
		return
	}
	again := *a
	n.old = &again
	c.step(n, partition.Input{Kind: partition.KindFetched, Fetched: a})
}

// fetch is a whole round trip.
func (c *cluster) fetch(n *node) {
	if c.ask(n) {
		c.reply(n, 1<<30)
		c.deliver(n)
	}
}

// produce appends one batch with the given values to a leader.
func (c *cluster) produce(n *node, acks int16, name string, values ...string) {
	b := record.NewBuilder(record.Options{})
	for _, v := range values {
		b.Append(500, nil, []byte(v))
	}
	m := &partition.Produce{Acks: acks, Token: name}
	m.Deadline = model.Never
	rules := record.DefaultRules(c.now.Wall)
	m.Prepared, m.Rejection = record.Validate(b.Build(), &rules)
	c.step(n, partition.Input{Kind: partition.KindProduce, Produce: m})
}

// crash ends a process. What a power failure leaves is what was durable, or the
// log up to keep.
func (c *cluster) crash(n *node, power bool, keep model.Offset) {
	n.hw = n.p.Mark().HighWatermark
	n.p = nil
	n.answer, n.asked, n.follow = nil, nil, nil
	if start := max(n.plog.durableStart, n.plog.base); start < n.plog.start {
		n.plog.start = start
		n.plog.rebuildEpochs()
	}
	if !power {
		return
	}
	n.plog.truncate(max(n.plog.wholeBelow(keep), n.plog.start))
	n.plog.rebuildEpochs()
	n.plog.durable = n.plog.end
}

// show lists the batches of an answer as offset, epoch and values.
func show(set []byte) string {
	if len(set) == 0 {
		return "nothing"
	}
	var out []string
	it := record.NewIter(set)
	for it.Next() {
		b := it.Batch()
		var values []string
		_ = b.Each(1<<20, func(r *record.Record) error {
			values = append(values, string(r.Value))
			return nil
		})
		out = append(out, fmt.Sprintf("%d@%d:%s", b.BaseOffset(), b.LeaderEpoch(), strings.Join(values, ",")))
	}
	return "[" + strings.Join(out, " ") + "]"
}

// line is a node's state.
func (n *node) line() string {
	cache := ""
	for i, e := range n.plog.epochs.Entries() {
		if i > 0 {
			cache += " "
		}
		cache += fmt.Sprintf("%d→%d", e.Epoch, e.Start)
	}
	if n.p == nil {
		return fmt.Sprintf("%d down [leo=%d] {%s}", n.id, n.plog.end, cache)
	}
	m := n.p.Mark()
	s := fmt.Sprintf("%d %s e%d [start=%d hw=%d leo=%d] {%s}", n.id, m.Role, m.LeaderEpoch, m.LogStart, m.HighWatermark, m.LogEnd, cache)
	if m.Role == partition.Leader {
		s += fmt.Sprintf(" isr=%v", n.p.ISR())
		if !slices.Equal(n.p.ISR(), n.p.MaximalISR()) {
			s += fmt.Sprintf(" maximal=%v", n.p.MaximalISR())
		}
	}
	if produces, _, _ := n.p.Waiting(); produces > 0 {
		s += fmt.Sprintf(" waiting=%d", produces)
	}
	if n.flush >= 0 {
		s += fmt.Sprintf(" flushing=%d", n.flush)
	}
	return s
}

// changes says the state of every node that looks other than before.
func (c *cluster) changes() string {
	out := c.text.String()
	c.text.Reset()
	for _, n := range c.nodes {
		if line := n.line(); line != n.shown {
			n.shown = line
			out += line + "\n"
		}
	}
	if out == "" {
		return "nothing changes\n"
	}
	return out
}

// different says how the logs of two nodes differ where both have records, and
// both know them to be replicated unless all is set; "" if they don't.
func (c *cluster) different(a, b *node, all bool) string {
	from := max(a.plog.start, b.plog.start)
	to := min(a.plog.end, b.plog.end)
	if !all {
		to = min(to, a.p.Mark().HighWatermark, b.p.Mark().HighWatermark)
	}
	x, y := a.plog.read(from, to, 1<<30), b.plog.read(from, to, 1<<30)
	if string(x) == string(y) {
		return ""
	}
	return fmt.Sprintf("%d has %s, %d has %s", a.id, show(x), b.id, show(y))
}

// do runs the commands of a block, one a line, and says after each what it has
// changed.
func (c *cluster) do(t *testing.T, d *datadriven.TestData) string {
	if d.Cmd != "do" {
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	var out strings.Builder
	for _, line := range strings.Split(d.Input, "\n") {
		cmd, cmdArgs, err := datadriven.ParseLine(strings.SplitN(line, "#", 2)[0])
		if err != nil {
			d.Fatalf(t, "%s: %v", line, err)
		}
		c.command(t, &datadriven.TestData{Pos: d.Pos, Cmd: cmd, CmdArgs: cmdArgs})
		fmt.Fprintf(&out, "> %s\n%s", line, c.changes())
	}
	return out.String()
}

// command runs one command of a transcript.
func (c *cluster) command(t *testing.T, d *datadriven.TestData) {
	a := args{d}
	target := func() *node {
		n, err := 0, error(nil)
		if len(d.CmdArgs) > 0 {
			_, err = fmt.Sscanf(d.CmdArgs[0].Key, "%d", &n)
		}
		if err != nil || n == 0 {
			d.Fatalf(t, "%s wants a replica", d.Cmd)
		}
		return c.node(model.BrokerID(n))
	}
	switch d.Cmd {
	case "elect": // leader= epoch= isr=; all but those in unaware= hear of it
		c.reg.Leader = model.BrokerID(a.num("leader", int64(c.reg.Leader)))
		c.reg.LeaderEpoch = model.LeaderEpoch(a.num("epoch", int64(c.reg.LeaderEpoch)))
		c.reg.ISR = a.ids("isr", c.reg.ISR)
		c.reg.PartitionEpoch++
		unaware := a.ids("unaware", nil)
		for _, n := range c.nodes {
			if n.p != nil && !slices.Contains(unaware, n.id) {
				c.register(n)
			}
		}
	case "tell":
		c.register(target())
	case "produce":
		var values []string
		for _, arg := range d.CmdArgs[1:] {
			if len(arg.Vals) == 0 {
				values = append(values, arg.Key)
			}
		}
		c.produce(target(), int16(a.num("acks", -1)), strings.Join(values, ","), values...)
	case "fetch":
		c.fetch(target())
	case "ask":
		c.ask(target())
	case "reply": // reread: after a wait
		if n := target(); a.has("reread") {
			n.asked.Reread = true
			c.step(n.askedOf, partition.Input{Kind: partition.KindReplicaFetch, Replica: n.asked})
		}
		c.reply(target(), int(a.num("max", 1<<30)))
	case "deliver":
		c.deliver(target())
	case "again": // a copy of the last answer arrives
		n := target()
		n.answer = n.old
		c.deliver(n)
	case "drop":
		target().answer = nil
	case "crash":
		n := target()
		c.crash(n, a.has("power"), model.Offset(a.num("keep", int64(n.plog.durable))))
	case "restart":
		n := target()
		n.epoch += 100
		c.start(n)
		if !a.has("unaware") {
			c.register(n)
		}
	case "flushed":
		n := target()
		if n.flush >= 0 {
			to := n.flush
			n.flush, n.plog.durable = -1, to
			c.step(n, partition.Input{Kind: partition.KindFlushed, Flushed: to})
		}
	case "delete":
		del := &partition.DeleteRecords{Offset: model.Offset(a.num("to", -1))}
		del.Deadline = model.Never
		if name := a.str("name", ""); name != "" {
			del.Token = name
		}
		c.step(target(), partition.Input{Kind: partition.KindDeleteRecords, Delete: del})
	case "retain":
		c.step(target(), partition.Input{Kind: partition.KindRetain, Retain: model.Offset(a.num("to", 0))})
	case "offline": // its disk has failed
		c.step(target(), partition.Input{Kind: partition.KindOffline, Code: partition.CodeStorageError})
	case "fault": // of the next write
		target().plog.fault = map[string]partition.Fault{"refused": partition.FaultRefused, "broken": partition.FaultBroken}[d.CmdArgs[1].Key]
	case "damage": // a bit of the answer on its way
		c.damage(target(), int(a.num("batch", 0)), int(a.num("byte", 65)))
	case "no-room": // for the checkpoint of the log start
		target().noRoom = true
	case "room":
		target().noRoom = false
	case "forget-epochs":
		target().plog.epochs.Clear()
	case "alter": // the controller agrees, and the image follows if it says so
		c.agree(target(), a)
	case "records":
		n := target()
		c.say("%d %s", n.id, show(n.plog.read(n.plog.start, n.plog.end, 1<<30)))
	case "equal":
		c.equal(a.has("all"))
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
}

// damage flips a bit of a batch in the answer that is on its way.
func (c *cluster) damage(n *node, batch, at int) {
	set := slices.Clone(n.raw)
	it := record.NewIter(set)
	for range batch + 1 {
		it.Next()
	}
	set[it.Pos()+at] ^= 1
	n.answer.Records = partition.CheckRecords(set)
}

// agree answers a leader's proposal.
func (c *cluster) agree(n *node, a args) {
	p := n.alter
	if p == nil {
		c.say("nothing was proposed")
		return
	}
	n.alter = nil
	code := partition.Code(a.num("code", 0))
	for _, m := range p.ISR {
		if o := c.node(m.ID); code == 0 && m.Epoch != model.NoBrokerEpoch && m.Epoch != o.epoch {
			code = 107 // INELIGIBLE_REPLICA
		}
	}
	if !a.has("image-only") {
		c.step(n, partition.Input{Kind: partition.KindAlterAnswered, Alter: partition.AlterAnswer{
			Token: p.Token, Code: code, Retriable: a.has("lost"),
		}})
	}
	if code != 0 || a.has("lost") {
		return
	}
	c.reg.ISR = nil
	for _, m := range p.ISR {
		c.reg.ISR = append(c.reg.ISR, m.ID)
	}
	c.reg.PartitionEpoch++
	if !a.has("no-image") {
		c.register(n)
	}
}

// equal compares the logs of all that are up.
func (c *cluster) equal(all bool) {
	for i, a := range c.nodes {
		for _, b := range c.nodes[i+1:] {
			if a.p == nil || b.p == nil {
				continue
			}
			if what := c.different(a, b, all); what != "" {
				c.say("different: %s", what)
				return
			}
		}
	}
	c.say("equal")
}
