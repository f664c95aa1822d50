package quorum

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// stories are scripts that hold for the product; each ends in an error when the
// mutant of its name is on.
func stories() map[string]func(t testing.TB) error {
	return map[string]func(t testing.TB) error{
		"ctl-active-early":          storyActiveEarly,
		"ctl-bootstrap-majority":    storyBootstrapMajority,
		"ctl-change-before-propose": storyChangeBeforePropose,
		"ctl-confirm-by-memory":     storyConfirm,
		"ctl-confstate-apart":       storyConfStateApart,
		"ctl-expiry-first":          storyExpiryFirst,
		"ctl-hardstate-first":       storyHardStateFirst,
		"ctl-observer-falls-back":   storyObserverFallsBack,
		"ctl-reply-by-index":        storyReplyByIndex,
		"ctl-vote-lost":             storyVoteLost,
		"ctl-voters-apart":          storyVotersApart,
		"ctl-wiped-votes":           storyWipedVotes,
	}
}

func TestStories(t *testing.T) {
	for name, story := range stories() {
		t.Run(name, func(t *testing.T) {
			if err := story(t); err != nil {
				t.Error(err)
			}
		})
	}
}

// peers collects what a node sends.
type peers struct{ sent []*raftpb.Message }

func (p *peers) Send(_ metadata.Voter, body []byte) {
	_, m, err := decodeRaft(body)
	if err != nil {
		panic(err)
	}
	p.sent = append(p.sent, m)
}

// take returns the last message of a type, or nil, and forgets all.
func (p *peers) take(t raftpb.MessageType) (found *raftpb.Message) {
	for _, m := range p.sent {
		if m.GetType() == t {
			found = m
		}
	}
	p.sent = nil
	return found
}

// twoVoters returns a started node whose quorum has a second member, played by
// the test.
func twoVoters(t testing.TB) (*testNode, *peers, uint64) {
	fs := newDisk()
	a, b := metadata.DirectoryID{1}, metadata.DirectoryID{2}
	m, _, err := metadata.Apply(metadata.Empty(), bootstrapAt, []metadata.Record{
		&metadata.Cluster{ID: "c"},
		&metadata.Voters{Voters: []metadata.Voter{{Node: 1, Directory: a}, {Node: 2, Directory: b}}},
	})
	must(t, err)
	p := &peers{}
	n := newTestNode(t, settings{fs: fs, config: func(c *Config) { c.Peers, c.DirectoryID = p, a }})
	must(t, writeFirst(n.config, n.dir, n.rt.now, m))
	must(t, n.Start())
	return n, p, metadata.RaftID(2, b)
}

// respond answers a message of the node as the other member.
func (n *testNode) respond(to *raftpb.Message, answer raftpb.MessageType, index uint64) {
	n.Receive(&raftpb.Message{
		Type: answer.Enum(), From: new(to.GetTo()), To: new(to.GetFrom()), Term: new(to.GetTerm()), Index: new(index),
	})
	n.rt.run()
}

// elect makes the node the leader; its first entry is not yet acknowledged.
func (n *testNode) elect(p *peers) (*raftpb.Message, error) {
	n.rt.advance(2 * n.electionTimeout())
	pre := p.take(raftpb.MsgPreVote)
	if pre == nil {
		return nil, errors.New("no campaign")
	}
	n.respond(pre, raftpb.MsgPreVoteResp, 0)
	vote := p.take(raftpb.MsgVote)
	if vote == nil {
		return nil, errors.New("no vote asked for")
	}
	n.respond(vote, raftpb.MsgVoteResp, 0)
	app := p.take(raftpb.MsgApp)
	if app == nil || len(app.GetEntries()) != 1 {
		return nil, errors.New("no entry of the new term")
	}
	return app, nil
}

