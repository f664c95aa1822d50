package controller

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
)

// rack is the brokers of one rack in an order drawn by chance.
type rack struct {
	name           string
	active, fenced []model.BrokerID
}

// place chooses the replicas of n partitions, numbered from first. Leaders are
// striped over racks, then over the brokers of a rack; the replicas of one
// partition lie in as many racks as there are; a fenced broker is taken only
// when there are not enough active ones, and never as the first replica.
func (c *Controller) place(view *metadata.Image, first, n int32, rf int) ([][]model.BrokerID, apiError) {
	racks, active, total := c.racks(view)
	switch {
	case rf > total:
		return nil, apiError{codeInvalidReplicationFactor,
			fmt.Sprintf("replication factor %d: only %d brokers are registered", rf, total)}
	case active == 0:
		return nil, apiError{codeInvalidReplicationFactor, fmt.Sprintf("all %d brokers are fenced or shutting down", total)}
	}
	out := make([][]model.BrokerID, n)
	for i := range out {
		out[i] = stripe(racks, int(first)+i, rf)
	}
	return out, apiError{}
}

// racks groups the brokers of the image and shuffles racks and brokers, so that
// the first partitions of many topics do not all fall on one broker.
func (c *Controller) racks(view *metadata.Image) (racks []rack, active, total int) {
	for _, b := range view.Brokers() {
		total++
		i := slices.IndexFunc(racks, func(r rack) bool { return r.name == b.Rack })
		if i < 0 {
			i = len(racks)
			racks = append(racks, rack{name: b.Rack})
		}
		if b.Active() {
			active++
			racks[i].active = append(racks[i].active, b.ID)
		} else {
			racks[i].fenced = append(racks[i].fenced, b.ID)
		}
	}
	slices.SortFunc(racks, func(a, b rack) int { return cmp.Compare(a.name, b.name) })
	shuffle(c, racks)
	for _, r := range racks {
		shuffle(c, r.active)
		shuffle(c, r.fenced)
	}
	// Racks that cannot lead go last; the order of the others stays.
	slices.SortStableFunc(racks, func(a, b rack) int { return cmp.Compare(min(len(b.active), 1), min(len(a.active), 1)) })
	return racks, active, total
}

func shuffle[T any](c *Controller, s []T) {
	c.config.Rand.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}

// stripe returns the replicas of the k-th partition.
func stripe(racks []rack, k, rf int) []model.BrokerID {
	leading := 0 // racks with an active broker come first
	for leading < len(racks) && len(racks[leading].active) > 0 {
		leading++
	}
	replicas := make([]model.BrokerID, 0, rf)
	for _, list := range [...]func(r *rack) []model.BrokerID{
		func(r *rack) []model.BrokerID { return r.active },
		func(r *rack) []model.BrokerID { return r.fenced },
	} {
		for round := 0; len(replicas) < rf; round++ {
			more := false
			for i := range racks {
				r := &racks[i]
				if i < leading {
					r = &racks[(i+k)%leading]
				}
				ids := list(r)
				if round >= len(ids) || len(replicas) == rf {
					continue
				}
				more = true
				replicas = append(replicas, ids[turn(len(ids), k/max(leading, 1), round)])
			}
			if !more {
				break
			}
		}
	}
	return replicas
}

// turn returns which of n brokers comes in a round at the t-th turn of a rack:
// the first rotates by one each turn, the others by one more each full cycle,
// so that the followers of one leader vary.
func turn(n, t, round int) int {
	if round == 0 || n == 1 {
		return t % n
	}
	return (t + 1 + (t/n+round-1)%(n-1)) % n
}
