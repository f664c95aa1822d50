package coordinator

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
)

// tape is a machine whose calls write their keys, and are answered by what is
// committed by then.
type tape struct {
	told     []string
	deadline model.Instant
	closed   Code
}

func (m *tape) Begin(model.Now, *Out) { m.told = append(m.told, "begin") }
func (m *tape) Handle(_ model.Now, c *Call, out *Out) {
	m.told = append(m.told, "handle "+c.Key)
	switch c.Request {
	case "read":
		out.Answer(c, "read")
	case "barrier":
		out.Write(&Write{Call: c, Timeout: 100})
	default:
		out.Write(&Write{Records: []Record{{Key: []byte(c.Key)}}, Call: c, Timeout: 100})
	}
}
func (m *tape) Replay(at model.Offset, r Record) {
	m.told = append(m.told, fmt.Sprintf("replay %s at %d", r.Key, at))
}
func (m *tape) Commit(to model.Offset) { m.told = append(m.told, fmt.Sprintf("commit %d", to)) }
func (m *tape) Written(_ model.Now, w *Write, code Code, out *Out) {
	if code == CodeNone {
		out.Answer(w.Call, "written")
		return
	}
	out.Fail(w.Call, ClientCode(code))
}
func (m *tape) NextDeadline() model.Instant { return m.deadline }
func (m *tape) Tick(model.Now, *Out)        { m.told = append(m.told, "tick"); m.deadline = model.Never }
func (m *tape) Close(code Code, _ *Out)     { m.closed = code }

// rig is a runtime whose shell is the test.
type rig struct {
	t    *testing.T
	rt   Runtime
	out  Out
	m    *tape
	now  model.Now
	done map[string]string // answers by key
}

// serving is a runtime that has loaded an empty log.
func serving(t *testing.T) *rig {
	r := &rig{t: t, done: make(map[string]string)}
	r.rt.Lead(1, &r.out)
	if !r.out.Load || r.rt.State() != Loading {
		t.Fatal("a reign does not begin with loading")
	}
	r.settle()
	r.load(0)
	return r
}

func (r *rig) load(end model.Offset) {
	r.m = &tape{deadline: model.Never}
	r.rt.Loaded(r.now, r.rt.Load(), r.m, end, &r.out)
	r.settle()
}

// settle notes the answers and returns what is to be appended.
func (r *rig) settle() *Write {
	for _, c := range r.out.Answers {
		if c.Response != nil {
			r.done[c.Key] = c.Response.(string)
		} else {
			r.done[c.Key] = fmt.Sprint(c.Code)
		}
	}
	w := r.out.Append
	r.out.Reset()
	return w
}

func (r *rig) call(key string, request any) *Write {
	r.rt.Call(r.now, &Call{Key: key, Request: request}, &r.out)
	return r.settle()
}

func (r *rig) want(key, answer string) {
	r.t.Helper()
	if got := r.done[key]; got != answer {
		r.t.Errorf("%s is answered %q, want %q", key, got, answer)
	}
}

func (r *rig) wantTold(told ...string) {
	r.t.Helper()
	if !slices.Equal(r.m.told, told) {
		r.t.Errorf("the machine was told\n%q, want\n%q", r.m.told, told)
	}
	r.m.told = nil
}

// One append at a time: calls wait for it, and are decided after its replay.
func TestCallsWaitForTheAppend(t *testing.T) {
	r := serving(t)
	r.m.told = nil
	first := r.call("a", nil)
	if w := r.call("b", "read"); w != nil || len(r.done) != 0 {
		t.Fatal("a call was decided while an append is outstanding")
	}
	r.m.deadline = 0
	if r.rt.NextDeadline() != model.Never {
		t.Error("a deadline while an append is outstanding")
	}
	r.rt.Appended(r.now, first, 0, &r.out)
	r.settle()
	r.wantTold("handle a", "replay a at 0", "handle b")
	r.want("b", "read")
	r.want("a", "")
	if r.rt.NextDeadline() != 0 {
		t.Error("the deadline is gone")
	}
	r.rt.Committed(r.now, 1, &r.out)
	r.rt.Done(r.now, first, CodeNone, &r.out)
	r.settle()
	r.want("a", "written")
	r.wantTold("commit 1")
}

