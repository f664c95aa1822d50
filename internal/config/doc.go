// Package config holds the names, types, defaults, bounds and update modes of
// every broker and topic setting, and turns text into the typed Broker and
// Topic values that the rest of the program reads.
//
// Names are Apache Kafka's own; settings that Kafka does not have start with
// "tidemark." and end with their unit. Four sources are read, a later one
// winning over an earlier: built-in default, server.properties file,
// environment in the form of Kafka's official image, command line flags. On top
// lie the dynamic layers kept in the cluster's metadata: cluster-wide broker
// settings, settings of one broker, settings of one topic.
//
// A key that Kafka knows and Tidemark has no use for is accepted and reported
// once as ignored, with the reason; an unknown key is a warning; a bad value is
// a *BadValue that names key, value and what would be allowed.
//
// The package is pure: callers hand it the file's content and the environment,
// and it never touches the disk, the clock or the network. It knows nothing of
// who uses the values.
package config
