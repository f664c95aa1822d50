package group

import (
	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group/consumer"
	"github.com/tidemark/tidemark/internal/model"
)

// clean writes tombstones of offsets that are too old, and of groups of which
// nothing is left. One batch at a time; the rest waits for the next turn.
//
// Source: Kafka's OffsetExpirationCondition. Offsets of a group with a protocol
// age from the moment it became empty; in a stable consumer group only those of
// topics that nobody reads any more age, each since its commit; those of a simple
// group age since their commits.
func (m *Machine) clean(now model.Now, out *coordinator.Out) {
	if m.cleaning == nil {
		m.cleaning = m.names()
	}
	var records []coordinator.Record
	n := 0
	for n < len(m.cleaning) && len(records) < batchRecordsMax {
		if g := m.groups[m.cleaning[n]]; g != nil {
			records = append(records, m.expired(now, g)...)
		}
		n++
	}
	m.cleaning = m.cleaning[n:]
	if len(m.cleaning) == 0 {
		m.cleaning = nil
		m.cleanAt = now.Mono + m.cfg.CheckEvery
	} else {
		m.cleanAt = now.Mono
	}
	for ; len(records) > 0; records = records[min(len(records), batchRecordsMax):] {
		n := min(len(records), batchRecordsMax)
		out.Write(&coordinator.Write{Records: records[:n:n], Timeout: m.cfg.CommitTimeout})
	}
}

// expired returns the tombstones that one group is due.
func (m *Machine) expired(now model.Now, g *group) []coordinator.Record {
	if g.waiting > 0 {
		return nil // something is under way; there will be another round
	}
	c := g.classic
	gone := make(map[model.TopicPartition]bool)
	kept := 0
	for topic, parts := range g.offsets { // order-free: sorted below
		read := c.state != Empty && (c.state != Stable || !c.known || c.subscribed[topic])
		if g.consumer != nil {
			read = g.consumer.Subscribed(topic)
		}
		for p, o := range parts { // order-free: sorted below
			if read || !m.old(now, c, &o) {
				kept++
				continue
			}
			gone[model.TopicPartition{Topic: topic, Partition: p}] = true
		}
	}
	var records []coordinator.Record
	for _, tp := range sortedPartitions(gone) {
		records = append(records, offsetTombstone(g.id, tp.Topic, tp.Partition))
	}
	m.stats.Expired += int64(len(records))
	switch {
	case kept > 0:
	case g.consumer != nil && g.consumer.Len() == 0:
		records = append(records, consumer.Tombstones(g.id)...)
	case g.consumer == nil && c.state == Empty && len(c.unused) == 0:
		records = append(records, groupTombstone(g.id))
	}
	return records
}

// old reports whether an offset's time is over.
func (m *Machine) old(now model.Now, c *classic, o *committed) bool {
	if o.expires != model.NoTimestamp {
		return now.Wall >= o.expires
	}
	from := o.at
	if c.typed && c.state == Empty && c.since != model.NoTimestamp {
		from = c.since
	}
	return int64(now.Wall-from) >= m.cfg.RetentionMs
}
