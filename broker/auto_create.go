package broker

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/internal/model"
)

// autoCreator creates topics that clients ask for, each once however many
// clients ask while it is under way.
type autoCreator struct {
	b *Broker

	mu      sync.Mutex
	waiting map[string][]createdWaiter // by topic name; present while under way
}

// createdWaiter is told that an attempt to create a topic has ended, well or
// not; the image says which.
type createdWaiter interface{ created() }

func newAutoCreator(b *Broker) *autoCreator {
	return &autoCreator{b: b, waiting: make(map[string][]createdWaiter)}
}

// autoCreateWaitersMax bounds the requests that wait for one topic; one more
// is answered at once, and its client asks again.
const autoCreateWaitersMax = 10_000

// autoCreateTopicsMax bounds how many topics are being created at once.
const autoCreateTopicsMax = 10_000

// create creates the topic with the broker's defaults, or those of the topic of
// groups, and then tells w.
func (a *autoCreator) create(name string, w createdWaiter) {
	a.mu.Lock()
	ws, underway := a.waiting[name]
	if len(ws) >= autoCreateWaitersMax || !underway && len(a.waiting) >= autoCreateTopicsMax {
		a.mu.Unlock()
		w.created()
		return
	}
	a.waiting[name] = append(ws, w)
	a.mu.Unlock()
	if underway {
		return
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions = name, a.b.config.Topics.NumPartitions
	t.ReplicationFactor = int16(a.b.config.Topics.DefaultReplicationFactor)
	if name == offsetsTopic {
		t.NumPartitions = a.b.config.Groups.TopicPartitions
		t.ReplicationFactor = int16(a.b.config.Groups.TopicReplicationFactor)
		for _, kv := range a.b.offsetsTopicConfigs() {
			rc := kmsg.NewCreateTopicsRequestTopicConfig()
			rc.Name, rc.Value = kv[0], &kv[1]
			t.Configs = append(t.Configs, rc)
		}
	}
	req.Topics = append(req.Topics, t)
	a.b.submitApplied(controller.Command{Request: req}, func(kmsg.Response, model.OffsetAndEpoch, error) { a.done(name) })
}

func (a *autoCreator) done(name string) {
	a.mu.Lock()
	ws := a.waiting[name]
	delete(a.waiting, name)
	a.mu.Unlock()
	for _, w := range ws {
		w.created()
	}
}
