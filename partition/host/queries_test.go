package host

import (
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/record"
)

// stamped builds a batch of one record with a timestamp.
func stamped(ts model.Timestamp) record.Batch {
	b := record.NewBuilder(record.Options{})
	b.Append(ts, nil, []byte("v"))
	return b.Build()
}

func TestListOffsets(t *testing.T) {
	n, h := leading(t, nil)
	base := n.rt.Now().Wall
	for _, d := range []model.Timestamp{0, 30, 10, 20} {
		n.send(h, 1, stamped(base+d))
	}
	type row struct {
		name string
		q    ListOffsetsQuery
		want ListOffsetsResult
	}
	client := func(ts model.Timestamp, version int16) ListOffsetsQuery {
		return ListOffsetsQuery{Timestamp: ts, CurrentEpoch: -1, Replica: -1, Version: version}
	}
	none := ListOffsetsResult{Offset: -1, Timestamp: -1, LeaderEpoch: -1}
	failed := func(c Code) ListOffsetsResult {
		r := none
		r.Code = c
		return r
	}
	for _, tt := range []row{
		{"latest", client(-1, 1), ListOffsetsResult{Offset: 4, Timestamp: -1}},
		{"earliest", client(-2, 1), ListOffsetsResult{Offset: 0, Timestamp: -1}},
		{"maximum", client(-3, 7), ListOffsetsResult{Offset: 1, Timestamp: base + 30}},
		{"earliest local", client(-4, 8), ListOffsetsResult{Offset: 0, Timestamp: -1}},
		{"latest tiered", client(-5, 9), none},
		{"earliest pending upload", client(-6, 11), none},
		{"maximum, too old a version", client(-3, 6), failed(35)},
		{"earliest local, too old a version", client(-4, 7), failed(35)},
		{"latest tiered, too old a version", client(-5, 8), failed(35)},
		{"unknown special", client(-7, 11), failed(35)},
		{"first record", client(base, 1), ListOffsetsResult{Offset: 0, Timestamp: base}},
		{"between", client(base+5, 1), ListOffsetsResult{Offset: 1, Timestamp: base + 30}},
		{"the very last", client(base+30, 1), ListOffsetsResult{Offset: 1, Timestamp: base + 30}},
		{"beyond all", client(base+31, 1), none},
		{"0", client(0, 1), ListOffsetsResult{Offset: 0, Timestamp: base}},
		{"old epoch", ListOffsetsQuery{Timestamp: -1, CurrentEpoch: 0, Replica: -1, Version: 4}, ListOffsetsResult{Offset: 4, Timestamp: -1}},
		{"future epoch", ListOffsetsQuery{Timestamp: -1, CurrentEpoch: 9, Replica: -1, Version: 4}, failed(75)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := h.State().ListOffsets(tt.q); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
	n.apply(deposed("t"))
	if got := h.State().ListOffsets(client(-1, 1)); got.Code != partition.CodeNotLeaderOrFollower {
		t.Errorf("not led: %+v", got)
	}
	if got := h.State().ListOffsets(ListOffsetsQuery{Timestamp: -1, CurrentEpoch: -1, Replica: DebuggingReplica, Version: 1}); got.Code != 0 || got.Offset != 4 {
		t.Errorf("a debugging consumer reads any replica: %+v", got)
	}
}

// twoReplicas leads t-0 with an ISR of this broker and one that never fetches.
func twoReplicas(t *testing.T) (*node, *Hosted) {
	n, h := leading(t, nil)
	n.send(h, 1, stamped(n.rt.Now().Wall)).want(t, 0, 0)
	n.apply(&metadata.RegisterBroker{ID: 2, Epoch: model.NoBrokerEpoch})
	c := metadata.NewPartitionChange(topicID("t"), 0)
	c.Replicas, c.ISR = []model.BrokerID{1, 2}, []model.BrokerID{1, 2}
	n.apply(c)
	n.send(h, 1, stamped(n.rt.Now().Wall+50)).want(t, 0, 1)
	return n, h
}

func TestListOffsetsWhileTheHighWatermarkLags(t *testing.T) {
	n, h := twoReplicas(t)
	ask := func(ts model.Timestamp, version int16, replica model.BrokerID) ListOffsetsResult {
		return h.State().ListOffsets(ListOffsetsQuery{Timestamp: ts, CurrentEpoch: -1, Replica: replica, Version: version})
	}
	if got := ask(-1, 5, -1); got.Code != 0 || got.Offset != 1 {
		t.Errorf("latest %+v, want the high watermark 1", got)
	}
	if got := ask(-1, 5, 2); got.Offset != 2 {
		t.Errorf("latest for a follower %+v, want the log end 2", got)
	}
	if got := ask(n.rt.Now().Wall+50, 5, -1); got.Code != 0 || got.Offset != -1 {
		t.Errorf("a record above the high watermark: %+v, want not found", got)
	}
	// A new epoch begins at 2, above the high watermark.
	n.apply(deposed("t"))
	c := metadata.NewPartitionChange(topicID("t"), 0)
	c.Leader = 1
	n.apply(c)
	if got := ask(-1, 5, -1); got.Code != partition.CodeOffsetNotAvailable {
		t.Errorf("latest %+v, want 78", got)
	}
	if got := ask(-1, 4, -1); got.Code != partition.CodeLeaderNotAvailable {
		t.Errorf("latest in version 4 %+v, want 5", got)
	}
	if got := ask(n.rt.Now().Wall+50, 5, -1); got.Code != partition.CodeOffsetNotAvailable {
		t.Errorf("a record above the high watermark: %+v, want 78", got)
	}
	if got := ask(n.rt.Now().Wall, 5, -1); got.Code != 0 || got.Offset != 0 {
		t.Errorf("a record below the high watermark: %+v, want 0", got)
	}
	if got := ask(-2, 5, -1); got.Code != 0 || got.Offset != 0 {
		t.Errorf("earliest %+v, want 0", got)
	}
	if got := ask(-1, 5, 2); got.Code != 0 || got.Offset != 2 {
		t.Errorf("latest for a follower %+v, want 2", got)
	}
}

func TestFetchBounds(t *testing.T) {
	n, h := twoReplicas(t)
	_ = n
	s := h.State() // high watermark 1, log end 2, epoch 0
	for _, tt := range []struct {
		name        string
		from        model.Offset
		epoch, last model.LeaderEpoch
		code        Code
		poll        bool
		diverging   model.LeaderEpoch
	}{
		{"from the start", 0, -1, -1, 0, false, -1},
		{"at the high watermark", 1, -1, -1, 0, true, -1},
		{"between the high watermark and the end", 2, -1, -1, 0, false, -1},
		{"beyond the end", 3, -1, -1, 1, false, -1},
		{"negative", -1, -1, -1, 1, false, -1},
		{"future epoch", 0, 3, -1, 75, false, -1},
		{"its own epoch", 1, 0, 0, 0, true, -1},
		{"diverging", 5, 0, 0, 0, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := s.FetchBounds(tt.from, tt.epoch, tt.last, ReadUncommitted, true)
			if b.Code != tt.code || b.Poll != tt.poll || b.Diverging.Epoch != tt.diverging {
				t.Errorf("%+v, want code %d, poll %v, diverging %d", b, tt.code, tt.poll, tt.diverging)
			}
		})
	}
}

func TestOffsetForLeaderEpoch(t *testing.T) {
	n, h := leading(t, nil)
	n.send(h, 1, batchOf(3, -1, 0)).want(t, 0, 0)
	n.apply(deposed("t")) // epoch 1, nobody
	if _, c := h.State().EndOffsetForEpoch(0, -1); c != partition.CodeNotLeaderOrFollower {
		t.Errorf("not led: code %d", c)
	}
	c := metadata.NewPartitionChange(topicID("t"), 0)
	c.Leader = 1
	n.apply(c) // epoch 2 begins at 3
	for _, tt := range []struct {
		asked, current model.LeaderEpoch
		want           model.OffsetAndEpoch
		code           Code
	}{
		{0, -1, offsetAndEpoch(3, 0), 0},
		{1, -1, offsetAndEpoch(3, 0), 0},
		{2, -1, offsetAndEpoch(3, 2), 0},
		{3, -1, offsetAndEpoch(-1, -1), 0},
		{-1, -1, offsetAndEpoch(-1, -1), 0},
		{0, 1, offsetAndEpoch(-1, -1), 74},
		{0, 5, offsetAndEpoch(-1, -1), 75},
	} {
		got, code := h.State().EndOffsetForEpoch(tt.asked, tt.current)
		if got != tt.want || code != tt.code {
			t.Errorf("epoch %d: %v, code %d, want %v, %d", tt.asked, got, code, tt.want, tt.code)
		}
	}
}

func TestDeleteRecords(t *testing.T) {
	n, h := leading(t, nil)
	for range 4 {
		n.send(h, 1, batchOf(2, -1, 0))
	}
	ask := func(o model.Offset) string {
		a := &answers{}
		h.DeleteRecords(o, model.Never, a, 0)
		n.flushAll()
		if len(a.deleted) != 1 {
			t.Fatalf("%d answers", len(a.deleted))
		}
		return a.deleted[0]
	}
	for _, tt := range []struct {
		to   model.Offset
		want string
	}{{9, "1 -1"}, {-2, "1 -1"}, {3, "0 3"}, {2, "0 3"}, {-1, "0 8"}, {8, "0 8"}} {
		if got := ask(tt.to); got != tt.want {
			t.Errorf("to %d: %s, want %s", tt.to, got, tt.want)
		}
	}
	if s := h.State(); s.LogStart != 8 || s.FetchBounds(3, -1, -1, ReadUncommitted, true).Code != 1 {
		t.Errorf("%+v: an offset below the log start can be read", s.Mark)
	}
	n.stop()
	n.start()
	if s := n.m.Get("t", 0).State(); s.LogStart != 8 {
		t.Errorf("log start %d after a restart, want 8", s.LogStart)
	}
	n.topic["t"] = map[string]string{"cleanup.policy": "compact"}
	n.register()
	h = n.m.Get("t", 0)
	policy := "compact"
	n.apply(&metadata.ConfigRecord{Resource: metadata.Resource{Type: metadata.TopicResource, Name: "t"}, Key: "cleanup.policy", Value: &policy})
	if got := ask(8); got != "44 -1" {
		t.Errorf("a compacted topic: %s, want 44", got)
	}
}

func TestConfigChangeTakesEffect(t *testing.T) {
	n, h := leading(t, nil)
	n.send(h, 1, batchOf(1, -1, 0)).want(t, 0, 0)
	n.topic["t"] = map[string]string{"flush.messages": "1"}
	one := "1"
	n.apply(&metadata.ConfigRecord{Resource: metadata.Resource{Type: metadata.TopicResource, Name: "t"}, Key: "flush.messages", Value: &one})
	if !h.State().Config.Flushes() {
		t.Error("the published settings are the old ones")
	}
	a := n.send(h, 1, batchOf(1, -1, 0))
	if len(a.produced) != 0 {
		t.Fatal("acknowledged before the disk")
	}
	n.flushAll()
	a.want(t, 0, 1)
}

// rider notes what an Attachment is told.
type rider struct{ told []string }

func (r *rider) Led(_ *Turn, e model.LeaderEpoch, end model.Offset) {
	r.told = append(r.told, "led")
	_, _ = e, end
}
func (r *rider) Applied(*Turn, model.Offset) { r.told = append(r.told, "applied") }
func (r *rider) Unled(*Turn)                 { r.told = append(r.told, "unled") }

func TestAttachment(t *testing.T) {
	n, h := leading(t, nil)
	r := &rider{}
	h.Attach(r)
	n.send(h, 1, batchOf(1, -1, 0)).want(t, 0, 0)
	n.apply(deposed("t"))
	want := []string{"led", "applied", "applied", "unled"}
	if len(r.told) != len(want) {
		t.Fatalf("told %v, want %v", r.told, want)
	}
	for i := range want {
		if r.told[i] != want[i] {
			t.Fatalf("told %v, want %v", r.told, want)
		}
	}
}

func TestReplicaFetchThroughTheHost(t *testing.T) {
	n, h := twoReplicas(t)
	w := &replicaAnswers{}
	h.ReplicaFetch(ReplicaFetchMsg{ReplicaFetch: partition.ReplicaFetch{
		Replica: 2, BrokerEpoch: -1, CurrentEpoch: 0, Offset: 2, LastEpoch: 0,
	}, Waiter: w})
	if len(w.got) != 1 || w.got[0].Code != 0 || w.got[0].Mark.LogEnd != 2 {
		t.Fatalf("%+v, want the log up to 2", w.got)
	}
	if hw := h.State().HighWatermark; hw != 2 {
		t.Errorf("high watermark %d, want 2: the follower has everything", hw)
	}
	_ = n
}

type replicaAnswers struct{ got []partition.ReplicaResult }

func (r *replicaAnswers) ReplicaFetchDone(_ int32, res partition.ReplicaResult, _ *State) {
	r.got = append(r.got, res)
}
