package partition_test

import (
	"slices"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/record"
)

// TestTranscripts runs the stories of testdata: those that begin with "new" of
// one partition with scripted peers, those with "replicas" of several. Run with -rewrite to write down
// what the code does, and read the difference.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var w *world
		var c *cluster
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "replicas" {
				c = newCluster(args{d}.ids("of", nil), configOf(args{d}))
				return c.changes()
			}
			if c != nil {
				return c.do(t, d)
			}
			if d.Cmd == "new" {
				w = newWorld(configOf(args{d}))
				return w.line()
			}
			w.written.Reset()
			if at := (args{d}).num("t", -1); at >= 0 {
				w.now.Wall += model.Timestamp(at) - model.Timestamp(w.now.Mono/ms)
				w.now.Mono = model.Instant(at) * ms
			}
			w.command(t, d)
			return w.written.String() + w.line()
		})
	})
}

func configOf(a args) partition.Config {
	cfg := defaultConfig()
	cfg.MinISR = int32(a.num("minisr", 1))
	cfg.FlushMessages = a.num("flush-messages", cfg.FlushMessages)
	if n := a.num("flush-ms", -1); n >= 0 {
		cfg.FlushAfter = model.Instant(n) * ms
	}
	cfg.SegmentBytes = int32(a.num("segment-bytes", int64(cfg.SegmentBytes)))
	cfg.LogAppendTime = a.has("append-time")
	cfg.DeleteAllowed = !a.has("compact")
	return cfg
}

