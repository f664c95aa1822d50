//go:build compat

package clients_test

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// standing says what each member of the row's group thinks that it owns, and what
// the broker says of the group.
func standing(b *bench, ms []*member) string {
	var s strings.Builder
	for _, m := range ms {
		fmt.Fprintf(&s, "%s owns %v\n", m.name, m.owns)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.node.Addr))
	if err != nil {
		return s.String() + err.Error()
	}
	defer cl.Close()
	classic := kmsg.NewPtrDescribeGroupsRequest()
	classic.Groups = []string{b.topic}
	peers := kmsg.NewPtrConsumerGroupDescribeRequest()
	peers.Groups = []string{b.topic}
	offsets := kmsg.NewPtrOffsetFetchRequest()
	offsets.Groups = []kmsg.OffsetFetchRequestGroup{{Group: b.topic, MemberEpoch: -1}}
	if resp, err := classic.RequestWith(b.Context(), cl); err != nil {
		fmt.Fprintln(&s, err)
	} else {
		for _, g := range resp.Groups {
			fmt.Fprintf(&s, "classic group: error %d, %s %s\n", g.ErrorCode, g.State, g.Protocol)
			for _, m := range g.Members {
				var a kmsg.ConsumerMemberAssignment
				_ = a.ReadFrom(m.MemberAssignment) // as far as it goes
				fmt.Fprintf(&s, "  %s: %v\n", m.MemberID, a.Topics)
			}
		}
	}
	if resp, err := peers.RequestWith(b.Context(), cl); err != nil {
		fmt.Fprintln(&s, err)
	} else {
		for _, g := range resp.Groups {
			fmt.Fprintf(&s, "consumer group: error %d, %s, epoch %d, target %d\n", g.ErrorCode, g.State, g.Epoch, g.AssignmentEpoch)
			for _, m := range g.Members {
				fmt.Fprintf(&s, "  %s: type %d, epoch %d, has %v, is to have %v\n", m.MemberID, m.MemberType, m.MemberEpoch, m.Assignment, m.TargetAssignment)
			}
		}
	}
	if resp, err := offsets.RequestWith(b.Context(), cl); err != nil {
		fmt.Fprintln(&s, err)
	} else {
		for _, g := range resp.Groups {
			for _, t := range g.Topics {
				for _, p := range t.Partitions {
					fmt.Fprintf(&s, "committed: %s-%d at %d\n", t.Topic, p.Partition, p.Offset)
				}
			}
		}
	}
	return s.String()
}

// missing names the records of groupMigration that nobody has seen.
func missing(seen map[string]bool, sent int) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d of %d records seen; missing:", len(seen), sent)
	for i := range sent {
		if !seen[fmt.Sprint(i)] {
			fmt.Fprintf(&s, " %d (%d@%d)", i, i%4, i/4)
		}
	}
	return s.String()
}
