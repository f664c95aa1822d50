package log_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/protocol/record"
)

// Transcripts tell the life of one log, one command a line:
//
//	config segment=N interval=N ms=N     before the first append
//	append base=N n=N epoch=N [ts=N] [producer=N txn] [marker=commit|abort]
//	flush, roll, checkpoint, reclaim, close, drop
//	start to=N          raise the log's start
//	truncate to=N, anew at=N
//	epoch e=N           assign at the end
//	kill [cut=N]        the process dies; the last write is torn after N bytes
//	power [keep=PCT]    the machine dies
//	flip base=N at=N    damage a segment file; tail base=N bytes=N appends zeros
//	reopen [stop=clean|process|power] [rp=N]
//	read from=N [bound=N] [max=N] [minone]
//	when ts=N           look up a timestamp
//	aborted from=N to=N
//	state, dump
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		tr := &transcript{rig: newRig(t), rand: rand.New(rand.NewPCG(7, 7)), clock: 100}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			tr.TB = t
			var out strings.Builder
			tr.run(&out, d.Cmd, d.CmdArgs, d)
			for _, line := range strings.Split(d.Input, "\n") {
				if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
					continue
				}
				cmd, args, err := datadriven.ParseLine(line)
				if err != nil {
					t.Fatal(err)
				}
				tr.run(&out, cmd, args, d)
			}
			return out.String()
		})
	})
}

type transcript struct {
	*rig
	rand  *rand.Rand
	clock model.Timestamp
	rp    model.Offset
}

// args reads name=number arguments.
type args []datadriven.CmdArg

func (a args) num(name string, fallback int64) int64 {
	for _, x := range a {
		if x.Key == name && len(x.Vals) > 0 {
			if n, err := strconv.ParseInt(x.Vals[0], 10, 64); err == nil {
				return n
			}
		}
	}
	return fallback
}

func (a args) text(name string) string {
	for _, x := range a {
		if x.Key == name {
			return strings.Join(append([]string{""}, x.Vals...), "")
		}
	}
	return ""
}

func (a args) has(name string) bool {
	for _, x := range a {
		if x.Key == name {
			return true
		}
	}
	return false
}

func (tr *transcript) run(out *strings.Builder, cmd string, list []datadriven.CmdArg, d *datadriven.TestData) {
	a := args(list)
	say := func(format string, args ...any) { fmt.Fprintf(out, cmd+": "+format+"\n", args...) }
	failed := func(err error) bool {
		if err != nil {
			say("%v", err)
		}
		return err != nil
	}
	switch cmd {
	case "config":
		tr.o.Config = log.Config{SegmentBytes: int32(a.num("segment", 1<<20)), IndexIntervalBytes: int32(a.num("interval", 0)), SegmentMs: a.num("ms", 0)}
		tr.o.LowerRecoveryPoint = func(to model.Offset) error { tr.rp = to; say("recovery point lowered to %d", to); return nil }
		tr.start(log.StopClean, 0)
	case "append":
		info, err := tr.l.Append(model.Now{Wall: tr.clock}, tr.set(a))
		if !failed(err) {
			say("[%d, %d] %d bytes%s", info.First, info.Last, info.Bytes, map[bool]string{true: ", rolled"}[info.Rolled])
		}
	case "flush":
		if j := tr.l.StartFlush(); j == nil {
			say("nothing to do")
		} else if !failed(tr.l.FinishFlush(j, j.Run())) {
			tr.rp = tr.l.RecoveryPoint()
			say("recovery point %d", tr.rp)
		}
	case "roll":
		failed(tr.l.Roll(model.Now{Wall: tr.clock}))
	case "checkpoint":
		failed(tr.l.Checkpoint())
	case "reclaim":
		left, err := tr.l.Reclaim()
		if !failed(err) && left > 0 {
			say("%d left", left)
		}
	case "close":
		if !failed(tr.l.Close(true)) {
			tr.rp = tr.l.RecoveryPoint()
		}
	case "drop":
		n, bytes, err := tr.l.DropBelow()
		if !failed(err) {
			say("%d segments, %d bytes", n, bytes)
		}
	case "start":
		tr.o.LogStart = model.Offset(a.num("to", 0))
		failed(tr.l.IncrementLogStart(tr.o.LogStart))
	case "truncate":
		rem, err := tr.l.Truncate(model.Offset(a.num("to", 0)))
		if !failed(err) {
			say("%s", removalText(rem))
		}
	case "anew":
		tr.o.LogStart = model.Offset(a.num("at", 0))
		rem, err := tr.l.TruncateFullyAndStartAt(tr.o.LogStart)
		if !failed(err) {
			say("%s", removalText(rem))
		}
	case "epoch":
		failed(tr.l.AssignEpoch(model.LeaderEpoch(a.num("e", 0)), tr.l.LogEnd()))
	case "kill":
		k := memfs.Kill{}
		if a.has("cut") {
			k.Cut = func(n int) int { return min(n, int(a.num("cut", 0))) }
		}
		tr.mem = tr.mem.KillClone(k)
		tr.fs = tr.mem
	case "power":
		tr.mem = tr.mem.CrashClone(memfs.Crash{UnsyncedPct: int(a.num("keep", 0)), Rand: tr.rand})
		tr.fs = tr.mem
	case "flip":
		path := tr.file(model.Offset(a.num("base", 0)), ".log")
		tr.rewrite(path, flip(tr.read(path), int(a.num("at", 0))))
	case "tail":
		path := tr.file(model.Offset(a.num("base", 0)), ".log")
		tr.rewrite(path, append(tr.read(path), make([]byte, a.num("bytes", 0))...))
	case "reopen":
		stop := map[string]log.Stop{"": log.StopPower, "clean": log.StopClean, "process": log.StopProcess, "power": log.StopPower}[a.text("stop")]
		rep, err := tr.open(stop, model.Offset(a.num("rp", int64(tr.rp))))
		for _, r := range rep.Removed {
			say("%s", removalText(r))
		}
		if !failed(err) {
			say("[%d, %d) recovery point %d", tr.l.LogStart(), tr.l.LogEnd(), tr.l.RecoveryPoint())
		}
	default:
		tr.look(out, cmd, a, d)
	}
}

