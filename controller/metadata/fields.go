package metadata

import "github.com/tidemark/tidemark/internal/model"

// The fields of each record in the order of their bytes. The order and meaning
// are those of docs/formats/metadata.md; a field is only ever added together
// with a new record version.

func (*NoOp) code(*coder) {}

func (r *Cluster) code(c *coder) { c.str(&r.ID) }

func (r *Voters) code(c *coder) {
	list(c, &r.Voters, func(c *coder, v *Voter) {
		code(c, &v.Node)
		c.uuid((*[16]byte)(&v.Directory))
		list(c, &v.Listeners, codeListener)
	})
}

func (r *FeatureLevel) code(c *coder) {
	c.str(&r.Name)
	code(c, &r.Level)
}

func (r *RegisterBroker) code(c *coder) {
	code(c, &r.ID)
	code(c, &r.Epoch)
	c.uuid((*[16]byte)(&r.Incarnation))
	list(c, &r.Listeners, codeListener)
	list(c, &r.Features, func(c *coder, f *FeatureRange) {
		c.str(&f.Name)
		code(c, &f.Min)
		code(c, &f.Max)
	})
	c.str(&r.Rack)
	list(c, &r.Directories, codeDirectory)
	c.flag(&r.Fenced)
	c.flag(&r.InShutdown)
}

func (r *UnregisterBroker) code(c *coder) {
	code(c, &r.ID)
	code(c, &r.Epoch)
}

func (r *BrokerChange) code(c *coder) {
	code(c, &r.ID)
	code(c, &r.Epoch)
	enum(c, &r.Fenced, Clear)
	enum(c, &r.InShutdown, Clear)
	present := r.Directories != nil
	c.flag(&present)
	if present {
		listIf(c, 1, 1, &r.Directories, codeDirectory)
	}
}

func (r *BrokerEpochBump) code(c *coder) {
	code(c, &r.ID)
	enum(c, &r.Stop, StopPower)
	list(c, &r.Damaged, func(c *coder, tp *model.TopicIDPartition) {
		c.uuid((*[16]byte)(&tp.TopicID))
		code(c, &tp.Partition)
	})
}

func (r *TopicRecord) code(c *coder) {
	c.str(&r.Name)
	c.uuid((*[16]byte)(&r.ID))
}

func (r *PartitionRecord) code(c *coder) {
	c.uuid((*[16]byte)(&r.TopicID))
	code(c, &r.Partition)
	list(c, &r.Replicas, code[model.BrokerID])
	list(c, &r.ISR, code[model.BrokerID])
	list(c, &r.ELR, code[model.BrokerID])
	list(c, &r.LastKnown, code[model.BrokerID])
	list(c, &r.Adding, code[model.BrokerID])
	list(c, &r.Removing, code[model.BrokerID])
	list(c, &r.Directories, codeDirectory)
	code(c, &r.Leader)
	code(c, &r.LeaderEpoch)
	code(c, &r.PartitionEpoch)
	code(c, &r.Recovery)
}

// Presence bits of the lists of a PartitionChange.
const (
	hasReplicas uint8 = 1 << iota
	hasISR
	hasELR
	hasLastKnown
	hasAdding
	hasRemoving
	hasDirectories
	changeMask = 1<<7 - 1
)

func (r *PartitionChange) present() (m uint8) {
	lists := [...][]model.BrokerID{r.Replicas, r.ISR, r.ELR, r.LastKnown, r.Adding, r.Removing}
	for i, l := range lists {
		if l != nil {
			m |= 1 << i
		}
	}
	if r.Directories != nil {
		m |= hasDirectories
	}
	return m
}

func (r *PartitionChange) code(c *coder) {
	c.uuid((*[16]byte)(&r.TopicID))
	code(c, &r.Partition)
	m := r.present()
	enum(c, &m, changeMask)
	listIf(c, m, hasReplicas, &r.Replicas, code[model.BrokerID])
	listIf(c, m, hasISR, &r.ISR, code[model.BrokerID])
	listIf(c, m, hasELR, &r.ELR, code[model.BrokerID])
	listIf(c, m, hasLastKnown, &r.LastKnown, code[model.BrokerID])
	listIf(c, m, hasAdding, &r.Adding, code[model.BrokerID])
	listIf(c, m, hasRemoving, &r.Removing, code[model.BrokerID])
	listIf(c, m, hasDirectories, &r.Directories, codeDirectory)
	code(c, &r.Leader)
	code(c, &r.Recovery)
}

func (r *RemoveTopic) code(c *coder) { c.uuid((*[16]byte)(&r.ID)) }

func (r *ConfigRecord) code(c *coder) {
	code(c, &r.Type)
	c.str(&r.Name)
	c.str(&r.Key)
	c.optional(&r.Value)
}

func (r *ProducerIDs) code(c *coder) {
	code(c, &r.Broker)
	code(c, &r.Epoch)
	code(c, &r.Next)
}

func (r *ReplicaEnd) code(c *coder) {
	code(c, &r.Broker)
	c.uuid((*[16]byte)(&r.TopicID))
	code(c, &r.Partition)
	code(c, &r.End.Epoch)
	code(c, &r.End.Offset)
}

func codeListener(c *coder, l *Listener) {
	c.str(&l.Name)
	c.str(&l.Host)
	code(c, &l.Port)
	code(c, &l.Protocol)
}

func codeDirectory(c *coder, d *DirectoryID) { c.uuid((*[16]byte)(d)) }
