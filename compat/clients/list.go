package clients

// List is every client with a driver.
func List() []Client {
	return []Client{
		{Name: "confluent-kafka", Language: Python, Driver: "confluent.py", Limits: map[string]string{"group-migration-cooperative": assignorData}},
		{Name: "rdkafka", Language: Rust, Driver: "driver", Limits: map[string]string{
			"configs":                     "the crate drops the errors of single resources",
			"group-migration-cooperative": "its librdkafka sends user data with cooperative subscriptions, which a group can't be converted with"}},
		{Name: "kafka-python", Language: Python, Driver: "pure.py", Limits: with(noKIP848(), "group-recreated", notAnew)},
		{Name: "aiokafka", Language: Python, Driver: "aio.py", Limits: with(noKIP848(), "group-cooperative", "the client rebalances eagerly only")},
		{Name: "kafkajs", Language: Node, Driver: "kafkajs.js", Limits: with(noKIP848(),
			"codec-snappy", noCodec, "codec-lz4", noCodec, "codec-zstd", noCodec,
			"headers", "the client keeps headers in a map: their order among different names is lost",
			"group-cooperative", "the client rebalances eagerly only", "group-static", "the client has no static members",
			"group-pattern", "the client resolves patterns only when it subscribes")},
		{Name: "franz-go", Language: Golang, Driver: "kgo", Limits: map[string]string{"group-recreated": notAnew}},
		{Name: "sarama", Language: Golang, Driver: "sarama", Limits: with(noKIP848(),
			"group-cooperative", "the client rebalances eagerly only", "group-pattern", "the client has no patterns")},
		{Name: "kafka-go", Language: Golang, Driver: "kafka-go", Limits: with(noKIP848(), "group-recreated", notAnew,
			"nulls", "the client reads empty keys as null", "headers", "the client reads empty header values as null",
			"log-append-time", "the client takes the producer's timestamps whatever the batch says",
			"idempotent", "the client has no idempotent producer", "auto-create", noLeader, "auto-create-race", noLeader,
			"out-of-range", "the client's Reader waits for the offset instead", "group-cooperative", "the client rebalances eagerly only",
			"group-static", "the client has no static members", "group-pattern", "the client has no patterns")},
		{Name: "@platformatic/kafka", Language: Node, Driver: "platformatic.js", Limits: with(map[string]string{}, "group-recreated", notAnew,
			"codec-zstd", "the client needs a newer Node.js for it",
			"log-append-time", "the client takes the producer's timestamps whatever the batch says",
			"out-of-range", "the client has no reset for an offset that it was given",
			"group-cooperative", "the client rebalances eagerly only", "group-pattern", "the client has no patterns",
			"group-migration", badSubscription, "group-migration-cooperative", badSubscription)},
		{Name: "kcat", Language: Python, Driver: "kcat.py", Plain: true, Limits: map[string]string{
			"headers": "headers are those of an invocation", "nulls": "the client sends nothing that is empty", "positions": "the client sets no timestamps",
			"topics": noAdmin, "configs": noAdmin, "unknown-topic": noAdmin, "group-resume": "the client commits by itself what it has printed",
			"consumer-resume": oldLibrary, "consumer-members": oldLibrary,
			"group-migration": oldLibrary, "group-migration-cooperative": oldLibrary}},
		{Name: "Java", Language: Java, Driver: "Driver.java"},
	}
}

// noAdmin and oldLibrary are limits of kcat.
const (
	noAdmin    = "the client has no admin requests"
	oldLibrary = "the distribution's librdkafka has classic groups only"
)

// badSubscription is why a group of the client can't be converted, by Apache Kafka
// neither.
const badSubscription = "the client's subscriptions lack fields of the version that they name"

// assignorData is why a cooperative group of librdkafka can't be converted from its
// second generation on, by Apache Kafka neither.
const assignorData = "the client's assignments carry data of its assignor, which would be lost"

// noLeader says why a produce does not create a topic.
const noLeader = "the driver sends to a leader, which an unknown topic has not"

// notAnew says why a consumer doesn't go on with a topic of the same name.
const notAnew = "the client waits for the topic that was deleted"

// noCodec says why a codec is left out.
const noCodec = "the client brings gzip only; others are packages of third parties"

// noKIP848 are the limits of clients with classic groups only.
func noKIP848() map[string]string {
	const why = "the client has classic groups only"
	return map[string]string{"consumer-resume": why, "consumer-members": why, "group-migration": why, "group-migration-cooperative": why}
}

// with adds limits, given as row and reason in turn.
func with(limits map[string]string, more ...string) map[string]string {
	for i := 0; i+1 < len(more); i += 2 {
		limits[more[i]] = more[i+1]
	}
	return limits
}
