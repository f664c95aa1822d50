package tidemarktest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark/tidemark/tidemarktest"
)

// What was acknowledged is there after a kill and after a stop, in memory and on
// the disk, at the same address.
func TestOneNodeOverItsLives(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		c := tidemarktest.Start(t, tidemarktest.Options{Dir: dir, Set: []string{"num.partitions=2"}})
		addr := c.Addrs()[0]
		if got := roundTrip(t.Context(), "one", addr); got != "one" {
			t.Fatalf("consumed %q", got)
		}
		if err := c.KillNode(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if err := c.KillNode(t.Context(), 1); err == nil {
			t.Error("a node that doesn't run was killed")
		}
		if err := c.StartNode(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if err := c.StartNode(t.Context(), 1); err == nil {
			t.Error("a node that runs was started")
		}
		if got := roundTrip(t.Context(), "one", addr); got != "one" {
			t.Errorf("consumed %q after a kill", got)
		}
		if err := c.StopNode(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := roundTrip(t.Context(), "one", addr); got != "one" || c.Addrs()[0] != addr {
			t.Errorf("consumed %q after a stop, from %s", got, c.Addrs()[0])
		}
		if _, err := os.Stat(filepath.Join(dir, "node-1", "log", "one-0")); dir != "" && err != nil {
			t.Errorf("no directory of the partition: %v", err)
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for _, set := range []string{"num.partitions=-3", "no.such.setting=1", "nonsense"} {
		c, err := tidemarktest.New(tidemarktest.Options{Set: []string{set}})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(t.Context()); err == nil {
			t.Errorf("%s was accepted", set)
		}
	}
}
