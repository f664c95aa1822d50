package golden

// Described is what DescribeConfigs answers for a broker and a topic that are
// set up by every layer at once.
type Described struct {
	// Static, Cluster, BrokerSet and TopicSet are the layers: server properties,
	// dynamic settings of all brokers, of broker 1, and of the topic.
	Static    map[string]string `json:"static"`
	Cluster   map[string]string `json:"cluster"`
	BrokerSet map[string]string `json:"brokerSet"`
	TopicSet  map[string]string `json:"topicSet"`
	// OfBroker, OfCluster and OfTopic are the answers for broker 1, for the broker
	// resource without a name, and for the topic, by name.
	OfBroker  []DescribedConfig `json:"ofBroker"`
	OfCluster []DescribedConfig `json:"ofCluster"`
	OfTopic   []DescribedConfig `json:"ofTopic"`
}

// DescribedConfig is one setting of an answer. Source has the numbers of the
// protocol.
type DescribedConfig struct {
	Name      string             `json:"name"`
	Value     *string            `json:"value"`
	Source    int8               `json:"source"`
	Type      int8               `json:"type"`
	ReadOnly  bool               `json:"readOnly,omitempty"`
	Sensitive bool               `json:"sensitive,omitempty"`
	Synonyms  []DescribedSynonym `json:"synonyms,omitempty"`
}

// DescribedSynonym is one layer's value of a setting.
type DescribedSynonym struct {
	Name   string  `json:"name"`
	Value  *string `json:"value"`
	Source int8    `json:"source"`
}

// DescribeConfigs returns Kafka's answers.
func DescribeConfigs() Described {
	var d Described
	if all := load[Described]("described.json"); len(all) == 1 {
		d = all[0]
	}
	return d
}
