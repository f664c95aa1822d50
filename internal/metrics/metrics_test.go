package metrics_test

import (
	"io"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/internal/metrics"
)

const (
	depth metrics.ID = iota
	served
	took
)

var table = []metrics.Metric{
	depth:  {Name: "x_depth", Kind: metrics.Gauge, Labels: []string{"loop"}, Help: "Messages that wait"},
	served: {Name: "x_served_total", Kind: metrics.Counter, Help: "Requests | answers"},
	took:   {Name: "x_took_seconds", Kind: metrics.Durations, Labels: []string{"api"}, Help: "Time of an answer"},
}

func page(t *testing.T, collect func(*metrics.Sink)) string {
	t.Helper()
	r, err := metrics.New(table, collect)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func wantLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains(text, "\n"+l+"\n") {
			t.Errorf("no line %q in\n%s", l, text)
		}
	}
}

func TestPage(t *testing.T) {
	var h metrics.Histogram
	h.Observe(50 * time.Microsecond) // on a bound: in its bucket
	h.Observe(51 * time.Microsecond)
	h.ObserveMany(2*time.Second, 3)
	h.Observe(time.Hour)
	h.Observe(-time.Second)
	text := page(t, func(s *metrics.Sink) {
		s.Count(depth, 7, "controller")
		s.Set(depth, 0.5, "partition")
		s.Count(served, 12)
		s.Durations(took, h.Read(), "Produce")
	})
	wantLines(t, text,
		"# HELP x_depth Messages that wait", "# TYPE x_depth gauge", `x_depth{loop="controller"} 7`, `x_depth{loop="partition"} 0.5`,
		"# TYPE x_served_total counter", "x_served_total 12",
		"# TYPE x_took_seconds histogram",
		`x_took_seconds_bucket{api="Produce",le="5e-05"} 2`, `x_took_seconds_bucket{api="Produce",le="0.0001"} 3`,
		`x_took_seconds_bucket{api="Produce",le="1"} 3`, `x_took_seconds_bucket{api="Produce",le="2.5"} 6`,
		`x_took_seconds_bucket{api="Produce",le="30"} 6`, `x_took_seconds_bucket{api="Produce",le="+Inf"} 7`,
		`x_took_seconds_count{api="Produce"} 7`, `x_took_seconds_sum{api="Produce"} 3606.000101`)
	for _, name := range []string{"go_goroutines", "process_start_time_seconds", "process_resident_memory_bytes"} {
		if !strings.Contains(text, "\n"+name+" ") {
			t.Errorf("no metric %s", name)
		}
	}
}

// A row that is used wrongly costs that row, not the page.
func TestWrongLabels(t *testing.T) {
	text := page(t, func(s *metrics.Sink) {
		s.Count(depth, 1)
		s.Flag(served, true)
	})
	wantLines(t, text, "x_served_total 1")
	if strings.Contains(text, "x_depth") {
		t.Error("a metric without its labels was published")
	}
}

func TestNamesAreUnique(t *testing.T) {
	twice := []metrics.Metric{{Name: "a", Kind: metrics.Gauge, Help: "x"}, {Name: "a", Kind: metrics.Gauge, Help: "y"}}
	if _, err := metrics.New(twice, func(*metrics.Sink) {}); err == nil {
		t.Error("a table that names a metric twice was taken")
	}
}

func TestReadingsAddUp(t *testing.T) {
	var a, b metrics.Histogram
	a.Observe(time.Millisecond)
	b.Observe(2 * time.Minute)
	b.Observe(time.Millisecond)
	sum := a.Read()
	sum.Add(b.Read())
	text := page(t, func(s *metrics.Sink) { s.Durations(took, sum, "x") })
	wantLines(t, text, `x_took_seconds_bucket{api="x",le="0.001"} 2`, `x_took_seconds_bucket{api="x",le="30"} 2`, `x_took_seconds_count{api="x"} 3`)
}

func TestObserveAllocatesNothing(t *testing.T) {
	var h metrics.Histogram
	if n := testing.AllocsPerRun(100, func() { h.Observe(time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestReference(t *testing.T) {
	r, err := metrics.New(table, func(*metrics.Sink) {})
	if err != nil {
		t.Fatal(err)
	}
	var w strings.Builder
	if err := r.WriteReference(&w); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| `x_depth` | gauge | `loop` | Messages that wait |\n| `x_served_total` | counter | – | Requests \\| answers |\n| `x_took_seconds` | histogram | `api` |",
		"| `go_goroutines` | gauge |", "| `process_start_time_seconds` | gauge |", "| `go_gc_duration_seconds` | summary |",
	} {
		if !strings.Contains(w.String(), want) {
			t.Errorf("no %q in\n%s", want, w.String())
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	var h metrics.Histogram
	for b.Loop() {
		h.Observe(700 * time.Microsecond)
	}
}

// Ten thousand partitions are read in a moment.
func BenchmarkGather(b *testing.B) {
	names := make([]string, 10_000)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	many := make([]metrics.Metric, 12)
	for i := range many {
		many[i] = metrics.Metric{Name: "x_" + names[i], Kind: metrics.Gauge, Labels: []string{"topic", "partition"}, Help: "x"}
	}
	r, err := metrics.New(many, func(s *metrics.Sink) {
		for _, n := range names {
			for id := range many {
				s.Count(metrics.ID(id), 1, "topic", n)
			}
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		w := httptest.NewRecorder()
		r.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	}
}
