package integration

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// tale is all that happened to a group in a partition, in the order of time, by the
// clock that the brokers' logs go by.
func (h *groupHistory) tale(k groupPartition) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.Clone(h.events)
	for _, s := range h.spells {
		if s.group != k.group || s.p != k.p {
			continue
		}
		what := fmt.Sprintf("%s is given it, finds %d", s.member, s.fetched)
		if n := len(s.got); n > 0 {
			what += fmt.Sprintf(", gets %d records from %d to %d", n, s.got[0].offset, s.got[n-1].offset)
		}
		all = append(all, happening{s.began, what})
	}
	for _, c := range h.promises {
		if c.of.group != k.group || c.of.p != k.p {
			continue
		}
		what := fmt.Sprintf("%s commits %d, begun in %s", c.of.member, c.offset, h.start.Add(c.began).UTC().Format("05.000"))
		at := c.ended
		if !c.acked {
			what, at = what+", not acknowledged", c.began
		}
		all = append(all, happening{at, what})
	}
	slices.SortStableFunc(all, func(a, b happening) int { return int(a.at - b.at) })
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v:\n", k.group, k.p)
	for _, e := range all {
		fmt.Fprintf(&b, "%s %s\n", h.start.Add(e.at).UTC().Format("15:04:05.000"), e.what)
	}
	return b.String()
}

// happened notes what befell the cluster.
func (h *groupHistory) happened(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, happening{time.Since(h.start), fmt.Sprintf(format, args...)})
}

// happening is something that befell the cluster.
type happening struct {
	at   time.Duration
	what string
}
