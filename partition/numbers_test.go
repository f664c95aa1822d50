package partition_test

import (
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/record"
)

// TestLoadedNumbersAreClamped gives what a disk might say; nothing of it may
// break the order of the four numbers, or stop the load.
func TestLoadedNumbersAreClamped(t *testing.T) {
	for _, tt := range []struct {
		name                     string
		start, hw, end, durable  model.Offset
		wantStart, wantHW, wantD model.Offset
	}{
		{"empty", 0, 0, 0, 0, 0, 0, 0},
		{"as it should be", 2, 5, 9, 7, 2, 5, 7},
		{"high watermark beyond the end", 2, 50, 9, 9, 2, 9, 9},
		{"high watermark below the start", 4, 1, 9, 9, 4, 4, 9},
		{"no high watermark", 4, 0, 9, 9, 4, 4, 9},
		{"start beyond the end", 12, 3, 9, 9, 9, 9, 9},
		{"negative", -1, -1, 3, -1, 0, 0, 0},
		{"durable beyond the end", 0, 3, 3, 8, 0, 3, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := partition.New(1, newMemLog(), defaultConfig(), partition.Loaded{
				LogStart: tt.start, HighWatermark: tt.hw, LogEnd: tt.end, Durable: tt.durable,
			}, model.Now{})
			m := p.Mark()
			if m.LogStart != tt.wantStart || m.HighWatermark != tt.wantHW || m.LastStable != tt.wantHW || m.LogEnd != tt.end {
				t.Errorf("loaded %+v, want start %d, high watermark and last stable %d, end %d", m, tt.wantStart, tt.wantHW, tt.end)
			}
			if p.Durable() != tt.wantD {
				t.Errorf("durable %d, want %d", p.Durable(), tt.wantD)
			}
		})
	}
}

// TestLastStableOffset loads a log with an open transaction.
func TestLastStableOffset(t *testing.T) {
	for _, tt := range []struct {
		name                string
		start, hw, txn, end model.Offset
		want                model.Offset
	}{
		{"open transaction below the high watermark", 0, 8, 3, 9, 3},
		{"open transaction above it", 0, 2, 3, 9, 2},
		{"the log start has passed its first record", 5, 8, 3, 9, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plog := newMemLog()
			b := record.NewBuilder(record.Options{
				BaseOffset: tt.txn, Idempotent: true, ProducerID: 5, Transactional: true,
			})
			b.Append(1, nil, []byte("v"))
			plog.producers.Update(b.Build())
			p := partition.New(1, plog, defaultConfig(), partition.Loaded{
				LogStart: tt.start, HighWatermark: tt.hw, LogEnd: tt.end,
			}, model.Now{})
			if got := p.Mark().LastStable; got != tt.want {
				t.Errorf("last stable offset %d, want %d", got, tt.want)
			}
		})
	}
}

// TestEndedTransactionIsStable loads a log whose only transaction has its marker:
// it is stable once the marker lies below the high watermark.
func TestEndedTransactionIsStable(t *testing.T) {
	for _, tt := range []struct{ hw, want model.Offset }{{6, 6}, {5, 5}, {4, 3}, {3, 3}} {
		plog := newMemLog()
		data := record.NewBuilder(record.Options{BaseOffset: 3, Idempotent: true, ProducerID: 5, Transactional: true})
		data.Append(1, nil, []byte("v"))
		plog.producers.Update(data.Build())
		marker := record.NewBuilder(record.Options{BaseOffset: 4, ProducerID: 5, BaseSequence: model.NoSequence, Idempotent: true, Transactional: true, Control: true})
		marker.AppendMarker(1, record.Marker{Type: record.Commit})
		plog.producers.Update(marker.Build())
		p := partition.New(1, plog, defaultConfig(), partition.Loaded{HighWatermark: tt.hw, LogEnd: 6}, model.Now{})
		if got := p.Mark().LastStable; got != tt.want {
			t.Errorf("high watermark %d: last stable offset %d, want %d", tt.hw, got, tt.want)
		}
	}
}

// TestRolesAnswerEverything gives every request to every role: each is answered
// exactly once.
func TestRolesAnswerEverything(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func() *partition.Partition
		want partition.Code
	}{
		{"follower", func() *partition.Partition {
			return partition.New(1, newMemLog(), defaultConfig(), partition.Loaded{}, model.Now{})
		}, partition.CodeNotLeaderOrFollower},
		{"offline", func() *partition.Partition { return partition.NewOffline(1, partition.CodeStorageError) }, partition.CodeStorageError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := tt.make()
			var out partition.Output
			m := &partition.Produce{Acks: 1}
			f := &partition.ReplicaFetch{Replica: 2, CurrentEpoch: -1}
			d := &partition.DeleteRecords{Offset: 3}
			p.Step(model.Now{}, &partition.Input{Kind: partition.KindProduce, Produce: m}, &out)
			p.Step(model.Now{}, &partition.Input{Kind: partition.KindReplicaFetch, Replica: f}, &out)
			p.Step(model.Now{}, &partition.Input{Kind: partition.KindDeleteRecords, Delete: d}, &out)
			p.Step(model.Now{}, &partition.Input{Kind: partition.KindAlterAnswered}, &out)
			p.Step(model.Now{}, &partition.Input{Kind: partition.KindTick}, &out)
			p.Step(model.Now{}, &partition.Input{Kind: partition.KindFlushed}, &out)
			p.Step(model.Now{}, &partition.Input{Kind: partition.KindFlushOld}, &out)
			if len(out.Produced) != 1 || m.Result.Code != tt.want || m.Result.BaseOffset != -1 {
				t.Errorf("produce: %d answers, %+v, want code %d", len(out.Produced), m.Result, tt.want)
			}
			if len(out.Replicas) != 1 || f.Result.Code != tt.want || f.Result.Diverging.Epoch != -1 {
				t.Errorf("replica fetch: %d answers, %+v, want code %d", len(out.Replicas), f.Result, tt.want)
			}
			if len(out.Deleted) != 1 || d.Code != tt.want || d.LowWatermark != -1 {
				t.Errorf("delete records: %d answers, code %d, want %d", len(out.Deleted), d.Code, tt.want)
			}
			if out.Write.Kind != partition.WriteNone {
				t.Errorf("a %s asked for write %d", tt.name, out.Write.Kind)
			}
		})
	}
}
