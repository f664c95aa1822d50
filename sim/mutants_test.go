//go:build mutants

package sim

import (
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/mutant"
)

// within says in which worlds a mutant must be caught: from the first seed that
// is known to catch it, so many at the most; with a play, in worlds that have no other.
type within struct {
	nodes       int
	first, most uint64
	play        string
}

// caughtWithin has the mutants that the simulation catches cheaply;
// docs/VERIFICATION.md says in how many seeds, and where the others are caught.
var caughtWithin = map[string]within{
	"coord-replay-before-append":     {3, 5, 40, "refused offset"},
	"coord-visible-before-commit":    {3, 5, 40, "early offset"},
	"ctl-active-early":               {3, 50, 60, ""},
	"ctl-alter-no-cas":               {3, 20, 200, ""},
	"ctl-change-before-propose":      {3, 1, 20, ""},
	"ctl-confstate-apart":            {3, 1, 20, ""},
	"ctl-damaged-elected":            {3, 4, 40, "last one damaged"},
	"ctl-elr-kept":                   {3, 12, 40, ""},
	"ctl-expiry-first":               {3, 3, 40, "waiting heartbeat"},
	"ctl-hardstate-first":            {3, 2, 40, "catching up"},
	"ctl-isr-any-incarnation":        {3, 105, 200, ""},
	"ctl-no-epoch-bump":              {3, 1, 20, ""},
	"ctl-power-keeps-seat":           {3, 2, 20, ""},
	"ctl-reply-by-index":             {3, 2, 40, "another's entry"},
	"ctl-sole-reelected":             {3, 1, 120, ""},
	"ctl-unclean-silently":           {3, 2, 40, ""},
	"ctl-vote-lost":                  {3, 3, 40, "forgotten vote"},
	"ctl-wiped-votes":                {3, 2, 40, "wiped voter"},
	"group-commit-any-generation":    {3, 5, 40, "past generation"},
	"group-generation-kept":          {3, 5, 20, ""},
	"host-acts-before-registration":  {3, 1, 20, ""},
	"host-first-append-early":        {3, 1, 20, ""},
	"host-stray-deleted":             {3, 4, 20, ""},
	"log-damage-cut":                 {1, 37, 20, ""},
	"host-scrub-unheard":             {3, 240, 40, ""},
	"log-index-off-by-one":           {1, 1, 20, ""},
	"log-keep-empty-epoch":           {3, 30, 120, ""},
	"log-rp-after-truncate":          {3, 1, 20, ""},
	"log-rp-before-epoch-file":       {1, 1, 20, ""},
	"log-skip-crc":                   {1, 1, 40, ""},
	"log-skip-dirsync":               {1, 1, 20, ""},
	"log-skip-structure":             {3, 3, 40, "spoilt header"},
	"log-stale-flushed":              {3, 5, 40, "late flush"},
	"log-truncate-in-place":          {3, 5, 40, "late flush"},
	"loop-lost-wakeup":               {1, 1, 20, ""},
	"part-ack-before-append":         {1, 2, 20, ""},
	"part-ack-before-hw":             {3, 1, 20, ""},
	"part-alter-rereads-epoch":       {3, 230, 200, ""},
	"part-delete-before-disk":        {1, 72001, 100, ""},
	"part-dup-acked-early":           {3, 3, 20, ""},
	"part-expand-before-epoch-start": {3, 1, 40, ""},
	"part-expand-below-log-start":    {3, 1, 200, ""},
	"part-fetch-before-fsync":        {3, 7, 40, ""},
	"part-fetch-no-epoch-fence":      {3, 1, 200, ""},
	"part-hw-ignores-pending-isr":    {3, 1, 120, ""},
	"part-isr-no-broker-epoch":       {3, 105, 200, ""},
	"part-truncate-to-hw":            {3, 1, 20, ""},
	"receipt-kept-dropped":           {3, 1, 20, ""},
	"receipt-none":                   {3, 1, 20, ""},
	"shell-diverging-dropped":        {3, 1, 20, ""},
	"shell-frame-reused":             {1, 1, 20, ""},
}

func TestMutantsAreCaught(t *testing.T) {
	listed := mutant.Names()
	for _, name := range sortedMutants() {
		t.Run(name, func(t *testing.T) {
			if !slices.ContainsFunc(listed, func(m mutant.Mutant) bool { return m.Name == name }) {
				t.Fatal("there is no such mutant")
			}
			in := caughtWithin[name]
			for seed := in.first; seed < in.first+in.most; seed++ {
				o := Options{Seed: seed, Nodes: in.nodes, only: in.play}
				restore := mutant.Set(name)
				r := Run(o, nil)
				restore()
				if r.Failure == nil {
					continue
				}
				t.Logf("caught by seed %d: %.200v", seed, r.Failure)
				if f := Run(o, nil).Failure; f != nil {
					t.Errorf("seed %d fails without the mutant too: %v", seed, f)
				}
				return
			}
			t.Errorf("not caught in %d seeds from %d on", in.most, in.first)
		})
	}
}

func sortedMutants() []string {
	var names []string
	for name := range caughtWithin { // order-free: sorted below
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
