package assign

import (
	"slices"

	"github.com/tidemark/tidemark/internal/model"
)

// Uniform gives every member as many partitions as the others, as far as
// subscriptions allow, and moves as few as that takes: a member keeps what it has
// up to its share, and the rest goes to those who have least.
func Uniform(members []Member) []Set {
	u := newUniform(members)
	u.keep()
	u.give()
	u.balance()
	targets := make([]Set, len(members))
	for i := range u.has {
		targets[i] = SetOf(u.has[i])
	}
	return targets
}

type uniform struct {
	members []Member
	topics  []Topic
	who     map[model.TopicID][]int
	has     [][]Partition // by member
	owned   map[Partition]bool
	// even: all members subscribe to the same, so that a share can be told in
	// advance.
	even bool
}

func newUniform(members []Member) *uniform {
	u := &uniform{members: members, has: make([][]Partition, len(members)), owned: make(map[Partition]bool), even: true}
	u.topics, u.who = subscribers(members)
	for _, list := range u.who { // order-free: all must be alike
		u.even = u.even && len(list) == len(members)
	}
	return u
}

// keep leaves members what they have and still subscribe to. Where the shares
// are known nobody keeps more than its own; the odd ones stay with those who have
// them already.
func (u *uniform) keep() {
	share, odd := 1<<62, 0
	if u.even && len(u.members) > 0 {
		total := 0
		for _, t := range u.topics {
			total += int(t.Partitions)
		}
		share, odd = total/len(u.members), total%len(u.members)
	}
	for i := range u.members {
		reads := make(map[model.TopicID]int32, len(u.members[i].Topics))
		for _, t := range u.members[i].Topics {
			reads[t.ID] = t.Partitions
		}
		for _, p := range u.members[i].Has {
			if p.Number >= reads[p.Topic] || u.owned[p] {
				continue
			}
			if len(u.has[i]) >= share {
				if len(u.has[i]) > share || odd == 0 {
					continue
				}
				odd--
			}
			u.take(i, p)
		}
	}
}

func (u *uniform) take(i int, p Partition) {
	u.has[i] = append(u.has[i], p)
	u.owned[p] = true
}

// give hands out what nobody has, topics with few subscribers first: they have
// the least choice.
func (u *uniform) give() {
	topics := slices.Clone(u.topics)
	slices.SortStableFunc(topics, func(a, b Topic) int { return len(u.who[a.ID]) - len(u.who[b.ID]) })
	for _, t := range topics {
		list := seats(u.members, u.who[t.ID])
		for n := range t.Partitions {
			if p := (Partition{Topic: t.ID, Number: n}); !u.owned[p] {
				least, _ := u.extremes(list)
				u.take(least, p)
			}
		}
	}
}

// extremes returns the members of a list with the fewest and the most
// partitions; of equals the first.
func (u *uniform) extremes(list []int) (least, most int) {
	least, most = list[0], list[0]
	for _, i := range list {
		if len(u.has[i]) < len(u.has[least]) {
			least = i
		}
		if len(u.has[i]) > len(u.has[most]) {
			most = i
		}
	}
	return least, most
}

// balance moves partitions from those who have most to those who have least, a
// topic at a time, until no move makes it more even. Each move makes the sum of
// the squares smaller, so that it ends.
func (u *uniform) balance() {
	for moved := true; moved; {
		moved = false
		for _, t := range u.topics {
			for u.move(t, seats(u.members, u.who[t.ID])) {
				moved = true
			}
		}
	}
}

// move moves one partition of a topic if that helps.
func (u *uniform) move(t Topic, list []int) bool {
	least, _ := u.extremes(list)
	from, at := -1, 0
	for _, i := range list {
		if len(u.has[i]) < len(u.has[least])+2 || from >= 0 && len(u.has[i]) <= len(u.has[from]) {
			continue
		}
		if k := slices.IndexFunc(u.has[i], func(p Partition) bool { return p.Topic == t.ID }); k >= 0 {
			from, at = i, k
		}
	}
	if from < 0 {
		return false
	}
	p := u.has[from][at]
	u.has[from] = slices.Delete(u.has[from], at, at+1)
	u.has[least] = append(u.has[least], p)
	return true
}
