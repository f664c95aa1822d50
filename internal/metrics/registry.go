package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Registry publishes the metrics of one table, and those of the process and of
// Go's runtime beside them. Its methods may be called from any goroutine.
type Registry struct {
	table   []Metric
	descs   []*prometheus.Desc
	collect func(*Sink)
	reg     *prometheus.Registry
}

// New returns a registry for a table. collect is called whenever somebody reads
// the metrics, perhaps by several goroutines at a time, and hands the present
// values to the Sink; what it leaves out is not published.
func New(table []Metric, collect func(*Sink)) (*Registry, error) {
	r := &Registry{table: table, collect: collect, reg: prometheus.NewRegistry()}
	for i := range table {
		m := &table[i]
		r.descs = append(r.descs, prometheus.NewDesc(m.Name, m.Help, m.Labels, nil))
	}
	for _, c := range []prometheus.Collector{
		collector{r}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := r.reg.Register(c); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Handler serves the metrics over HTTP, in the format that the client asks for.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r.reg, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// collector is a Registry as Prometheus's library sees it.
type collector struct{ r *Registry }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.r.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) { c.r.collect(&Sink{r: c.r, out: ch}) }

// Sink takes the values of one reading. It is used by the call of collect that
// it was given to and by nobody afterwards.
type Sink struct {
	r   *Registry
	out chan<- prometheus.Metric
}

// Set publishes the value of a gauge or a counter. labels are as many as the
// table says, and no two calls give the same metric the same ones.
func (s *Sink) Set(id ID, value float64, labels ...string) {
	kind := prometheus.GaugeValue
	if s.r.table[id].Kind == Counter {
		kind = prometheus.CounterValue
	}
	m, err := prometheus.NewConstMetric(s.r.descs[id], kind, value, labels...)
	s.send(id, m, err)
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

// Durations publishes a histogram.
func (s *Sink) Durations(id ID, r Reading, labels ...string) {
	m, err := prometheus.NewConstHistogram(s.r.descs[id], r.Count, r.Sum.Seconds(), r.cumulative(), labels...)
	s.send(id, m, err)
}

// send passes a metric on. One that can't be made is told in the answer, which
// has the others all the same.
func (s *Sink) send(id ID, m prometheus.Metric, err error) {
	if err != nil {
		m = prometheus.NewInvalidMetric(s.r.descs[id], err)
	}
	s.out <- m
}
