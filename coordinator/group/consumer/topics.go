package consumer

import (
	"encoding/binary"
	"hash/fnv"
	"iter"
	"maps"
	"regexp"
	"slices"

	"github.com/tidemark/tidemark/coordinator/group/assign"
	"github.com/tidemark/tidemark/internal/model"
)

// Topics is the cluster's topics as the coordinator's broker knows them. It does
// not change while it is used.
type Topics interface {
	// Version rises whenever a topic is made, deleted or grown.
	Version() int64
	// Topic returns a topic; false if there is none of that name.
	Topic(name string) (assign.Topic, bool)
	// Name returns the name of a topic; false if there is none of that id.
	Name(id model.TopicID) (string, bool)
	// Names yields all names.
	Names() iter.Seq[string]
}

// Compile reads a member's pattern, which has to match whole names. Go's syntax
// is RE2's, as the protocol demands (KIP-848).
func Compile(expr string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(expr); err != nil {
		return nil, err
	}
	return regexp.Compile("^(?:" + expr + ")$")
}

// reads returns the topics that a member subscribes to and that exist, by name.
func (g *Group) reads(m *Member, ts Topics) map[string]assign.Topic {
	out := make(map[string]assign.Topic, len(m.Names))
	for _, name := range m.Names {
		if t, ok := ts.Topic(name); ok {
			out[name] = t
		}
	}
	if m.Regex != nil && *m.Regex != "" {
		for _, name := range g.matches(*m.Regex, ts) {
			if t, ok := ts.Topic(name); ok {
				out[name] = t
			}
		}
	}
	return out
}

// matches returns the topics that a pattern matches. Each pattern is tried once
// on each version of the topics.
func (g *Group) matches(expr string, ts Topics) []string {
	p := g.patterns[expr]
	if p == nil {
		re, err := Compile(expr)
		if err != nil {
			return nil // it was refused before it was stored; a record of others may hold it
		}
		p = &pattern{re: re, seen: -1}
		g.patterns[expr] = p
	}
	if p.seen != ts.Version() {
		p.seen, p.topics = ts.Version(), nil
		for name := range ts.Names() {
			if p.re.MatchString(name) {
				p.topics = append(p.topics, name)
			}
		}
	}
	return p.topics
}

// Subscribed reports whether a member subscribes to the topic.
func (g *Group) Subscribed(topic string) bool {
	for _, m := range g.members { // order-free: any will do
		if slices.Contains(m.Names, topic) {
			return true
		}
		if m.Regex != nil && *m.Regex != "" {
			if p := g.patterns[*m.Regex]; p != nil && p.re.MatchString(topic) {
				return true
			}
			if re, err := Compile(*m.Regex); err == nil && re.MatchString(topic) {
				return true
			}
		}
	}
	return false
}

// digest sums up all topics that the members read: another sum means that
// assignments have to be made anew.
func digest(members []*Member, reads func(m *Member) map[string]assign.Topic) int64 {
	all := make(map[string]assign.Topic)
	for _, m := range members {
		maps.Copy(all, reads(m))
	}
	if len(all) == 0 {
		return 0
	}
	h := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(all)) { // order-free: sorted
		t := all[name]
		h.Write(binary.BigEndian.AppendUint32(append(append([]byte(name), 0), t.ID[:]...), uint32(t.Partitions)))
	}
	return int64(h.Sum64())
}
