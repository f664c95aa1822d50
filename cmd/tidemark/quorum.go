package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
)

// quorumTopic is the name under which the metadata quorum's log is described.
const quorumTopic = "__cluster_metadata"

func newQuorum(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "quorum", Short: "Look at the metadata quorum and change its members"}
	cmd.AddCommand(newQuorumDescribe(io), newQuorumAddVoter(io), newQuorumRemoveVoter(io))
	return cmd
}

func newQuorumDescribe(io streams) *cobra.Command {
	var client clientFlags
	cmd := &cobra.Command{
		Use:   "describe",
		Short: "Show the active controller, the voters and observers, and how far each has come",
		Long: "Shows the metadata quorum as its leader, the active controller, sees it. lag counts the\n" +
			"offsets that a member lacks; heard and caught-up say how many milliseconds ago the\n" +
			"leader heard of the member and knew it to have everything. - is what the leader\n" +
			"doesn't know.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl, err := client.open(kgo.RequestRetries(2))
			if err != nil {
				return err
			}
			defer cl.Close()
			q, err := askQuorum(cmd.Context(), cl)
			if err != nil {
				return fmt.Errorf("describe the quorum: %w", err)
			}
			return q.write(io.out)
		},
	}
	client.register(cmd.Flags())
	return cmd
}

// quorumView is the quorum's only partition, and where its nodes listen.
type quorumView struct {
	kmsg.DescribeQuorumResponseTopicPartition
	nodes []kmsg.DescribeQuorumResponseNode
}

func askQuorum(ctx context.Context, cl *kgo.Client) (*quorumView, error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	rt := kmsg.NewDescribeQuorumRequestTopic()
	rt.Topic = quorumTopic
	rt.Partitions = append(rt.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	if err := responseError(resp.ErrorCode, resp.ErrorMessage); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, errors.New("the answer doesn't tell of the quorum")
	}
	q := &quorumView{resp.Topics[0].Partitions[0], resp.Nodes}
	return q, responseError(q.ErrorCode, q.ErrorMessage)
}

// responseError turns a response's code into an error, nil for 0.
func responseError(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err != nil && message != nil && *message != "" {
		return fmt.Errorf("%w: %s", err, *message)
	}
	return err
}