// look runs the commands that change nothing.
func (tr *transcript) look(out *strings.Builder, cmd string, a args, d *datadriven.TestData) {
	say := func(format string, args ...any) { fmt.Fprintf(out, cmd+": "+format+"\n", args...) }
	switch cmd {
	case "read":
		tr.readCmd(a, say)
	case "when":
		to, found, err := tr.l.View().OffsetForTimestamp(model.Timestamp(a.num("ts", 0)), tr.l.LogEnd())
		say("%d at %d, found %v, %v", to.Offset, to.Timestamp, found, err)
	case "aborted":
		say("%v", tr.l.View().AbortedTxns(model.Offset(a.num("from", 0)), model.Offset(a.num("to", 0))))
	case "state":
		say("[%d, %d) recovery point %d, epochs %v, producers %d", tr.l.LogStart(), tr.l.LogEnd(), tr.l.RecoveryPoint(), tr.l.Epochs().Entries(), tr.l.Producers().Len())
	case "dump":
		tr.dump(out)
	default:
		d.Fatalf(tr.TB.(*testing.T), "unknown command %q", cmd)
	}
}

func removalText(r log.Removal) string {
	text := fmt.Sprintf("%s: %d bytes of [%d, %d), %d batches", r.Why, r.Bytes, r.Start, r.End, r.Batches)
	for _, p := range r.Parts {
		text += fmt.Sprintf("; %s from %d", filepath.Base(p.File), p.Pos)
	}
	return text
}

func (tr *transcript) set(a args) []byte {
	base := model.Offset(a.num("base", int64(tr.l.LogEnd())))
	var set []byte
	for range a.num("n", 1) {
		tr.clock++
		b := logtest.Batch(logtest.Spec{
			Base: base, Epoch: model.LeaderEpoch(a.num("epoch", 0)), Records: int(a.num("records", 1)),
			Timestamp: model.Timestamp(a.num("ts", int64(tr.clock))), Producer: model.ProducerID(a.num("producer", 0)),
			Txn: a.has("txn") || a.has("marker"), Marker: a.text("marker"),
		})
		set = append(set, b...)
		base = b.NextOffset()
	}
	return set
}

func (tr *transcript) readCmd(a args, say func(string, ...any)) {
	bound := model.Offset(a.num("bound", int64(tr.l.LogEnd())))
	r, err := tr.l.View().Read(model.Offset(a.num("from", 0)), bound, int(a.num("max", 1<<20)), a.has("minone"))
	if err != nil {
		say("%v", err)
		return
	}
	defer r.Release()
	b := make([]byte, r.Len())
	if _, err := r.ReadAt(b, 0); err != nil {
		say("%v", err)
		return
	}
	say("%d bytes%s", r.Len(), batchList(b))
}

func batchList(b []byte) string {
	var text string
	it := record.NewIter(b)
	for it.Next() {
		x := it.Batch()
		text += fmt.Sprintf(" [%d,%d]e%d", x.BaseOffset(), x.LastOffset(), x.LeaderEpoch())
	}
	if it.Rest() > 0 {
		text += fmt.Sprintf(" and %d bytes", it.Rest())
	}
	return text
}

// dump lists the directory.
func (tr *transcript) dump(out *strings.Builder) {
	names, err := tr.mem.List(testDir)
	tr.must(err)
	for _, name := range names {
		b, err := vfs.ReadFile(tr.mem, filepath.Join(testDir, name))
		tr.must(err)
		switch {
		case strings.Contains(name, ".log"):
			fmt.Fprintf(out, "  %s %d%s\n", name, len(b), batchList(b))
		case name == "leader-epoch-checkpoint":
			fmt.Fprintf(out, "  %s %q\n", name, b)
		default:
			fmt.Fprintf(out, "  %s %d\n", name, len(b))
		}
	}
}
