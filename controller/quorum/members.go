package quorum

import (
	"fmt"
	"slices"
	"time"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"go.uber.org/zap"
)

// The error codes that changes of the voter set are answered with. Source:
// KIP-853.
const (
	codeNone                  int16 = 0
	codeNotLeader             int16 = 6
	codeRequestTimedOut       int16 = 7
	codeInvalidRequest        int16 = 42
	codeInconsistentClusterID int16 = 104
	codeDuplicateVoter        int16 = 126
	codeVoterNotFound         int16 = 127
)

const (
	// proposeAgain is after how long a step of a change that shows no effect is
	// proposed once more: the library drops one while another is under way.
	proposeAgain = model.Instant(500 * time.Millisecond)
	// changeMax bounds a change whose request names no time.
	changeMax = model.Instant(30 * time.Second)
	// learnerLag is how many entries a learner may lack when it gets its vote.
	learnerLag = 16
)

// memberChange is the one change of the voter set that is under way. It is
// driven by what has been applied, step by step, at every turn: nothing is lost
// when a proposal is.
type memberChange struct {
	job    *job
	remove bool
	voter  metadata.Voter
	until  model.Instant
	// proposedAt is when the last step was proposed, 0 if the next one is due.
	proposedAt model.Instant
	step       raftpb.ConfChangeType
}

func (c *memberChange) raftID() uint64 { return metadata.RaftID(c.voter.Node, c.voter.Directory) }

// changesMembers reports whether a command is about the voter set, which is the
// quorum's own affair.
func changesMembers(req kmsg.Request) bool {
	switch req.(type) {
	case *kmsg.AddRaftVoterRequest, *kmsg.RemoveRaftVoterRequest:
		return true
	}
	return false
}

// memberReply answers a command about the voter set.
func memberReply(req kmsg.Request, code int16, why string) kmsg.Response {
	var text *string
	if code != codeNone {
		text = &why
	}
	switch req := req.(type) {
	case *kmsg.AddRaftVoterRequest:
		r := req.ResponseKind().(*kmsg.AddRaftVoterResponse)
		r.ErrorCode, r.ErrorMessage = code, text
		return r
	case *kmsg.RemoveRaftVoterRequest:
		r := req.ResponseKind().(*kmsg.RemoveRaftVoterResponse)
		r.ErrorCode, r.ErrorMessage = code, text
		return r
	}
	return nil
}

// changeMembers begins a change.
func (n *Node) changeMembers(now model.Now, j *job, out *loop.Outbox) {
	answer := func(code int16, why string) {
		out.Add(&delivery{done: j.done, resp: memberReply(j.cmd.Request, code, why), at: n.Image().At()})
	}
	if n.closed || n.failure != nil || !n.ctl.Active() {
		answer(codeNotLeader, "not the leader of the metadata quorum")
		return
	}
	c := &memberChange{job: j, until: now.Mono + changeMax}
	if code, why := n.checkChange(c); code != codeNone {
		answer(code, why)
		return
	}
	if add, ok := j.cmd.Request.(*kmsg.AddRaftVoterRequest); ok && add.TimeoutMillis > 0 {
		c.until = now.Mono + model.Instant(add.TimeoutMillis)*1_000_000
	}
	n.change = c
	n.reconcile(now, out)
	n.setTicking(now)
}

// checkChange fills c from its request, or says what is wrong with that.
func (n *Node) checkChange(c *memberChange) (int16, string) {
	var cluster *string
	switch req := c.job.cmd.Request.(type) {
	case *kmsg.AddRaftVoterRequest:
		cluster = req.ClusterID
		c.voter = metadata.Voter{Node: model.BrokerID(req.VoterID), Directory: req.VoterDirectoryID}
		for _, l := range req.Listeners {
			c.voter.Listeners = append(c.voter.Listeners, metadata.Listener{Name: l.Name, Host: l.Host, Port: l.Port})
		}
	case *kmsg.RemoveRaftVoterRequest:
		cluster, c.remove = req.ClusterID, true
		c.voter = metadata.Voter{Node: model.BrokerID(req.VoterID), Directory: req.VoterDirectoryID}
	}
	voters := n.ctl.Image().Voters()
	known := voterOf(voters, c.voter.Node)
	switch {
	case cluster != nil && *cluster != n.ctl.Image().ClusterID():
		return codeInconsistentClusterID, "other cluster"
	case n.change != nil || len(n.conf.GetLearners()) > 0 || len(n.conf.GetVotersOutgoing()) > 0:
		return codeRequestTimedOut, "another change of the voter set is under way"
	case c.remove && (known == nil || known.Directory != c.voter.Directory):
		return codeVoterNotFound, fmt.Sprintf("node %d with directory %s is no voter", c.voter.Node, c.voter.Directory)
	case c.remove && len(voters) == 1:
		return codeInvalidRequest, "the last voter can't be removed"
	case c.remove:
		return codeNone, ""
	case c.voter.Node < 0 || c.voter.Directory == metadata.DirectoryID{} || len(c.voter.Listeners) == 0:
		return codeInvalidRequest, "a voter has an id, a directory id and at least one listener"
	case known != nil || member(voters, c.raftID()) != nil:
		return codeDuplicateVoter, fmt.Sprintf("node %d is a voter already", c.voter.Node)
	case n.config.Peers == nil || n.config.Ask == nil:
		return codeInvalidRequest, "this controller has no listener for others"
	}
	return codeNone, ""
}

