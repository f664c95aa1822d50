// Command compare measures several brokers beside each other on this machine:
// Tidemark, franz-go's in-memory kfake, and Apache Kafka from its Maven jars.
// All run at the same time; the cells go round them in turn, the first round is
// thrown away, and medians and ratios are printed as Markdown.
//
//	go run ./bench/compare -rounds 5 > report.md
package main
