// Command cluster measures three brokers as one cluster, Tidemark's and Apache
// Kafka's in turn on the same machine: replicated produce, failover after a kill,
// controlled shutdown, and ten thousand partitions. It starts and stops every
// process itself.
package main