// reconcile takes the next step of the change that is under way, and of a
// learner that a leader before this one left behind: its addition has failed.
func (n *Node) reconcile(now model.Now, out *loop.Outbox) {
	if !n.ctl.Active() || n.failure != nil || n.closed {
		return
	}
	c := n.change
	if c == nil {
		if learners := n.conf.GetLearners(); len(learners) > 0 && now.Mono-n.strayAt >= proposeAgain {
			n.strayAt = now.Mono
			n.proposeChange(now, raftpb.ConfChangeRemoveNode, learners[0], nil, out)
		}
		return
	}
	id := c.raftID()
	votes, learns := slices.Contains(n.conf.GetVoters(), id), slices.Contains(n.conf.GetLearners(), id)
	switch {
	case c.remove && !votes:
		n.changed(codeNone, "", out)
	case c.remove:
		n.take(now, raftpb.ConfChangeRemoveNode, n.without(c.voter), out)
	case votes:
		n.changed(codeNone, "", out)
	case c.until <= now.Mono && learns:
		n.proposeChange(now, raftpb.ConfChangeRemoveNode, id, nil, out)
		if n.change == c { // else this node lost its office meanwhile
			n.changed(codeRequestTimedOut, "the new voter did not catch up in time", out)
		}
	case c.until <= now.Mono:
		n.changed(codeRequestTimedOut, "the voter set could not be changed in time", out)
	case !learns:
		n.take(now, raftpb.ConfChangeAddLearnerNode, nil, out)
	case n.caughtUp(id):
		n.take(now, raftpb.ConfChangeAddNode, append(slices.Clone(n.ctl.Image().Voters()), c.voter), out)
	}
}

// take proposes a step unless it was proposed just now.
func (n *Node) take(now model.Now, step raftpb.ConfChangeType, voters []metadata.Voter, out *loop.Outbox) {
	c := n.change
	if c.step == step && c.proposedAt != 0 && now.Mono-c.proposedAt < proposeAgain {
		return
	}
	c.step, c.proposedAt = step, now.Mono
	n.proposeChange(now, step, c.raftID(), voters, out)
}

// proposeChange proposes a change of one node. voters, if not nil, is the set
// from then on; its record travels in the same entry.
func (n *Node) proposeChange(now model.Now, step raftpb.ConfChangeType, id uint64, voters []metadata.Voter, out *loop.Outbox) {
	cc := &raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{{Type: step.Enum(), NodeId: new(id)}}}
	if voters != nil {
		slices.SortFunc(voters, func(a, b metadata.Voter) int { return int(a.Node) - int(b.Node) })
		cc.Context = metadata.AppendEntry(nil, metadata.Entry{Time: now.Wall, Records: []metadata.Record{&metadata.Voters{Voters: voters}}})
	}
	if err := n.raft.ProposeConfChange(cc); err != nil {
		n.logger.Debug("change of the voter set", zap.Error(err))
	}
	n.drive(now, out)
}

// without returns the voter set without one.
func (n *Node) without(gone metadata.Voter) []metadata.Voter {
	return slices.DeleteFunc(slices.Clone(n.ctl.Image().Voters()), func(v metadata.Voter) bool { return v.Node == gone.Node })
}

// caughtUp reports whether a learner has nearly all of the log, so that its vote
// does not hold up commits.
func (n *Node) caughtUp(id uint64) (near bool) {
	n.raft.WithProgress(func(other uint64, _ raft.ProgressType, p tracker.Progress) {
		if other == id {
			near = p.RecentActive && p.State == tracker.StateReplicate && p.Match+learnerLag >= n.lastIndex()
		}
	})
	return near
}

// changed ends the change that is under way.
func (n *Node) changed(code int16, why string, out *loop.Outbox) {
	c := n.change
	n.change = nil
	out.Add(&delivery{done: c.job.done, resp: memberReply(c.job.cmd.Request, code, why), at: n.Image().At()})
	n.logger.Info("change of the voter set", zap.Bool("removal", c.remove), zap.Int32("node", int32(c.voter.Node)),
		zap.Stringer("directory", c.voter.Directory), zap.Int16("code", code), zap.String("why", why))
}

// dropChange ends a change whose outcome this node will not see.
func (n *Node) dropChange(out *loop.Outbox) {
	switch {
	case n.change == nil:
	case n.change.remove && n.change.raftID() == n.raftID() && !n.votes():
		n.changed(codeNone, "", out) // it was this node itself
	default:
		n.changed(codeNotLeader, "not the leader any more", out)
	}
}

// inConf reports whether a configuration has a node, with a vote or as one that
// is to get it.
func inConf(conf *raftpb.ConfState, id uint64) bool {
	return slices.Contains(conf.GetVoters(), id) || slices.Contains(conf.GetVotersOutgoing(), id) || slices.Contains(conf.GetLearners(), id)
}
