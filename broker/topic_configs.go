package broker

import (
	"maps"
	"sync"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
)

// topicConfigs works out the settings in force for topics. Topics that set
// nothing share one value as long as the brokers' dynamic settings stay the
// same, so that ten thousand of them cost one.
type topicConfigs struct {
	broker *config.Broker
	adjust func(*config.Topic) // nil: nothing

	mu     sync.Mutex
	shared *config.Topic
	node   map[string]string // the dynamic settings that shared was made from
	all    map[string]string
}

// of returns the settings of a topic under an image. Values that an older
// version accepted and this one does not are passed over: the topic gets the
// broker's defaults rather than none.
func (t *topicConfigs) of(img *metadata.Image, name string) *config.Topic {
	c := t.configured(img, name)
	if t.adjust == nil {
		return c
	}
	own := *c
	t.adjust(&own)
	return &own
}

func (t *topicConfigs) configured(img *metadata.Image, name string) *config.Topic {
	dynamic := dynamicOf(img, t.broker)
	overrides := img.Config(metadata.TopicResource, name)
	if len(overrides) == 0 {
		return t.common(dynamic)
	}
	if c, err := t.broker.Topic(dynamic.Merged(), overrides); err == nil {
		return &c
	}
	return t.common(dynamic)
}

func (t *topicConfigs) common(dynamic config.Dynamic) *config.Topic {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shared != nil && maps.Equal(t.node, dynamic.Broker) && maps.Equal(t.all, dynamic.Cluster) {
		return t.shared
	}
	c, err := t.broker.Topic(dynamic.Merged(), nil)
	if err != nil {
		c, _ = t.broker.Topic(nil, nil) // checked at start
	}
	t.shared, t.node, t.all = &c, dynamic.Broker, dynamic.Cluster
	return t.shared
}
