package config

import "strings"

// notSettings are the variables that begin like settings in Kafka's official
// image but steer its start script or the Java virtual machine.
var notSettings = []string{
	"KAFKA_VERSION", "KAFKA_HOME", "KAFKA_OPTS", "KAFKA_HEAP_OPTS", "KAFKA_DEBUG", "KAFKA_CLUSTERS",
	"KAFKA_JMX_OPTS", "KAFKA_JMX_PORT", "KAFKA_JMX_HOSTNAME", "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_GC_LOG_OPTS",
	"KAFKA_LOG4J_OPTS", "KAFKA_LOG4J_LOGGERS", "KAFKA_LOG4J_ROOT_LOGLEVEL", "KAFKA_TOOLS_LOG4J_LOGLEVEL",
	"KAFKA_LOG4J_CMD_OPTS", "KAFKA_CLUSTER_ID",
}

// parseEnviron picks the settings out of "NAME=value" variables: CLUSTER_ID,
// KAFKA_<NAME> as in Kafka's official image, and TIDEMARK_<NAME> for our own.
// In a name ___ stands for -, __ for _, and _ for a dot.
func parseEnviron(environ []string) []Pair {
	var pairs []Pair
	for _, kv := range environ {
		name, value, found := strings.Cut(kv, "=")
		if !found {
			continue
		}
		if key, ok := environKey(name); ok {
			pairs = append(pairs, Pair{Key: key, Value: value})
		}
	}
	return pairs
}

func environKey(name string) (string, bool) {
	switch {
	case name == "CLUSTER_ID" || name == "KAFKA_CLUSTER_ID":
		return "cluster.id", true
	case strings.HasPrefix(name, "TIDEMARK_TEST_"):
		return "", false
	case strings.HasPrefix(name, "TIDEMARK_") && len(name) > len("TIDEMARK_"):
		return "tidemark." + dotted(name[len("TIDEMARK_"):]), true
	case strings.HasPrefix(name, "KAFKA_") && len(name) > len("KAFKA_"):
		for _, n := range notSettings {
			if name == n {
				return "", false
			}
		}
		return dotted(name[len("KAFKA_"):]), true
	}
	return "", false
}

// dotted turns the underscores of an environment name into the marks of a
// setting's name. A run longer than three is read from the left, three at a
// time.
func dotted(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); {
		run := 0
		for run < 3 && i+run < len(name) && name[i+run] == '_' {
			run++
		}
		switch run {
		case 0:
			b.WriteString(strings.ToLower(name[i : i+1]))
			run = 1
		case 1:
			b.WriteByte('.')
		case 2:
			b.WriteByte('_')
		case 3:
			b.WriteByte('-')
		}
		i += run
	}
	return b.String()
}
