package broker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
)

// topicConfigs works out the settings in force for topics. Topics that set the
// same share one value as long as the brokers' dynamic settings stay the same, so
// that ten thousand of them cost one.
type topicConfigs struct {
	broker *config.Broker
	adjust func(*config.Topic) // nil: nothing

	mu     sync.Mutex
	shared map[string]*config.Topic // by what the topic sets, see settingsKey
	node   map[string]string        // the dynamic settings that shared was made from
	all    map[string]string
}

// sharedMax bounds how many values are kept to be shared.
const sharedMax = 1024

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
	key := settingsKey(overrides)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shared == nil || len(t.shared) >= sharedMax || !maps.Equal(t.node, dynamic.Broker) || !maps.Equal(t.all, dynamic.Cluster) {
		t.shared, t.node, t.all = make(map[string]*config.Topic), dynamic.Broker, dynamic.Cluster
	}
	c := t.shared[key]
	if c == nil {
		c = t.parse(dynamic, overrides)
		t.shared[key] = c
	}
	return c
}

func (t *topicConfigs) parse(dynamic config.Dynamic, overrides map[string]string) *config.Topic {
	c, err := t.broker.Topic(dynamic.Merged(), overrides)
	if err != nil {
		c, err = t.broker.Topic(dynamic.Merged(), nil)
	}
	if err != nil {
		c, _ = t.broker.Topic(nil, nil) // checked at start
	}
	return &c
}

// settingsKey tells apart what topics set.
func settingsKey(overrides map[string]string) string {
	if len(overrides) == 0 {
		return ""
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(overrides)) {
		fmt.Fprintf(&b, "%q=%q ", k, overrides[k])
	}
	return b.String()
}
