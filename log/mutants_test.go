//go:build mutants

package log_test

import (
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/mutant"
)

// verdict turns a scenario's Fatal into a finding, so that a mutant that breaks
// it in an unforeseen place counts as found.
type verdict struct {
	testing.TB
	found string
}

type foundByFatal struct{}

func (v *verdict) Helper() {}
func (v *verdict) Fatal(args ...any) {
	v.found = "fatal"
	panic(foundByFatal{})
}
func (v *verdict) Fatalf(string, ...any) { v.Fatal() }
func (v *verdict) Errorf(string, ...any) { v.found = "error" }

func (v *verdict) run(scenario func(t testing.TB) error) {
	defer func() {
		if r := recover(); r != nil {
			if _, ours := r.(foundByFatal); !ours {
				v.found = "panic"
			}
		}
	}()
	if err := scenario(v); err != nil {
		v.found = err.Error()
	}
}

// Each mutant of this package is found by the scenario of its rule.
func TestMutantsAreFound(t *testing.T) {
	all := scenarios()
	all["log-rp-after-truncate"] = crashEverywhere // TestCrashAtEveryCall
	all["log-skip-dirsync"] = crashEverywhere
	all["log-swap-late"] = crashInSwaps // TestCrashAtEveryCallOfASwap
	all["log-swap-unsynced"] = crashInSwaps
	for _, m := range mutant.Names() {
		if !strings.HasPrefix(m.Name, "log-") {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			scenario := all[m.Name]
			if scenario == nil {
				t.Fatal("no scenario")
			}
			defer mutant.Set(m.Name)()
			v := &verdict{TB: t}
			v.run(scenario)
			if v.found == "" {
				t.Error("not found")
			}
			t.Log(v.found)
		})
	}
}
