package assign

import (
	"cmp"
	"slices"

	"github.com/tidemark/tidemark/internal/model"
)

// Topic is a topic that somebody subscribes to.
type Topic struct {
	ID         model.TopicID
	Partitions int32
}

// Member is what an assignor knows of a member.
type Member struct {
	// ID is the member's id. Instance is the one that a static member keeps over
	// restarts, "" for others.
	ID, Instance string
	// Topics is what it subscribes to, in any order, without doubles. Topics that
	// don't exist are not among them.
	Topics []Topic
	// Has is its present target.
	Has Set
}

// Assignor makes a target assignment: the members' new targets in their order.
type Assignor func(members []Member) []Set

// Names are the assignors by the names that clients use, the default first.
// Source: group.consumer.assignors.
func Names() []string { return []string{"uniform", "range"} }

// ByName returns an assignor, nil if there is none of that name.
func ByName(name string) Assignor {
	switch name {
	case "uniform":
		return Uniform
	case "range":
		return Range
	}
	return nil
}

// subscribers lists, for each topic, who subscribes to it, as indexes of members,
// and the topics in the order of their ids.
func subscribers(members []Member) (topics []Topic, who map[model.TopicID][]int) {
	who = make(map[model.TopicID][]int)
	for i := range members {
		for _, t := range members[i].Topics {
			if who[t.ID] == nil {
				topics = append(topics, t)
			}
			who[t.ID] = append(who[t.ID], i)
		}
	}
	slices.SortFunc(topics, func(a, b Topic) int { return Compare(Partition{Topic: a.ID}, Partition{Topic: b.ID}) })
	return topics, who
}

// seats orders members so that one that restarts gets its place back: static
// members by their instance, others by their id behind them.
func seats(members []Member, list []int) []int {
	list = slices.Clone(list)
	slices.SortFunc(list, func(x, y int) int {
		a, b := &members[x], &members[y]
		if (a.Instance != "") != (b.Instance != "") {
			if a.Instance != "" {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// Range gives each member a run of neighbouring partitions of each topic, the
// first members one more where it doesn't come out even. Members with the same
// subscriptions get the same numbers of each topic with as many partitions, so
// that streams can be joined.
func Range(members []Member) []Set {
	targets := make([]Set, len(members))
	topics, who := subscribers(members)
	for _, t := range topics {
		list := seats(members, who[t.ID])
		n := int32(len(list))
		next := int32(0)
		for k, i := range list {
			size := t.Partitions / n
			if int32(k) < t.Partitions%n {
				size++
			}
			for p := next; p < next+size; p++ {
				targets[i] = append(targets[i], Partition{Topic: t.ID, Number: p})
			}
			next += size
		}
	}
	return targets // the topics came in order, so the sets are sorted
}
