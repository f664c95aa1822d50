package metrics

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// Registry publishes the metrics of one table, and those of the process and of
// Go's runtime beside them. Its methods may be called from any goroutine.
type Registry struct {
	table   []Metric
	collect func(*Sink)
	process *prometheus.Registry
}

// New returns a registry for a table. collect is called whenever somebody reads
// the metrics, perhaps by several goroutines at a time, and hands the present
// values to the Sink; what it leaves out is not published.
func New(table []Metric, collect func(*Sink)) (*Registry, error) {
	r := &Registry{table: table, collect: collect, process: prometheus.NewRegistry()}
	// Its checks of names are made once, on a registry that nobody reads: on each
	// reading they would cost more than all else together.
	checked := prometheus.NewRegistry()
	for i := range table {
		m := &table[i]
		if err := checked.Register(described{prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)}); err != nil {
			return nil, err
		}
	}
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := r.process.Register(c); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// described is a collector that only has a name.
type described struct{ desc *prometheus.Desc }

// Describe implements prometheus.Collector.
func (d described) Describe(ch chan<- *prometheus.Desc) { ch <- d.desc }

// Collect implements prometheus.Collector.
func (described) Collect(chan<- prometheus.Metric) {}

// Handler serves the metrics over HTTP, in the format that the client asks for.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: readersMax})
}

// readersMax bounds how many read the metrics at a time.
const readersMax = 4

// Gather implements prometheus.Gatherer.
func (r *Registry) Gather() ([]*dto.MetricFamily, error) {
	s := Sink{table: r.table, values: make([][]*dto.Metric, len(r.table))}
	r.collect(&s)
	families, err := r.process.Gather()
	for i := range r.table {
		if len(s.values[i]) == 0 {
			continue
		}
		m := &r.table[i]
		kind := m.Kind.dto()
		families = append(families, &dto.MetricFamily{Name: &m.Name, Help: &m.Help, Type: &kind, Metric: s.values[i]})
	}
	slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return families, err
}

func (k Kind) dto() dto.MetricType {
	switch k {
	case Counter:
		return dto.MetricType_COUNTER
	case Durations:
		return dto.MetricType_HISTOGRAM
	}
	return dto.MetricType_GAUGE
}

// Sink takes the values of one reading. It is used by the call of collect that
// it was given to and by nobody afterwards.
type Sink struct {
	table  []Metric
	values [][]*dto.Metric // by ID

	// The labels of the last call, which the next often has too.
	names  []string
	labels []string
	pairs  []*dto.LabelPair
}

// Set publishes the value of a gauge or a counter. labels are as many as the
// table says, and no two calls give the same metric the same ones. A call with
// too few or too many publishes nothing.
func (s *Sink) Set(id ID, value float64, labels ...string) {
	pairs, ok := s.label(id, labels)
	if !ok {
		return
	}
	m := &dto.Metric{Label: pairs}
	if s.table[id].Kind == Counter {
		m.Counter = &dto.Counter{Value: &value}
	} else {
		m.Gauge = &dto.Gauge{Value: &value}
	}
	s.values[id] = append(s.values[id], m)
}

// label pairs names and values, sorted by name as the format wants them.
func (s *Sink) label(id ID, labels []string) (pairs []*dto.LabelPair, ok bool) {
	names := s.table[id].Labels
	if len(names) != len(labels) {
		return nil, false
	}
	if slices.Equal(names, s.names) && slices.Equal(labels, s.labels) {
		return s.pairs, true
	}
	pairs = make([]*dto.LabelPair, len(names))
	for i := range names {
		value := labels[i]
		pairs[i] = &dto.LabelPair{Name: &names[i], Value: &value}
	}
	slices.SortFunc(pairs, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	s.names, s.labels, s.pairs = names, append(s.labels[:0], labels...), pairs
	return pairs, true
}

// Count is Set for a number that is kept as an integer.
func (s *Sink) Count(id ID, value int64, labels ...string) { s.Set(id, float64(value), labels...) }

// Flag is Set for what is so or isn't.
func (s *Sink) Flag(id ID, so bool, labels ...string) {
	value := 0.0
	if so {
		value = 1
	}
	s.Set(id, value, labels...)
}

// Durations publishes a histogram, under the same rules as Set.
func (s *Sink) Durations(id ID, r Reading, labels ...string) {
	pairs, ok := s.label(id, labels)
	if !ok {
		return
	}
	sum := r.Sum.Seconds()
	h := &dto.Histogram{SampleCount: &r.Count, SampleSum: &sum, Bucket: r.cumulative()}
	s.values[id] = append(s.values[id], &dto.Metric{Label: pairs, Histogram: h})
}