func (w *world) command(t *testing.T, d *datadriven.TestData) {
	a := args{d}
	switch d.Cmd {
	case "load":
		w.load(model.Offset(a.num("durable", 0)))
	case "register":
		w.register(a)
	case "produce":
		w.produce(a)
	case "fetch":
		w.fetch(a)
	case "wait":
		bound := map[string]partition.Bound{"lso": 0, "hw": 1, "leo": 2}[a.str("bound", "hw")]
		wait := &partition.FetchWait{Bound: bound, From: model.Offset(a.num("from", int64(w.plog.end))), Seen: w.p.Mark(), Token: d.CmdArgs[0].Key}
		if a.has("stale") {
			wait.Seen.HighWatermark--
		}
		w.step(partition.Input{Kind: partition.KindWait, Wait: wait})
	case "delete":
		del := &partition.DeleteRecords{Offset: model.Offset(a.num("to", -1)), Token: d.CmdArgs[0].Key}
		del.Deadline = w.now.Mono + model.Instant(a.num("timeout", 30_000))*ms
		w.step(partition.Input{Kind: partition.KindDeleteRecords, Delete: del})
	case "retain":
		w.step(partition.Input{Kind: partition.KindRetain, Retain: model.Offset(a.num("to", 0))})
	case "alter":
		w.step(partition.Input{Kind: partition.KindAlterAnswered, Alter: partition.AlterAnswer{
			Token: uint64(a.num("token", 0)), Code: partition.Code(a.num("code", 0)), Retriable: a.has("retriable"),
		}})
	case "config":
		cfg := configOf(a)
		w.step(partition.Input{Kind: partition.KindConfig, Config: &cfg})
	case "tick":
		w.step(partition.Input{Kind: partition.KindTick})
	case "flushed":
		w.step(partition.Input{Kind: partition.KindFlushed, Flushed: model.Offset(a.num("to", int64(w.flush)))})
	case "flush-old":
		w.step(partition.Input{Kind: partition.KindFlushOld})
	case "hold":
		w.hold = true
	case "slow-start":
		w.slowStart = true
	case "kept":
		k := partition.StartKept{LogStart: model.Offset(a.num("start", int64(w.p.Mark().LogStart)))}
		if a.has("refused") {
			k.Fault = partition.FaultRefused
		}
		w.step(partition.Input{Kind: partition.KindStartKept, Start: k})
	case "release":
		w.release(a)
	case "offline":
		w.step(partition.Input{Kind: partition.KindOffline, Code: partition.Code(a.num("code", 56))})
	case "deadline":
		if at := w.p.NextDeadline(); at == model.Never {
			w.say("never")
		} else {
			w.say("%d ms", at/ms)
		}
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
}

// release completes the held write, or fails it.
func (w *world) release(a args) {
	write := *w.held
	w.hold, w.held = false, nil
	done := partition.Written{LogStart: w.plog.start, LogEnd: w.plog.end}
	switch a.str("fault", "") {
	case "refused":
		done.Fault = partition.FaultRefused
	case "broken":
		done.Fault = partition.FaultBroken
	default:
		done = w.plog.do(write)
	}
	w.step(partition.Input{Kind: partition.KindWritten, Written: done})
}

// register changes what is named and keeps the rest; the partition epoch rises
// by one unless given.
func (w *world) register(a args) {
	r := &w.reg
	r.Leader = model.BrokerID(a.num("leader", int64(r.Leader)))
	r.LeaderEpoch = model.LeaderEpoch(a.num("epoch", int64(r.LeaderEpoch)))
	r.PartitionEpoch = model.PartitionEpoch(a.num("partition-epoch", int64(r.PartitionEpoch)+1))
	r.ISR = a.ids("isr", r.ISR)
	fenced, leaving, emptied := a.ids("fenced", nil), a.ids("leaving", nil), a.ids("emptied", nil)
	var old []model.BrokerID
	for _, p := range r.Replicas {
		old = append(old, p.ID)
	}
	r.Replicas = nil
	for _, id := range a.ids("replicas", old) {
		if w.others[id] == nil && id != 1 {
			w.others[id] = &scripted{last: -1, brokerEpoch: 100 + model.BrokerEpoch(id)}
		}
		if slices.Contains(emptied, id) { // and registered again
			w.others[id] = &scripted{last: -1, brokerEpoch: w.others[id].brokerEpoch + 100}
		}
		peer := partition.Peer{ID: id, Epoch: 100 + model.BrokerEpoch(id), Alive: !slices.Contains(fenced, id)}
		if o := w.others[id]; o != nil {
			peer.Epoch = o.brokerEpoch
		}
		peer.Eligible = peer.Alive && !slices.Contains(leaving, id)
		r.Replicas = append(r.Replicas, peer)
	}
	reg := *r
	w.step(partition.Input{Kind: partition.KindRegistration, Registration: &reg})
}

func (w *world) produce(a args) {
	n := int(a.num("n", 1))
	b := record.NewBuilder(record.Options{
		Idempotent: a.has("pid"), ProducerID: model.ProducerID(a.num("pid", -1)),
		ProducerEpoch: model.ProducerEpoch(a.num("pepoch", 0)),
		BaseSequence:  model.Sequence(a.num("seq", 0)), Transactional: a.has("txn"),
	})
	for range n {
		b.Append(500, nil, []byte("v"))
	}
	batch := b.Build()
	m := &partition.Produce{Acks: int16(a.num("acks", -1)), Token: a.d.CmdArgs[0].Key}
	m.Deadline = w.now.Mono + model.Instant(a.num("timeout", 30_000))*ms
	rules := record.DefaultRules(w.now.Wall)
	if w.cfg.LogAppendTime {
		rules.TimestampType = record.LogAppendTime
	}
	m.Prepared, m.Rejection = record.Validate(batch, &rules)
	if c := a.num("reject", 0); c != 0 {
		m.Rejection = &record.Rejection{Code: int16(c), Message: "scripted"}
	}
	w.step(partition.Input{Kind: partition.KindProduce, Produce: m})
}

func (w *world) fetch(a args) {
	id := model.BrokerID(a.num("replica", 2))
	o := w.others[id]
	if o == nil {
		o = &scripted{last: -1, brokerEpoch: -1}
		w.others[id] = o
	}
	f := &partition.ReplicaFetch{
		Replica: id, BrokerEpoch: model.BrokerEpoch(a.num("broker-epoch", int64(o.brokerEpoch))),
		CurrentEpoch: model.LeaderEpoch(a.num("current", int64(w.p.Mark().LeaderEpoch))),
		Offset:       model.Offset(a.num("from", int64(o.end))),
		LastEpoch:    model.LeaderEpoch(a.num("last", int64(o.last))),
		LogStart:     o.start, Reread: a.has("reread"),
	}
	o.end = f.Offset
	w.step(partition.Input{Kind: partition.KindReplicaFetch, Replica: f})
}