// What the log refuses is not replayed, and the next one is taken.
func TestRefusedAppend(t *testing.T) {
	r := serving(t)
	r.m.told = nil
	w := r.call("a", nil)
	r.call("b", nil)
	r.rt.Done(r.now, w, CodeNotEnoughReplicas, &r.out)
	if w = r.settle(); w == nil || string(w.Records[0].Key) != "b" {
		t.Fatal("the next write is not taken")
	}
	r.want("a", fmt.Sprint(CodeCoordinatorNotAvailable))
	r.wantTold("handle a", "handle b")
}

// When the reign ends, everything that waits is answered, wherever it waits, and
// what comes of it later changes nothing.
func TestUnlead(t *testing.T) {
	r := serving(t)
	open := r.call("open", nil)
	r.rt.Appended(r.now, open, 0, &r.out)
	r.settle()
	r.call("barrier", "barrier")
	appending := r.call("appending", nil)
	r.call("queued", nil)
	m := r.m
	r.rt.Unlead(&r.out)
	r.settle()
	for _, key := range []string{"open", "barrier", "appending", "queued"} {
		r.want(key, fmt.Sprint(CodeNotCoordinator))
	}
	if m.closed != CodeNotCoordinator || r.rt.Machine() != nil || r.rt.State() != Idle {
		t.Error("the machine is not closed")
	}
	r.call("later", nil)
	r.want("later", fmt.Sprint(CodeNotCoordinator))
	r.rt.Lead(2, &r.out)
	r.settle()
	r.call("loading", nil)
	r.want("loading", fmt.Sprint(CodeCoordinatorLoadInProgress))
	r.load(2)
	r.rt.Appended(r.now, appending, 1, &r.out)
	r.rt.Done(r.now, open, CodeNone, &r.out)
	r.rt.Done(r.now, appending, CodeNotLeaderOrFollower, &r.out)
	r.rt.Loaded(r.now, r.rt.Load()-1, &tape{}, 0, &r.out)
	r.rt.Committed(r.now, 2, &r.out)
	r.settle()
	r.wantTold("commit 2", "begin")
}

// A new leader's high watermark may be an old one. What lies above it may have
// been acknowledged by the leader before, so nobody is served until it has come to
// the end of what was loaded.
func TestServesOnceAllIsCommitted(t *testing.T) {
	r := serving(t)
	r.rt.Unlead(&r.out)
	r.rt.Lead(2, &r.out)
	r.rt.Committed(r.now, 3, &r.out)
	r.settle()
	r.load(5)
	r.call("early", "read")
	r.want("early", fmt.Sprint(CodeCoordinatorLoadInProgress))
	r.rt.Committed(r.now, 4, &r.out)
	if r.settle(); r.rt.State() != Loading {
		t.Fatalf("%s with the high watermark at 4 of 5", r.rt.State())
	}
	r.rt.Committed(r.now, 5, &r.out)
	r.settle()
	r.wantTold("commit 5", "begin")
	r.call("late", "read")
	r.want("late", "read")

	// One that is beyond what was loaded: there is more in the log.
	r.rt.Lead(3, &r.out)
	r.settle()
	r.load(5)
	r.rt.Committed(r.now, 6, &r.out)
	if !r.out.Load || r.rt.State() != Loading {
		t.Errorf("%s, load %v", r.rt.State(), r.out.Load)
	}
}

// Records of somebody else: the log is loaded anew.
func TestDoubtReloads(t *testing.T) {
	doubts := map[string]func(r *rig){
		"an append that ends elsewhere": func(r *rig) {
			w := r.call("a", nil)
			r.rt.Appended(r.now, w, 5, &r.out)
		},
		"a high watermark beyond the end": func(r *rig) {
			w := r.call("a", nil)
			r.rt.Appended(r.now, w, 0, &r.out)
			r.rt.Committed(r.now, 9, &r.out)
		},
	}
	for what, doubt := range doubts {
		r := serving(t)
		doubt(r)
		if !r.out.Load || r.rt.State() != Loading || r.rt.Reloads() != 1 {
			t.Errorf("%s: %s, load %v", what, r.rt.State(), r.out.Load)
		}
		r.settle()
		r.want("a", fmt.Sprint(CodeCoordinatorLoadInProgress))
	}
}

