package partition_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/log/producer"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/record"
)

// memLog is a log that holds nothing but what the core looks at.
type memLog struct {
	epochs    *epoch.Cache
	producers *producer.StateManager
	start     model.Offset
	end       model.Offset
	sets      [][]byte
}

func newMemLog() *memLog {
	c, err := epoch.New(nil)
	if err != nil {
		panic(err)
	}
	return &memLog{epochs: c, producers: producer.New()}
}

func (l *memLog) Epochs() *epoch.Cache              { return l.epochs }
func (l *memLog) Producers() *producer.StateManager { return l.producers }

// do carries out a write as an executor would.
func (l *memLog) do(w partition.Write) partition.Written {
	switch w.Kind {
	case partition.WriteAppend:
		it := record.NewIter(w.Set)
		for it.Next() {
			b := it.Batch()
			if b.BaseOffset() != l.end {
				panic(fmt.Sprintf("batch at %d, log ends at %d", b.BaseOffset(), l.end))
			}
			l.epochs.Assign(b.LeaderEpoch(), b.BaseOffset())
			l.producers.Update(b)
			l.end = b.NextOffset()
		}
		l.sets = append(l.sets, slices.Clone(w.Set))
	case partition.WriteEpoch:
		l.epochs.Assign(w.Epoch, w.Offset)
	case partition.WriteLogStart, partition.WriteRetain:
		l.start = w.Offset
		l.epochs.TruncateFromStart(w.Offset)
	}
	return partition.Written{LogStart: l.start, LogEnd: l.end}
}

// scripted is a replica that fetches when the script says so.
type scripted struct {
	end         model.Offset
	start       model.Offset
	hw          model.Offset
	last        model.LeaderEpoch
	brokerEpoch model.BrokerEpoch
}

// world is one partition with its executor and the scripted other replicas.
type world struct {
	p      *partition.Partition
	plog   *memLog
	cfg    partition.Config
	out    partition.Output
	now    model.Now
	others map[model.BrokerID]*scripted
	reg    partition.Registration
	held   *partition.Write // a write that was put off
	hold   bool
	flush  model.Offset // log end when the running flush began, -1 if none runs
	// slowStart: the log start is durable only when the script says so.
	slowStart bool
	written   strings.Builder
}

func defaultConfig() partition.Config {
	return partition.Config{
		MinISR: 1, SegmentBytes: 1 << 20, FlushMessages: 1 << 62, FlushAfter: model.Never,
		DeleteAllowed: true, ReplicaLagMax: 30_000 * ms, ProducerExpiryMs: 86_400_000,
	}
}

const ms = model.Instant(1_000_000)

func newWorld(cfg partition.Config) *world {
	w := &world{plog: newMemLog(), cfg: cfg, others: make(map[model.BrokerID]*scripted), flush: -1}
	w.reg = partition.Registration{Leader: model.NoLeader, LeaderEpoch: -1, PartitionEpoch: -1}
	w.now = model.Now{Mono: 0, Wall: 1_000}
	w.p = partition.New(1, w.plog, cfg, partition.Loaded{AppendTime: -1}, w.now)
	return w
}

// load begins anew on the log that is there, as the next process does.
func (w *world) load(durable model.Offset) {
	w.p = partition.New(1, w.plog, w.cfg, partition.Loaded{
		LogStart: w.plog.start, LogEnd: w.plog.end, Durable: durable, AppendTime: -1,
	}, w.now)
	w.flush, w.reg.LeaderEpoch, w.reg.PartitionEpoch = -1, w.reg.LeaderEpoch+1, w.reg.PartitionEpoch+1
}

// step runs one input and everything that can be done at once.
func (w *world) step(in partition.Input) {
	for {
		w.p.Step(w.now, &in, &w.out)
		write, urgency, keep := w.out.Write, w.out.Flush, w.out.KeepStart
		w.tell()
		w.out.Reset()
		if urgency != partition.FlushNone {
			w.flush = w.plog.end
			w.say("flush asked (%s) at %d", []string{"", "background", "now"}[urgency], w.plog.end)
		}
		if keep && w.slowStart {
			w.say("log start %d to be made durable", w.p.Mark().LogStart)
		}
		if keep && !w.slowStart {
			in = partition.Input{Kind: partition.KindStartKept, Start: partition.StartKept{LogStart: w.p.Mark().LogStart}}
			continue
		}
		if write.Kind == partition.WriteNone {
			return
		}
		if w.hold {
			w.held = &write
			w.say("write held")
			return
		}
		in = partition.Input{Kind: partition.KindWritten, Written: w.plog.do(write)}
	}
}

