package sim

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/loop/simtime"
)

// An answer that is on its way when its client gives the connection up never
// comes. The client is told so once, of every request and before it connects
// anew: else it would take the old answer for that to its next request.
func TestGivenUpConnectionAnswersNothing(t *testing.T) {
	w := &World{sim: simtime.New(1), clientRand: rand.New(rand.NewPCG(1, 1))}
	var heard []string
	c := &conn{world: w, node: &node{}, closed: func() { heard = append(heard, "closed") }}
	request := func(name string) *call {
		return &call{done: func(resp kmsg.Response, err error) {
			if resp != nil || !errors.Is(err, errCut) {
				t.Errorf("%s: answer %v, error %v", name, resp, err)
			}
			heard = append(heard, name)
		}}
	}
	one, two := request("first"), request("second")
	c.coming, c.sent = []*call{one}, []*call{two}
	w.at(second, func() { c.answered(one, &kmsg.FetchResponse{}) })
	c.lost()
	for w.sim.Step() {
	}
	if want := []string{"first", "second", "closed"}; !slices.Equal(heard, want) {
		t.Errorf("the client heard %v, want %v", heard, want)
	}
}
