package lifecycle_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/lifecycle"
)

func TestGroupNamesWhatRuns(t *testing.T) {
	var g lifecycle.Group
	stop := make(chan struct{})
	for _, name := range []string{"b", "a", "b"} {
		g.Go(name, func() { <-stop })
	}
	if got, want := g.Names(), []string{"a", "b x2"}; !slices.Equal(got, want) {
		t.Errorf("Names() = %v, want %v", got, want)
	}
	if got := g.Counts(); len(got) != 2 || got["a"] != 1 || got["b"] != 2 {
		t.Errorf("Counts() = %v, want one a and two b", got)
	}
	if err := g.Leaked(); err == nil || !strings.Contains(err.Error(), "3 goroutines still run: a, b x2") {
		t.Errorf("Leaked() = %v, want the three names", err)
	}
	close(stop)
	g.Wait()
	if err := g.Leaked(); err != nil {
		t.Errorf("after Wait: %v", err)
	}
	if g.Len() != 0 {
		t.Errorf("Len() = %d after Wait", g.Len())
	}
}

func TestGroupDoneOfEmptyIsClosed(t *testing.T) {
	var g lifecycle.Group
	<-g.Done()
	release := make(chan struct{})
	g.Go("x", func() { <-release })
	first, second := g.Done(), g.Done()
	select {
	case <-first:
		t.Fatal("Done is closed while x runs")
	default:
	}
	close(release)
	<-first
	<-second
}

func TestGroupDoneAfterPanicIsCounted(t *testing.T) {
	var g lifecycle.Group
	g.Go("recovers", func() {
		defer func() { _ = recover() }()
		var m map[string]int
		//lint:ignore SA5000 the panic is what the test is about
		m["x"] = 1
	})
	g.Wait()
	if g.Len() != 0 {
		t.Errorf("Len() = %d", g.Len())
	}
}
