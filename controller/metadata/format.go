package metadata

import (
	"fmt"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
)

// Format returns a record on one line, for dumps and transcripts.
func Format(r Record) string {
	switch r := r.(type) {
	case *NoOp:
		return "NoOp"
	case *Cluster:
		return "Cluster id=" + r.ID
	case *Voters:
		return fmt.Sprintf("Voters %v", r.Voters)
	case *FeatureLevel:
		return fmt.Sprintf("Feature %s level=%d", r.Name, r.Level)
	case *RegisterBroker:
		return fmt.Sprintf("RegisterBroker id=%d epoch=%d rack=%q fenced=%t inShutdown=%t listeners=%v directories=%d",
			r.ID, r.Epoch, r.Rack, r.Fenced, r.InShutdown, r.Listeners, len(r.Directories))
	case *UnregisterBroker:
		return fmt.Sprintf("UnregisterBroker id=%d epoch=%d", r.ID, r.Epoch)
	case *BrokerChange:
		return formatBrokerChange(r)
	case *BrokerEpochBump:
		return fmt.Sprintf("BrokerEpochBump id=%d stop=%s damaged=%v", r.ID, r.Stop, r.Damaged)
	case *TopicRecord:
		return fmt.Sprintf("Topic name=%s id=%s", r.Name, r.ID)
	case *PartitionRecord:
		return fmt.Sprintf("Partition topic=%s n=%d %s", r.TopicID, r.Partition, &r.PartitionRegistration)
	case *PartitionChange:
		return formatPartitionChange(r)
	case *RemoveTopic:
		return fmt.Sprintf("RemoveTopic id=%s", r.ID)
	case *ConfigRecord:
		if r.Value == nil {
			return fmt.Sprintf("Config type=%d name=%q %s removed", r.Type, r.Name, r.Key)
		}
		return fmt.Sprintf("Config type=%d name=%q %s=%q", r.Type, r.Name, r.Key, *r.Value)
	case *ProducerIDs:
		return fmt.Sprintf("ProducerIDs broker=%d epoch=%d next=%d", r.Broker, r.Epoch, r.Next)
	case *ReplicaEnd:
		return fmt.Sprintf("ReplicaEnd broker=%d topic=%s n=%d end=%s", r.Broker, r.TopicID, r.Partition, r.End)
	}
	return fmt.Sprintf("record of kind %d", r.Kind())
}

// String returns the name of the kind of stop.
func (s Stop) String() string {
	switch s {
	case StopClean:
		return "clean"
	case StopProcess:
		return "process"
	case StopPower:
		return "power"
	}
	return fmt.Sprintf("stop %d", uint8(s))
}

// String returns the registration in the columns that people compare.
func (p *PartitionRegistration) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "leader=%d e%d p%d replicas=%v isr=%v", p.Leader, p.LeaderEpoch, p.PartitionEpoch, p.Replicas, p.ISR)
	for _, l := range []struct {
		name string
		ids  []model.BrokerID
	}{{"elr", p.ELR}, {"lastKnown", p.LastKnown}, {"adding", p.Adding}, {"removing", p.Removing}} {
		if len(l.ids) > 0 {
			fmt.Fprintf(&b, " %s=%v", l.name, l.ids)
		}
	}
	if p.Recovery == Recovering {
		b.WriteString(" recovering")
	}
	return b.String()
}

func formatBrokerChange(r *BrokerChange) string {
	s := fmt.Sprintf("BrokerChange id=%d epoch=%d", r.ID, r.Epoch)
	for _, f := range []struct {
		name string
		v    Switch
	}{{"fenced", r.Fenced}, {"inShutdown", r.InShutdown}} {
		if f.v != Keep {
			s += fmt.Sprintf(" %s=%t", f.name, f.v == Set)
		}
	}
	if r.Directories != nil {
		s += fmt.Sprintf(" directories=%d", len(r.Directories))
	}
	return s
}

func formatPartitionChange(r *PartitionChange) string {
	s := fmt.Sprintf("PartitionChange topic=%s n=%d", r.TopicID, r.Partition)
	for _, l := range []struct {
		name string
		ids  []model.BrokerID
	}{
		{"replicas", r.Replicas}, {"isr", r.ISR}, {"elr", r.ELR}, {"lastKnown", r.LastKnown},
		{"adding", r.Adding}, {"removing", r.Removing},
	} {
		if l.ids != nil {
			s += fmt.Sprintf(" %s=%v", l.name, l.ids)
		}
	}
	if r.Directories != nil {
		s += fmt.Sprintf(" directories=%d", len(r.Directories))
	}
	if r.Leader != NoLeaderChange {
		s += fmt.Sprintf(" leader=%d", r.Leader)
	}
	if r.Recovery != NoRecoveryChange {
		s += fmt.Sprintf(" recovery=%d", r.Recovery)
	}
	return s
}
