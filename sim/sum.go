package sim

import (
	"fmt"
	"strings"
	"time"
)

// Sum is what the runs of many seeds came to.
type Sum struct {
	Seeds, Failed int
	Events        uint64
	Seconds       float64 // virtual
	CPU           float64 // seconds
	Boots         int
	Acked, Read   int
	Faults        map[string]int
}

// Add counts a run.
func (s *Sum) Add(r *Report) {
	s.Seeds++
	if r.Failure != "" {
		s.Failed++
	}
	s.Events += r.Events
	s.Seconds += r.Seconds
	s.CPU += r.CPU
	s.Boots += r.Boots
	s.Acked += r.Acked
	s.Read += r.Read
	if s.Faults == nil {
		s.Faults = make(map[string]int)
	}
	for k, n := range r.Faults { // order-free: sums
		s.Faults[k] += n
	}
}

// String returns the sum in one line.
func (s *Sum) String() string {
	var faults []string
	for _, k := range Kinds() {
		if n := s.Faults[k.String()]; n > 0 {
			faults = append(faults, fmt.Sprintf("%v %d", k, n))
		}
	}
	return fmt.Sprintf("%d seeds, %d failed; %d events in %v of virtual time, %.2f s of CPU a seed; %d starts, %d records acknowledged, %d read; %s",
		s.Seeds, s.Failed, s.Events, time.Duration(s.Seconds*1e9).Round(time.Second), s.CPU/float64(max(s.Seeds, 1)),
		s.Boots, s.Acked, s.Read, strings.Join(faults, ", "))
}
