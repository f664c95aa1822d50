package metadata

import "github.com/tidemark/tidemark/internal/model"

// BrokerRegistration is what the cluster agrees on about one broker;
// immutable. Source: KIP-631.
type BrokerRegistration struct {
	ID model.BrokerID
	// Epoch is the metadata offset of the entry that registered this
	// incarnation; it is known only once that entry is committed.
	Epoch       model.BrokerEpoch
	Incarnation Incarnation
	Listeners   []Listener
	Features    []FeatureRange
	Rack        string // "" is none
	// Directories that are online; sorted as the broker sent them.
	Directories []DirectoryID
	// Fenced: neither leads nor is in an ISR, and is not shown to clients.
	Fenced bool
	// InShutdown: in controlled shutdown; may not get leaderships or ISR seats.
	InShutdown bool

	sum sum128
}

// Active reports whether b may lead and be in ISRs.
func (b *BrokerRegistration) Active() bool { return b != nil && !b.Fenced && !b.InShutdown }

// Listener returns the advertised address under name.
func (b *BrokerRegistration) Listener(name string) (Listener, bool) {
	for _, l := range b.Listeners {
		if l.Name == name {
			return l, true
		}
	}
	return Listener{}, false
}