func (w *world) say(format string, args ...any) { fmt.Fprintf(&w.written, format+"\n", args...) }

func (w *world) tell() {
	for _, e := range w.out.Events {
		switch e.Kind {
		case partition.EventISRProposed, partition.EventISRCommitted, partition.EventISRRefused:
			w.say("event %s isr=%v code=%d", e.Kind, e.ISR, e.Code)
		case partition.EventLogStart:
			w.say("event %s %d to %d", e.Kind, e.From, e.To)
		default:
			w.say("event %s code=%d", e.Kind, e.Code)
		}
	}
	if a := w.out.Alter; a != nil {
		w.say("alter token=%d epoch=%d partition-epoch=%d isr=%v", a.Token, a.LeaderEpoch, a.PartitionEpoch, a.ISR)
	}
	for _, m := range w.out.Produced {
		r := m.Result
		w.say("%v: code=%d base=%d start=%d time=%d%s", m.Token, r.Code, r.BaseOffset, r.LogStart, r.AppendTime, suffix(r.Message))
	}
	for _, f := range w.out.Replicas {
		w.fetched(f)
	}
	for _, d := range w.out.Deleted {
		w.say("%v: code=%d low=%d", d.Token, d.Code, d.LowWatermark)
	}
	for _, f := range w.out.Woken {
		w.say("%v: woken", f.Token)
	}
}

func suffix(message string) string {
	if message == "" {
		return ""
	}
	return " " + strconv.Quote(message)
}

// fetched is what a scripted replica does with the leader's verdict.
func (w *world) fetched(f *partition.ReplicaFetch) {
	r := f.Result
	o := w.others[f.Replica]
	switch {
	case r.Code != 0:
		w.say("%d <- code=%d", f.Replica, r.Code)
	case r.Diverging.Epoch >= 0:
		o.end = min(o.end, r.Diverging.Offset)
		w.say("%d <- diverging %v, truncates to %d", f.Replica, r.Diverging, o.end)
	default:
		o.end, o.hw = r.Mark.LogEnd, min(r.Mark.HighWatermark, r.Mark.LogEnd)
		o.start = max(o.start, r.Mark.LogStart)
		if e, ok := w.plog.epochs.EpochFor(o.end - 1); ok && o.end > 0 {
			o.last = e
		}
		w.say("%d <- up to %d, hw=%d, start=%d", f.Replica, o.end, o.hw, o.start)
	}
}

// line is the partition's state on one line.
func (w *world) line() string {
	m := w.p.Mark()
	s := fmt.Sprintf("%s e%d [start=%d lso=%d hw=%d leo=%d durable=%d]", m.Role, m.LeaderEpoch,
		m.LogStart, m.LastStable, m.HighWatermark, m.LogEnd, w.p.Durable())
	if m.Role == partition.Leader {
		s += fmt.Sprintf(" isr=%v maximal=%v epoch-start=%d", w.p.ISR(), w.p.MaximalISR(), w.p.EpochStart())
	}
	produces, deletes, fetches := w.p.Waiting()
	if produces+deletes+fetches > 0 {
		s += fmt.Sprintf(" waiting=%d,%d,%d", produces, deletes, fetches)
	}
	return s
}

// args reads a command's arguments; "@250" or t=250 first moves the clock.
type args struct{ d *datadriven.TestData }

func (a args) str(key, def string) string {
	for _, c := range a.d.CmdArgs {
		if c.Key == key && len(c.Vals) > 0 {
			return strings.Join(c.Vals, ",")
		}
	}
	return def
}

func (a args) has(key string) bool {
	return slices.ContainsFunc(a.d.CmdArgs, func(c datadriven.CmdArg) bool { return c.Key == key })
}

func (a args) num(key string, def int64) int64 {
	s := a.str(key, "")
	if s == "" {
		return def
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		a.d.Fatalf(nil, "%s: %v", key, err)
	}
	return n
}

func (a args) ids(key string, def []model.BrokerID) []model.BrokerID {
	s := a.str(key, "")
	if s == "" {
		if a.has(key) {
			return nil
		}
		return def
	}
	var ids []model.BrokerID
	for _, part := range strings.Split(s, ",") {
		n, err := strconv.Atoi(part)
		if err != nil {
			a.d.Fatalf(nil, "%s: %v", key, err)
		}
		ids = append(ids, model.BrokerID(n))
	}
	return ids
}
