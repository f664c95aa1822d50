package metrics

// Kind says how a metric moves.
type Kind uint8

// The kinds of metrics.
const (
	Gauge     Kind = iota + 1 // goes up and down
	Counter                   // only rises, and starts at 0 with the process
	Durations                 // a Histogram, in seconds
)

// String returns Prometheus's name of the kind.
func (k Kind) String() string {
	switch k {
	case Gauge:
		return "gauge"
	case Counter:
		return "counter"
	case Durations:
		return "histogram"
	}
	return "untyped"
}

// Metric is one row of a table: what is published under a name.
type Metric struct {
	Name   string
	Kind   Kind
	Labels []string // names; a Sink is given their values in this order
	Help   string   // a sentence without a full stop
}

// ID is the index of a Metric in the table that a Registry was made from.
type ID int
