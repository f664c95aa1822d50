package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

// A controller that steps down with the registration in its hands refuses nobody:
// the broker asks again, and whoever is active then.
func TestRegistrationOutlivesItsController(t *testing.T) {
	m := &membership{interval: 5, joining: &joining{}, next: model.Never, onMember: func(err error) { t.Errorf("it gave up: %v", err) }}
	m.registered(model.Now{Mono: 100}, &kmsg.BrokerRegistrationResponse{ErrorCode: protocol.CodeNotController}, &loop.Outbox{})
	if m.joining == nil || m.next != 105 {
		t.Errorf("joining %v, next at %d, want a registration under way that is sent at 105", m.joining, m.next)
	}
}
