package telemetry

import (
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"
	"time"

	"github.com/tidemark/tidemark/internal/config"
)

// intervalMax is the push interval of a client that nobody asks anything, and the
// longest of all: as in Kafka, a longer one that was set doesn't count.
const intervalMax = 5 * time.Minute

// combinationsMax bounds the remembered combinations of subscriptions.
const combinationsMax = 1024

// asked is the subscriptions of one version.
type asked struct {
	subs []config.ClientMetrics // by name
	// combined is what the clients of each combination of subs are asked for; the
	// key has a bit for each.
	combined map[string]*ask
}

// ask is what the clients of one combination of subscriptions are asked for.
type ask struct {
	metrics  []string
	interval time.Duration
	sum      uint32 // of both
}

func newAsked(subs map[string]config.ClientMetrics) asked {
	a := asked{combined: map[string]*ask{}}
	for _, name := range slices.Sorted(maps.Keys(subs)) {
		a.subs = append(a.subs, subs[name])
	}
	return a
}

// of returns what a client is asked for.
func (a *asked) of(c *Client) *ask {
	meant := make([]byte, (len(a.subs)+7)/8)
	for i := range a.subs {
		if matches(&a.subs[i], c) {
			meant[i/8] |= 1 << (i % 8)
		}
	}
	if known := a.combined[string(meant)]; known != nil {
		return known
	}
	if a.combined == nil || len(a.combined) >= combinationsMax {
		a.combined = map[string]*ask{}
	}
	made := a.combine(meant)
	a.combined[string(meant)] = made
	return made
}

// matches reports whether a subscription means a client.
func matches(s *config.ClientMetrics, c *Client) bool {
	for _, rule := range s.Rules {
		if have := c[rule.Attribute]; have == nil || !rule.Whole.MatchString(*have) {
			return false
		}
	}
	return true
}

func (a *asked) combine(meant []byte) *ask {
	all := &ask{interval: intervalMax}
	for i := range a.subs {
		if meant[i/8]&(1<<(i%8)) != 0 {
			all.metrics = append(all.metrics, a.subs[i].Metrics...)
			all.interval = min(all.interval, a.subs[i].Interval)
		}
	}
	slices.Sort(all.metrics)
	all.metrics = slices.Compact(all.metrics)
	if slices.Contains(all.metrics, config.AllMetrics) {
		all.metrics = []string{config.AllMetrics}
	}
	var b []byte
	for _, m := range all.metrics {
		b = append(binary.AppendUvarint(b, uint64(len(m))), m...)
	}
	all.sum = crc32.Checksum(binary.AppendVarint(b, int64(all.interval)), crc32.MakeTable(crc32.Castagnoli))
	return all
}

// id is the subscription id of an instance: the same on every broker, and another
// one when something else is asked for.
func (a *ask) id(i InstanceID) int32 {
	return int32(crc32.Update(a.sum, crc32.MakeTable(crc32.Castagnoli), i[:]))
}