// A barrier passes when all before it is committed, or fails when its time is up.
func TestBarrier(t *testing.T) {
	r := serving(t)
	r.call("at once", "barrier")
	r.want("at once", "written")
	w := r.call("a", nil)
	r.rt.Appended(r.now, w, 0, &r.out)
	r.call("passes", "barrier")
	r.want("passes", "")
	r.rt.Committed(r.now, 1, &r.out)
	r.settle()
	r.want("passes", "written")
	w = r.call("b", nil)
	r.rt.Appended(r.now, w, 1, &r.out)
	r.call("late", "barrier")
	if at := r.rt.NextDeadline(); at != 100 {
		t.Errorf("the deadline is %d, want 100", at)
	}
	r.now.Mono = 100
	r.rt.Tick(r.now, &r.out)
	r.settle()
	r.want("late", fmt.Sprint(CodeCoordinatorNotAvailable))
}

// Nothing waits without a bound.
func TestBounds(t *testing.T) {
	r := serving(t)
	r.call("a", nil)
	for i := range CallsMax {
		r.call(fmt.Sprint("waits ", i), nil)
	}
	r.want("waits 0", "")
	r.call("too many", nil)
	r.want("too many", fmt.Sprint(CodeCoordinatorNotAvailable))
	r = serving(t)
	for i := range WritesMax {
		w := r.call(fmt.Sprint(i), nil)
		r.rt.Appended(r.now, w, model.Offset(i), &r.out)
		r.settle()
	}
	r.call("too many", nil)
	r.want("too many", fmt.Sprint(CodeCoordinatorNotAvailable))
}

// A log that can't be read is read again after a pause.
func TestLoadFails(t *testing.T) {
	r := &rig{t: t, done: make(map[string]string)}
	r.rt.Lead(1, &r.out)
	r.settle()
	r.rt.LoadFailed(r.now, r.rt.Load())
	r.call("a", nil)
	r.want("a", fmt.Sprint(CodeCoordinatorNotAvailable))
	if r.rt.State() != Failed || r.rt.NextDeadline() != retryLoad {
		t.Fatalf("%s until %d", r.rt.State(), r.rt.NextDeadline())
	}
	r.now.Mono = retryLoad
	r.rt.Tick(r.now, &r.out)
	if !r.out.Load || r.rt.State() != Loading {
		t.Error("it is not tried again")
	}
}

// A node that stops answers everybody, and leads no more.
func TestClose(t *testing.T) {
	r := serving(t)
	r.call("a", nil)
	r.rt.Close(&r.out)
	r.rt.Lead(2, &r.out)
	r.settle()
	r.call("b", nil)
	r.want("a", fmt.Sprint(CodeCoordinatorNotAvailable))
	r.want("b", fmt.Sprint(CodeCoordinatorNotAvailable))
	if r.rt.State() != Closed || r.out.Load {
		t.Errorf("%s", r.rt.State())
	}
}

// After a failed assertion nothing that the runtime held is touched again.
func TestRestart(t *testing.T) {
	r := serving(t)
	w := r.call("a", nil)
	load := r.rt.Load()
	r.rt.Restart(&r.out)
	if !r.out.Load || r.rt.Load() == load {
		t.Fatal("it is not loaded anew")
	}
	r.settle()
	r.load(1)
	r.rt.Appended(r.now, w, 0, &r.out)
	r.rt.Done(r.now, w, CodeNone, &r.out)
	r.settle()
	r.want("a", "")
}

func TestClientCodes(t *testing.T) {
	tests := map[Code]Code{0: 0, 3: 15, 7: 15, 19: 15, 20: 15, 6: 16, 56: 16, 10: -1, 18: -1, 14: 14, 15: 15, 16: 16, 77: -1}
	for in, want := range tests {
		if got := ClientCode(in); got != want {
			t.Errorf("%d becomes %d, want %d", in, got, want)
		}
	}
}
