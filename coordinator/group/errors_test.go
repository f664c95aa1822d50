package group

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/internal/model"
)

// tell runs a script of the transcripts' directives, separated by semicolons, and
// returns what the last one has told. "members" stands for two classic members in
// generation 1, a1 and b2, whose assignments are given; "peers" for one member m of
// the consumer protocol in epoch 1.
func tell(t *testing.T, script string) string {
	t.Helper()
	script = strings.NewReplacer(
		"members", "join A client=a v=3; join B client=b v=3; pass ms=1; sync b2; sync a1 assign=a1:x|b2:y",
		"peers", "beat m",
	).Replace(script)
	w := newWorld(defaultConfig())
	for _, line := range strings.Split(script, ";") {
		cmd, cmdArgs, err := datadriven.ParseLine(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		a := args{&datadriven.TestData{Cmd: cmd, CmdArgs: cmdArgs}}
		w.written.Reset()
		switch cmd {
		case "size":
			w.cfg.SizeMax, w.cfg.ConsumerSizeMax = int(a.num("max", 1)), int(a.num("max", 1))
		case "delay":
			w.cfg.InitialDelay = model.Instant(a.num("ms", 0)) * ms
		case "unlead":
			w.rt.Unlead(&w.out)
			w.carry()
		case "close":
			w.rt.Close(&w.out)
			w.carry()
		case "loading":
			w.rt.Lead(w.rt.Epoch()+1, &w.out)
			w.out.Reset() // nobody reads the log
		default:
			w.command(t, a)
		}
	}
	return w.written.String()
}

// TestEveryErrorCode has each way in which a group refuses something, with its
// code. Source: Kafka 4.3's GroupMetadataManager, OffsetMetadataManager,
// ClassicGroup and ConsumerGroup.
func TestEveryErrorCode(t *testing.T) {
	for _, tt := range []struct{ fact, script, want string }{
		{"the log is being loaded", "loading; heartbeat a1", "a1: 14"},
		{"the coordinator is elsewhere", "unlead; heartbeat a1", "a1: 16"},
		{"the node stops", "close; heartbeat a1", "a1: 15"},
		{"a join waits when the coordinator moves", "delay ms=3000; join A v=3; unlead", "A: 16"},
		{"a sync waits when the node stops", "join A client=a v=3; join B client=b v=3; pass ms=1; sync b2; close", "b2: 15"},

		{"join: the session is too short", "join A session=5999", "A: 26"},
		{"join: the session is too long", "join A session=1800001", "A: 26"},
		{"join: a member id, and no group", "join A as=ghost", "A: 25"},
		{"join: no protocols", "join A no-protocols", "A: 23"},
		{"join: no protocol type", "join A type=", "A: 23"},
		{"join: another protocol type", "members; join C type=connect", "C: 23"},
		{"join: no protocol in common", "members; join C protocols=other:t", "C: 23"},
		{"join: no id yet, from version 4", "join A v=4", "A: 79"},
		{"join: an unknown id", "members; join C as=ghost", "C: 25"},
		{"join: an unknown instance", "members; join C as=ghost instance=i", "C: 25"},
		{"join: an instance of another id", "join A client=a instance=ia; pass ms=1; join B as=other instance=ia", "B: 82"},
		{"join: the instance's first join still waits", "delay ms=3000; join A client=a instance=ia; join B client=a instance=ia", "A: 82"},
		{"join: the instance's sync still waits", "join A client=a instance=ia; pass ms=1; join B client=b instance=ib; join A as=ia1 instance=ia; sync ib2 generation=2 instance=ib; join B client=b instance=ib", "ib2: 82"},
		{"join: the group is full", "size max=2; members; join C v=3", "C: 81"},
		{"join: the first phase of a full group", "size max=1; delay ms=3000; join A v=3; join B v=3", "B: 81"},
		{"join: another join of the member", "members; join A as=a1; join B as=a1", "A: 27"},
		{"join: it did not come in the rebalance timeout", "members; join C client=c v=3; pass ms=9000; heartbeat b2; pass ms=9000; heartbeat b2; pass ms=60000; heartbeat b2 generation=2", "b2: 25"},

		{"sync: no group", "sync a1", "a1: 25"},
		{"sync: an unknown member", "members; sync ghost", "ghost: 25"},
		{"sync: an instance of another id", "join A client=a instance=ia; pass ms=1; sync other instance=ia", "other: 82"},
		{"sync: another generation", "members; sync a1 generation=2", "a1: 22"},
		{"sync: another protocol type", "members; sync a1 type=connect", "a1: 23"},
		{"sync: another protocol", "members; sync a1 protocol=other", "a1: 23"},
		{"sync: a rebalance has begun", "members; join C v=3; sync a1", "a1: 27"},
		{"sync: a rebalance begins while it waits", "join A client=a v=3; join B client=b v=3; pass ms=1; sync b2; join C v=3", "b2: 27"},
		{"sync: the leader never comes", "join A client=a v=3; join B client=b v=3; pass ms=1; sync b2; pass ms=9000; heartbeat a1; pass ms=9000; heartbeat a1; pass ms=50000", "b2: 27"},
		{"sync: the write finds too few replicas", "join A client=a v=3; pass ms=1; refuse code=19; sync a1 assign=a1:x", "a1: 15"},
		{"sync: too few replicas have the write", "join A client=a v=3; pass ms=1; hold; sync a1 assign=a1:x; fail code=20", "a1: 15"},
		{"sync: the write times out", "join A client=a v=3; pass ms=1; hold; sync a1 assign=a1:x; fail code=7", "a1: 15"},
		{"sync: the partition is not here", "join A client=a v=3; pass ms=1; refuse code=3; sync a1 assign=a1:x", "a1: 15"},
		{"sync: the leader has moved", "join A client=a v=3; pass ms=1; refuse code=6; sync a1 assign=a1:x", "a1: 16"},
		{"sync: the disk fails", "join A client=a v=3; pass ms=1; refuse code=56; sync a1 assign=a1:x", "a1: 16"},
		{"sync: the assignments are too large", "join A client=a v=3; pass ms=1; refuse code=10; sync a1 assign=a1:x", "a1: -1"},
		{"sync: the batch is too large", "join A client=a v=3; pass ms=1; refuse code=18; sync a1 assign=a1:x", "a1: -1"},

		{"heartbeat: no group", "heartbeat a1", "a1: 25"},
		{"heartbeat: an empty group", "members; leave a1; leave b2; pass ms=60000; heartbeat a1", "a1: 25"},
		{"heartbeat: an unknown member", "members; heartbeat ghost", "ghost: 25"},
		{"heartbeat: an instance of another id", "join A client=a instance=ia; pass ms=1; heartbeat other instance=ia", "other: 82"},
		{"heartbeat: another generation", "members; heartbeat a1 generation=7", "a1: 22"},
		{"heartbeat: a rebalance has begun", "members; join C v=3; heartbeat a1", "a1: 27"},
		{"heartbeat: assignments are awaited", "join A client=a v=3; pass ms=1; heartbeat a1", "a1: ok"},
		{"heartbeat: it was not heard of", "members; pass ms=10001; heartbeat a1", "a1: 25"},

		{"leave: no group", "leave a1", "a1: 25"},
		{"leave: an unknown member", "members; leave ghost", "[ghost 25"},
		{"leave: up to version 2 the error is the request's", "members; leave ghost v=2", "ghost: 25"},
		{"leave: an instance of another id", "join A client=a instance=ia; pass ms=1; leave other instance=ia", "[other/ia 82"},
		{"leave: an unknown instance", "join A client=a instance=ia; pass ms=1; leave x instance=ib nameless", "[/ib 25"},

		{"commit: a generation, and no group", "commit A generation=1 v=8", "t-0 22"},
		{"commit: the same from version 9", "commit A generation=1 v=9", "t-0 69"},
		{"commit: no generation, and no group", "commit A", "t-0 ok"},
		{"commit: no member of a group that has some", "members; commit A", "t-0 25"},
		{"commit: an unknown member", "members; commit A as=ghost generation=1", "t-0 25"},
		{"commit: an instance of another id", "join A client=a instance=ia; pass ms=1; commit A as=other instance=ia generation=1", "t-0 82"},
		{"commit: another generation", "members; commit A as=a1 generation=2", "t-0 22"},
		{"commit: assignments are awaited", "join A client=a v=3; pass ms=1; commit A as=a1 generation=1", "t-0 27"},
		{"commit: in the joining phase it is taken", "members; join C v=3; commit A as=a1 generation=1", "t-0 ok"},
		{"commit: the text is too long", "commit A text=" + strings.Repeat("x", 4097), "t-0 12"},
		{"commit: too few replicas", "refuse code=19; commit A", "t-0 15"},
		{"commit: the leader has moved", "refuse code=6; commit A", "t-0 16"},
		{"commit: the batch is too large", "refuse code=10; commit A", "t-0 28"},
		{"commit: it times out", "hold; commit A; fail code=7", "t-0 15"},

		{"fetch: an unknown group has no offsets, which is no error", "fetch A", "A: ok t-0=-1"},
		{"delete offsets: no group", "delete-offsets A", "A: 69"},
		{"delete offsets: of a topic that is read", "members; delete-offsets A topic=t", "t-0 86"},
		{"delete offsets: a group with members of another type", "join A client=a v=3 type=connect; pass ms=1; delete-offsets A", "A: 68"},
		{"delete: no group", "delete A", "A: 69"},
		{"delete: a group with members", "members; delete A", "A: 68"},
		{"delete: a consumer group with members", "peers; delete A", "A: 68"},
		{"describe: no group, up to version 5", "describe A v=5", "A: ok Dead"},
		{"describe: no group, from version 6", "describe A v=6", "A: 69"},
		{"describe: a consumer group", "peers; describe A v=6", "A: 69"},
		{"describe a consumer group: a classic one", "members; describe-consumer A", "A: 69"},
		{"describe a consumer group: none", "describe-consumer A", "A: 69"},

		{"consumer: a member of no group", "beat m epoch=3", "m: 69"},
		{"consumer: it leaves no group", "beat m epoch=-1", "m: 69"},
		{"consumer: an unknown member", "peers; beat n epoch=1", "n: 25"},
		{"consumer: an unknown member leaves", "peers; beat n epoch=-1", "n: 25"},
		{"consumer: an unknown instance", "peers; beat n epoch=1 instance=i", "n: 25"},
		{"consumer: an instance of another member", "beat m instance=i; beat n epoch=1 instance=i", "n: 82"},
		{"consumer: an instance that has not left", "beat m instance=i; beat n instance=i", "n: 111"},
		{"consumer: an epoch that is to come", "peers; beat m epoch=9", "m: 110"},
		{"consumer: an epoch that is over", "beat m; beat n; beat m epoch=1 owns=t.0.1.2.3; beat m epoch=1 owns=t.0.1; beat o; beat m epoch=2; beat m epoch=1 owns=t.3", "m: 110"},
		{"consumer: the group is full", "size max=1; peers; beat n", "n: 81"},
		{"consumer: it was not heard of", "peers; pass ms=45001; beat m epoch=1", "m: 25"},
		{"consumer: it does not give up what it has to", "peers; beat n; beat m epoch=1; pass ms=40000; beat n epoch=2; beat m epoch=1; pass ms=21000; beat m epoch=1", "m: 25"},
		{"consumer: a commit in another epoch", "peers; commit A as=m generation=2", "t-0 113"},
		{"consumer: a commit of nobody", "peers; commit A", "t-0 25"},
		{"consumer: a commit of an old client", "peers; commit A as=m generation=1 v=8", "t-0 35"},
		{"consumer: too few replicas", "refuse code=19; beat m", "m: 15"},
		{"consumer: the leader has moved", "refuse code=6; beat m", "m: 16"},
		{"consumer: a classic member with nothing in common", "peers; join A client=a v=3; join B protocols=other:t v=3", "B: 23"},
		{"consumer: a classic member of another type", "peers; join A type=connect v=3", "A: 23"},
		{"consumer: a classic member needs an id", "peers; join A v=4", "A: 79"},
		{"consumer: the group is full for classic members too", "size max=1; peers; join A v=3", "A: 81"},
	} {
		t.Run(tt.fact, func(t *testing.T) {
			if got := tell(t, tt.script); !strings.Contains(got, tt.want) || strings.Contains(got, tt.want+"0") {
				t.Errorf("%s\nis answered %q, want %q", tt.script, got, tt.want)
			}
		})
	}
}

// TestNamelessGroups: "" is no group for those that join, and one for those that
// only keep offsets.
func TestNamelessGroups(t *testing.T) {
	w := newWorld(defaultConfig())
	w.group = ""
	for want, req := range map[string]any{
		"join: 24":      w.joinRequest(args{&emptyData}),
		"sync: 24":      kmsg.NewPtrSyncGroupRequest(),
		"heartbeat: 24": kmsg.NewPtrHeartbeatRequest(),
		"leave: 24":     kmsg.NewPtrLeaveGroupRequest(),
		"delete: 24":    kmsg.NewPtrOffsetDeleteRequest(),
		"beat: 42":      kmsg.NewPtrConsumerGroupHeartbeatRequest(),
		"commit: t-0 ok": func() any {
			return w.commitRequest(args{&emptyData})
		}(),
	} {
		w.written.Reset()
		w.call(want[:strings.Index(want, ":")], 1, "c", req)
		if !strings.Contains(w.written.String(), want) {
			t.Errorf("%q, want %q", w.written.String(), want)
		}
	}
}

// TestTwoThousandMembers: a large group whose members come and go ends in one
// generation with all of them, and its state is what is there.
func TestTwoThousandMembers(t *testing.T) {
	cfg := defaultConfig()
	cfg.InitialDelay = 3_000 * ms
	w := newWorld(cfg)
	rng := rand.New(rand.NewPCG(2000, 1))
	const size = 2_000
	type mem struct {
		call *coordinator.Call
		id   string
	}
	all := make([]*mem, size)
	join := func(i int) {
		req := w.joinRequest(args{&emptyData})
		switch {
		case all[i] == nil:
			all[i] = &mem{}
		case !all[i].call.Answered():
			return // it waits
		default:
			if resp := all[i].call.Response.(*kmsg.JoinGroupResponse); resp.ErrorCode == 0 {
				all[i].id = resp.MemberID
			}
			req.MemberID = all[i].id
		}
		all[i].call = w.call(fmt.Sprint(i), 3, fmt.Sprint("c", i), req)
	}
	learn := func() (generation int32) {
		for _, m := range all {
			if resp, ok := m.call.Response.(*kmsg.JoinGroupResponse); ok {
				generation = max(generation, resp.Generation)
				if resp.ErrorCode == 0 {
					m.id = resp.MemberID
				}
			}
		}
		return generation
	}
	for i := range size {
		join(i)
	}
	w.pass(3_000 * ms)
	w.pass(3_000 * ms)
	first := learn()
	for range 5 { // a fifth goes and comes back as somebody else, the others join again
		for i := range size {
			if rng.IntN(5) == 0 {
				leave := kmsg.NewPtrLeaveGroupRequest()
				rm := kmsg.NewLeaveGroupRequestMember()
				rm.MemberID = all[i].id
				leave.Members = append(leave.Members, rm)
				w.call("leave", 4, "c", leave)
				all[i] = nil
			}
		}
		for i := range size {
			join(i)
		}
		w.pass(1 * ms)
		learn()
		if i := len(w.machine().groups["g"].classic.members); i != size {
			t.Fatalf("%d members", i)
		}
	}
	g := w.machine().groups["g"]
	for tries := 0; g.classic.state == PreparingRebalance && tries < 10; tries++ {
		for i := range size { // the last to come were too late for the others
			join(i)
		}
		w.pass(1 * ms)
		learn()
	}
	last := learn()
	if len(g.classic.members) != size || g.classic.state != CompletingRebalance || last <= first || last != g.classic.generation {
		t.Fatalf("%d members, %s, generations %d to %d", len(g.classic.members), g.classic.state, first, last)
	}
	req := kmsg.NewPtrSyncGroupRequest()
	req.Generation = last
	for _, m := range all {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = m.id, []byte(m.id)
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	for _, m := range all {
		one := *req
		if one.MemberID = m.id; m.id != g.classic.leader {
			one.GroupAssignment = nil
		}
		m.call = w.call("sync", 4, "c", &one)
	}
	for i, m := range all {
		if resp, ok := m.call.Response.(*kmsg.SyncGroupResponse); !ok || string(resp.MemberAssignment) != m.id {
			t.Fatalf("member %d: %+v, %d", i, m.call.Response, m.call.Code)
		}
	}
	if n := w.machine().timers.heap.Len(); n > size+1 {
		t.Errorf("%d deadlines for %d members", n, size)
	}
	w.lead()
	if g := w.machine().groups["g"]; len(g.classic.members) != size || g.classic.state != Stable {
		t.Errorf("after a move: %d members, %s", len(g.classic.members), g.classic.state)
	}
}