// storyActiveEarly: a leader whose term has no committed entry yet may lack what
// its predecessor acknowledged; it takes no command.
func storyActiveEarly(t testing.TB) error {
	n, p, _ := twoVoters(t)
	app, err := n.elect(p)
	if err != nil {
		return err
	}
	if n.Describe().Leader != 1 {
		return fmt.Errorf("not the leader: %+v", n.Describe())
	}
	early := n.submit(createRequest("early", 1))
	n.rt.run()
	if n.Describe().Active || !errors.Is(early.err, ErrNotActive) {
		return fmt.Errorf("took a command before an entry of its term was committed: %d calls, %v", early.calls, early.err)
	}
	n.respond(app, raftpb.MsgAppResp, app.GetEntries()[0].GetIndex())
	if !n.Describe().Active {
		return errors.New("not active after the commit")
	}
	return nil
}

// TestLostLeadership: a command whose entry another leader replaces gets an
// error, and what replaces it is applied.
func TestLostLeadership(t *testing.T) {
	n, p, other := twoVoters(t)
	app, err := n.elect(p)
	must(t, err)
	n.respond(app, raftpb.MsgAppResp, app.GetEntries()[0].GetIndex())
	p.sent = nil
	o := n.submit(n.registerRequest())
	queued := n.submit(n.registerRequest())
	n.rt.run()
	mine := p.take(raftpb.MsgApp)
	if o.calls != 0 || mine == nil {
		t.Fatalf("answered before the commit: %d calls", o.calls)
	}
	last := mine.GetEntries()[len(mine.GetEntries())-1]
	data := metadata.AppendEntry(nil, metadata.Entry{Records: []metadata.Record{&metadata.FeatureLevel{Feature: metadata.Feature{Name: "theirs", Level: 1}}}})
	n.Receive(&raftpb.Message{
		Type: raftpb.MsgApp.Enum(), From: new(other), To: new(mine.GetFrom()), Term: new(mine.GetTerm() + 1),
		Index: new(last.GetIndex() - 1), LogTerm: new(mine.GetTerm()), Commit: new(last.GetIndex()),
		Entries: []*raftpb.Entry{{Index: new(last.GetIndex()), Term: new(mine.GetTerm() + 1), Data: data}},
	})
	n.rt.run()
	for _, o := range []*outcome{o, queued} {
		if o.calls != 1 || !errors.Is(o.err, ErrNotActive) {
			t.Fatalf("%d calls, %v", o.calls, o.err)
		}
	}
	if n.Image().Broker(1) != nil || n.Image().Feature("theirs") != 1 || n.Describe().Leader != 2 || n.Describe().Active {
		t.Fatalf("image %v, %+v", n.Image().Features(), n.Describe())
	}
	n.followed()
	if term, err := n.store.Term(last.GetIndex()); err != nil || term != mine.GetTerm()+1 {
		t.Fatalf("term %d, %v", term, err)
	}
}

// storyReplyByIndex: the entry that is committed at a command's index is another
// one if its term is; the command then gets no reply of success.
func storyReplyByIndex(testing.TB) error {
	var w waiters
	a, b, c := &job{}, &job{}, &job{}
	for i, j := range []*job{a, b, c} {
		w.propose([]*job{j})
		w.place(uint64(10+i), 3)
	}
	done, lost := w.committed(10, 3)
	if len(done) != 1 || done[0] != a || len(lost) != 0 {
		return fmt.Errorf("entry 10: %d done, %d lost", len(done), len(lost))
	}
	done, lost = w.committed(11, 4)
	if len(done) != 0 || len(lost) != 1 || lost[0] != b {
		return fmt.Errorf("entry 11 of another term: %d done, %d lost", len(done), len(lost))
	}
	if done, lost = w.committed(15, 4); len(done) != 0 || len(lost) != 1 || lost[0] != c || !w.empty() {
		return fmt.Errorf("entry 12 was passed over: %d done, %d lost", len(done), len(lost))
	}
	return nil
}

// storyChangeBeforePropose: a proposal that is refused leaves no trace.
func storyChangeBeforePropose(t testing.TB) error {
	n := startNode(t, settings{fs: newDisk()})
	n.join()
	image, propose := n.Image(), n.propose
	n.propose = func([]byte) error { return raft.ErrProposalDropped }
	if o := n.do(createRequest("t", 1)); !errors.Is(o.err, ErrNotActive) || !errors.Is(o.err, raft.ErrProposalDropped) {
		return fmt.Errorf("a dropped proposal was answered with %v", o.err)
	}
	if n.Image() != image || n.ctl.Image() != image {
		return fmt.Errorf("the image shows topics %v that were never proposed", topicNames(n.Image()))
	}
	n.propose = propose
	if err := n.do(createRequest("t", 1)).created(); err != nil {
		return fmt.Errorf("the same topic afterwards: %w", err)
	}
	return nil
}