func (q *quorumView) write(out io.Writer) error {
	fmt.Fprintf(out, "leader=%d epoch=%d high-watermark=%d voters=%d observers=%d\n",
		q.LeaderID, q.LeaderEpoch, q.HighWatermark, len(q.CurrentVoters), len(q.Observers))
	end, now := int64(-1), int64(-1)
	for _, v := range q.CurrentVoters {
		if v.ReplicaID == q.LeaderID {
			// The leader's own times are those of its answer.
			end, now = v.LogEndOffset, v.LastFetchTimestamp
		}
	}
	for _, kind := range []struct {
		name    string
		members []kmsg.DescribeQuorumResponseTopicPartitionReplicaState
	}{{"voter", q.CurrentVoters}, {"observer", q.Observers}} {
		for _, m := range kind.members {
			_, err := fmt.Fprintf(out, "  %s node=%d directory=%s end=%s lag=%s heard=%s caught-up=%s listeners=%s\n",
				kind.name, m.ReplicaID, model.TopicID(m.ReplicaDirectoryID), known(m.LogEndOffset), between(end, m.LogEndOffset),
				between(now, m.LastFetchTimestamp), between(now, m.LastCaughtUpTimestamp), q.listeners(m.ReplicaID))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// known prints a number that is negative when it isn't known.
func known(n int64) string {
	if n < 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

// between prints how far n is behind of, "-" if either isn't known.
func between(of, n int64) string {
	if of < 0 || n < 0 {
		return "-"
	}
	return strconv.FormatInt(max(0, of-n), 10)
}

func (q *quorumView) listeners(node int32) string {
	var all []string
	for _, n := range q.nodes {
		if n.NodeID != node {
			continue
		}
		for _, l := range n.Listeners {
			all = append(all, l.Name+"://"+net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))))
		}
	}
	if len(all) == 0 {
		return "-"
	}
	return strings.Join(all, ",")
}

// voterFlags name a member of the quorum.
type voterFlags struct {
	client    clientFlags
	node      int32
	directory string
}

func (v *voterFlags) register(cmd *cobra.Command) {
	v.client.register(cmd.Flags())
	cmd.Flags().Int32Var(&v.node, "node", -1, "node.id of the member")
	cmd.Flags().StringVar(&v.directory, "directory", "", "directory id of its metadata log, as quorum describe shows it")
}

// parse checks the flags.
func (v *voterFlags) parse() (directory [16]byte, err error) {
	if v.node < 0 {
		return directory, &usageError{errors.New("--node is needed")}
	}
	id, err := model.ParseTopicID(v.directory)
	if err != nil {
		return directory, &usageError{fmt.Errorf("--directory %q: want the 22 characters that quorum describe shows", v.directory)}
	}
	return id, nil
}

func newQuorumAddVoter(io streams) *cobra.Command {
	var (
		voter     voterFlags
		listeners []string
		patience  time.Duration
	)
	cmd := &cobra.Command{
		Use:   "add-voter",
		Short: "Give an observer of the quorum a vote",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			directory, err := voter.parse()
			if err != nil {
				return err
			}
			req := kmsg.NewPtrAddRaftVoterRequest()
			req.VoterID, req.VoterDirectoryID, req.TimeoutMillis = voter.node, directory, int32(patience.Milliseconds())
			for _, l := range listeners {
				rl, err := parseListener(l)
				if err != nil {
					return err
				}
				req.Listeners = append(req.Listeners, rl)
			}
			if len(req.Listeners) == 0 {
				return &usageError{errors.New("--listener is needed")}
			}
			cl, err := voter.client.open(kgo.RequestRetries(2))
			if err != nil {
				return err
			}
			defer cl.Close()
			resp, err := req.RequestWith(cmd.Context(), cl)
			if err == nil {
				err = responseError(resp.ErrorCode, resp.ErrorMessage)
			}
			return voter.outcome(io, "add", "added", err)
		},
	}
	voter.register(cmd)
	cmd.Flags().DurationVar(&patience, "timeout", 15*time.Second, "how long the member may take to catch up")
	cmd.Flags().StringArrayVar(&listeners, "listener", nil, "controller listener NAME://HOST:PORT of the member (repeatable)")
	return cmd
}

func parseListener(s string) (kmsg.AddRaftVoterRequestListener, error) {
	l := kmsg.NewAddRaftVoterRequestListener()
	bad := &usageError{fmt.Errorf("--listener %q: want NAME://HOST:PORT", s)}
	name, address, ok := strings.Cut(s, "://")
	host, port, err := net.SplitHostPort(address)
	if !ok || name == "" || host == "" || err != nil {
		return l, bad
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return l, bad
	}
	l.Name, l.Host, l.Port = name, host, uint16(n)
	return l, nil
}

func newQuorumRemoveVoter(io streams) *cobra.Command {
	var voter voterFlags
	cmd := &cobra.Command{
		Use:   "remove-voter",
		Short: "Take a member's vote away",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			directory, err := voter.parse()
			if err != nil {
				return err
			}
			req := kmsg.NewPtrRemoveRaftVoterRequest()
			req.VoterID, req.VoterDirectoryID = voter.node, directory
			cl, err := voter.client.open(kgo.RequestRetries(2))
			if err != nil {
				return err
			}
			defer cl.Close()
			resp, err := req.RequestWith(cmd.Context(), cl)
			if err == nil {
				err = responseError(resp.ErrorCode, resp.ErrorMessage)
			}
			return voter.outcome(io, "remove", "removed", err)
		},
	}
	voter.register(cmd)
	return cmd
}

// outcome says how a change of the voter set went.
func (v *voterFlags) outcome(io streams, doing, done string, err error) error {
	if err != nil {
		return fmt.Errorf("%s voter %d: %w", doing, v.node, err)
	}
	_, err = fmt.Fprintf(io.out, "%s voter %d\n", done, v.node)
	return err
}
