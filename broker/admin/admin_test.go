package admin_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/broker/admin"
	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/metrics"
)

// fake is a node whose answers a test sets.
type fake struct{ health, ready admin.Report }

func (f *fake) Collect(s *metrics.Sink) { s.Count(0, 42) }
func (f *fake) Health() admin.Report    { return f.health }
func (f *fake) Readiness() admin.Report { return f.ready }

func start(t *testing.T, node admin.Introspector) string {
	t.Helper()
	var group lifecycle.Group
	s, err := admin.Start(t.Context(), admin.Config{
		Listen: "127.0.0.1:0", Node: node, Logger: zap.NewNop(), Group: &group,
		Table: []metrics.Metric{{Name: "x_answer", Kind: metrics.Gauge, Help: "The answer"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := s.Stop(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
		group.Wait()
	})
	return "http://" + s.Addr()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestPages(t *testing.T) {
	node := &fake{}
	node.health.Add(admin.Check{Name: "process", OK: true, Detail: "it answers"})
	node.ready.Add(admin.Check{Name: "a", OK: true, Detail: "fine"})
	node.ready.Add(admin.Check{Name: "b", OK: false, Detail: "3 of 7 loaded"})
	node.ready.Add(admin.Check{Name: "c", OK: true, Detail: "fine"})
	url := start(t, node)
	if code, body := get(t, url+"/metrics"); code != 200 || !strings.Contains(body, "\nx_answer 42\n") {
		t.Errorf("/metrics: %d\n%s", code, body)
	}
	if code, body := get(t, url+"/healthz"); code != 200 || !strings.Contains(body, "it answers") {
		t.Errorf("/healthz: %d\n%s", code, body)
	}
	code, body := get(t, url+"/readyz")
	var got admin.Report
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if code != 503 || got.OK || len(got.Checks) != 3 || got.Checks[1] != node.ready.Checks[1] {
		t.Errorf("/readyz: %d\n%s", code, body)
	}
	if code, body := get(t, url+"/"); code != 200 || body != "/metrics\n/healthz\n/readyz\n" {
		t.Errorf("/: %d\n%s", code, body)
	}
	if code, _ := get(t, url+"/else"); code != 404 {
		t.Errorf("/else: %d", code)
	}
	resp, err := http.Post(url+"/healthz", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 405 {
		t.Errorf("POST: %d", resp.StatusCode)
	}
}

func TestTakenAddress(t *testing.T) {
	url := start(t, &fake{})
	_, err := admin.Start(t.Context(), admin.Config{Listen: strings.TrimPrefix(url, "http://"), Node: &fake{}, Logger: zap.NewNop()})
	if err == nil || !strings.Contains(err.Error(), "tidemark.http.listen") {
		t.Errorf("error %v, want one that names the setting", err)
	}
}
