package config

// Why Kafka keys have no meaning here. Each reads on after "it changes nothing
// here: ".
const (
	noTiers       = "segments are never moved to remote storage"
	noThrottle    = "replication traffic is not throttled"
	noJVM         = "it tunes the Java virtual machine or loads Java classes"
	noThreads     = "there are no thread pools of fixed size to set"
	noPurgatory   = "waiting requests are removed as they complete, not in sweeps"
	bothAssignors = "the assignors are uniform, which is the default, and range"
	atOnce        = "an assignment is made as soon as it has to change"
	bothProtocols = "groups of the classic and of the consumer protocol are served"
	noShares      = "this version has no share groups"
	noStreams     = "this version has no streams groups"
	noTxns        = "this version has no transaction coordinator"
	noSASL        = "this version serves plaintext listeners only"
	noTLS         = "this version serves plaintext listeners only"
	noTokens      = "this version has no delegation tokens"
	noQuotas      = "client quotas are stored and shown, and slow nothing down yet"
	noAuthz       = "this version has no access control lists"
	noJMX         = "metrics are served over HTTP (tidemark.http.listen), not by JMX"
	noMove        = "replicas are not moved between log directories"
	noPull        = "the quorum replicates by Raft messages, not by fetching"
	noBuffers     = "buffers grow as needed under one memory limit"
	noCordon      = "log directories cannot be cordoned"
	noEarly       = "all listeners open once the node is ready"
	noRate        = "new connections are not rated"
	noSetup       = "connections to other brokers have time limits of their own"
	noBacklog     = "the kernel's own backlog is used"
)

// throttledReplicas checks the form of a throttle list.
func throttledReplicas(value string) string {
	const want = `* or a list of partition:broker`
	if value == "*" || value == "" {
		return ""
	}
	for _, item := range splitList(value) {
		colon := 0
		for i := range len(item) {
			switch c := item[i]; {
			case c == ':' && i > 0 && i < len(item)-1:
				colon++
			case c < '0' || c > '9':
				return want
			}
		}
		if colon != 1 {
			return want
		}
	}
	return ""
}
