package tidy

import (
	"os/exec"
	"slices"
	"strings"
)

const whyIgnored = "an ignore rule such as *.log or log/ hides the log package and its fixtures, and they don't land"

// Check runs every rule over a tree. The names are those of all mutants.
func Check(t *Tree, mutants []string) []Finding {
	return slices.Concat(CheckArrows(t), CheckBans(t), CheckGlobals(t), CheckMapOrder(t), CheckSizes(t),
		CheckDocs(t), CheckLogName(t), CheckWords(t), CheckMutants(t, mutants))
}

// CheckIgnored asks git whether it ignores files of the log package or its
// fixtures. Without git, or outside a work tree, there is nothing to ask.
func CheckIgnored(root string) (out []Finding) {
	git := func(args ...string) (string, bool) {
		cmd := exec.Command("git", append([]string{"-C", root}, args...)...)
		b, err := cmd.Output()
		return string(b), err == nil
	}
	if _, ok := git("rev-parse", "--is-inside-work-tree"); !ok {
		return nil
	}
	for _, p := range []string{"log/segment.go", "log/testdata/00000000000000000000.log", "compat/golden/log/x.log"} {
		if _, ignored := git("check-ignore", "-q", "--no-index", p); ignored {
			out = append(out, Finding{p, "git ignores it", whyIgnored})
		}
	}
	hidden, _ := git("ls-files", "--others", "--ignored", "--exclude-standard", "--", "*.go", "*/testdata/*", "log/*")
	for p := range strings.Lines(hidden) {
		out = append(out, Finding{strings.TrimSpace(p), "git ignores it", whyIgnored})
	}
	return out
}
