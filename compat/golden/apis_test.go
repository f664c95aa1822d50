package golden_test

import (
	"fmt"
	"testing"

	"github.com/tidemark/tidemark/compat/golden"
	"github.com/tidemark/tidemark/protocol"
)

// Why requests that Kafka's broker answers are not answered here.
const (
	noTxns    = "there are no transactions in this version"
	noShares  = "there are no share groups"
	noStreams = "there are no streams groups"
	noAuth    = "there is no authentication or authorization in this version"
	noMoves   = "replicas are not moved between log directories by request in this version"
)

var unserved = map[int16]string{
	17: noAuth, 29: noAuth, 30: noAuth, 31: noAuth, 36: noAuth, 38: noAuth, 39: noAuth, 40: noAuth, 41: noAuth, 51: noAuth,
	24: noTxns, 25: noTxns, 26: noTxns, 27: noTxns, 28: noTxns, 65: noTxns, 66: noTxns,
	34: noMoves,
	76: noShares, 77: noShares, 78: noShares, 79: noShares, 83: noShares, 84: noShares, 85: noShares, 86: noShares, 87: noShares,
	90: noShares, 91: noShares, 92: noShares,
	88: noStreams, 89: noStreams,
}

// onDemand are the APIs that neither advertises unless it is set up to.
var onDemand = map[int16]string{
	71: "tidemark.client.telemetry.enable; Kafka's needs a plugin that takes what clients push",
	72: "as 71",
}

// narrower are the APIs of which we serve fewer versions, with reasons.
var narrower = map[int16]string{}

// What we advertise to clients is what Kafka advertises, but for written
// exceptions: a client picks versions by these numbers alone.
func TestAPIsAreKafkas(t *testing.T) {
	kafka := map[int16]golden.API{}
	for _, g := range golden.APIs() {
		kafka[g.Key] = g
	}
	served := map[int16]bool{}
	for _, a := range protocol.Table() {
		if a.Scope&protocol.OnBroker == 0 {
			continue
		}
		served[a.Key] = true
		g, known := kafka[a.Key]
		ours, theirs := fmt.Sprintf("%d-%d", a.Min, a.Max), fmt.Sprintf("%d-%d", g.Min, g.Max)
		switch {
		case onDemand[a.Key] != "":
			if known {
				t.Errorf("%s (%d) is advertised by Kafka's broker: remove its exception", a.Name, a.Key)
			}
			continue
		case !known:
			t.Errorf("%s (%d) is not advertised by Kafka's broker", a.Name, a.Key)
		case a.Min < g.Min || a.Max > g.Max:
			t.Errorf("%s: %s goes beyond Kafka's %s", a.Name, ours, theirs)
		case ours != theirs && narrower[a.Key] == "":
			t.Errorf("%s: %s is less than Kafka's %s without a reason", a.Name, ours, theirs)
		case ours == theirs && narrower[a.Key] != "":
			t.Errorf("%s: the exception allows nothing: remove it", a.Name)
		}
		if known && a.Name != g.Name {
			t.Errorf("%d is %s, Kafka calls it %s", a.Key, a.Name, g.Name)
		}
	}
	for _, g := range golden.APIs() {
		switch reason := unserved[g.Key]; {
		case !served[g.Key] && reason == "":
			t.Errorf("%s (%d) is not served without a reason", g.Name, g.Key)
		case served[g.Key] && reason != "":
			t.Errorf("%s (%d) is served: remove its exception", g.Name, g.Key)
		}
	}
}
