// Command gen writes the lists and log directories of package golden from a
// running Apache Kafka, which it starts itself. Run it in the repository's root:
//
//	go run ./compat/golden/gen              # everything
//	go run ./compat/golden/gen -only lists  # API ranges, settings, features
//	go run ./compat/golden/gen -only logs   # log directories
//
// The lists come out the same each time; log directories differ in producer ids,
// topic ids and the clock.
package main
