// Package metrics turns numbers that a node keeps anyway into a page that
// Prometheus reads. It counts nothing by itself but durations: the parts of a
// node keep plain counters, and whoever knows them all hands them over when the
// page is asked for. So a number that nobody reads costs nothing, and one that is
// counted on a hot path costs an atomic addition.
//
// What there is to read is a literal table of Metric, which the documentation is
// made from as well: a number that is not in the table can't be published.
package metrics