// storyConfStateApart: the voter configuration after a restart is the one that
// was applied, however it is split between snapshot and log.
func storyConfStateApart(t testing.TB) error {
	fs := newDisk()
	n := startNode(t, settings{fs: fs})
	var out loop.Outbox
	change := raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{{Type: raftpb.ConfChangeAddLearnerNode.Enum(), NodeId: new(uint64(77))}}}
	if err := n.raft.ProposeConfChange(&change); err != nil {
		return err
	}
	n.drive(n.rt.now, &out)
	if fmt.Sprint(n.conf.GetLearners()) != "[77]" {
		return fmt.Errorf("learners %v", n.conf.GetLearners())
	}
	for life := range 3 { // later restarts find it below the stored commit index
		if life > 0 {
			n.Stop(true)
		}
		fs = fs.KillClone(memfs.Kill{})
		n = newTestNode(t, settings{fs: fs})
		if err := n.Start(); err != nil {
			return err
		}
		if fmt.Sprint(n.conf.GetLearners()) != "[77]" {
			return fmt.Errorf("after restart %d the learners are %v", life+1, n.conf.GetLearners())
		}
	}
	return nil
}

// storyHardStateFirst: a power loss while entries of a new term and the commit
// index that counts them are written never leaves an index without its entry.
func storyHardStateFirst(t testing.TB) error {
	origin := newDisk()
	n := startNode(t, settings{fs: origin})
	n.Stop(true)
	for k := int64(1); ; k++ {
		fs := origin.Fork()
		o := n.config
		o.FS = faultfs.Wrap(fs, faultfs.When(faultfs.And(faultfs.Mutations(), faultfs.FromNth(k)), faultfs.EIO()))
		s, _, err := load(o, n.dir, n.rt.now)
		if err == nil {
			next := s.lastIndex() + 1
			rd := raft.Ready{
				HardState: &raftpb.HardState{Term: new(uint64(9)), Vote: new(uint64(3)), Commit: new(next)},
				Entries:   []*raftpb.Entry{{Index: new(next), Term: new(uint64(9)), Type: raftpb.EntryNormal.Enum()}},
			}
			err = s.save(n.rt.now, rd)
		}
		o.FS = fs.CrashClone(memfs.Crash{})
		again, _, loadErr := load(o, n.dir, n.rt.now)
		if loadErr != nil {
			return fmt.Errorf("a power loss at operation %d leaves %w", k, loadErr)
		}
		if again.hard.Commit > again.lastIndex() {
			return fmt.Errorf("commit %d, last %d", again.hard.Commit, again.lastIndex())
		}
		if err == nil {
			return nil
		}
	}
}

// storyWipedVotes: a node with a past whose metadata is gone does not make
// itself a new, empty cluster.
func storyWipedVotes(t testing.TB) error {
	n := newTestNode(t, settings{fs: newDisk(), config: func(c *Config) { c.Used, c.ClusterID = true, "old" }})
	if err := n.Start(); !errors.Is(err, ErrWiped) {
		return fmt.Errorf("started with %d voters: %v", len(n.Image().Voters()), err)
	}
	return nil
}

// storyExpiryFirst: a heartbeat waits in the mailbox when the session's time is
// up. It counts.
func storyExpiryFirst(t testing.TB) error {
	n := startNode(t, settings{fs: newDisk()})
	n.join()
	n.rt.advance(8_900_000_000)
	published := len(n.images)
	n.rt.now.Mono += 100_000_000
	n.heartbeat()
	for _, m := range n.images[published:] {
		if m.Broker(1).Fenced {
			return fmt.Errorf("broker 1 was fenced at %s, before its heartbeat was looked at", m.At())
		}
	}
	return nil
}
