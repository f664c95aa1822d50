package dump

import (
	"os"
	"strings"
	"testing"
)

// TestEveryKindHasAPage: a kind of file that the dump knows is in the list of
// docs/formats, and the page that the list names exists and speaks of it.
func TestEveryKindHasAPage(t *testing.T) {
	const dir = "../../docs/formats/"
	list, err := os.ReadFile(dir + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	kinds := 0
	for line := range strings.Lines(string(list)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[1], "`") {
			continue
		}
		name := strings.Trim(cells[1], " `")
		_, page, _ := strings.Cut(cells[3], "](")
		page, _, _ = strings.Cut(strings.TrimSuffix(strings.TrimSpace(page), ")"), "#")
		text, err := os.ReadFile(dir + page)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.Contains(string(text), name) {
			t.Errorf("%s does not speak of %s", page, name)
		}
		numbered := strings.Replace(name, "<offset>", "00000000000000000042", 1)
		numbered = strings.Replace(numbered, "<id>", "0000000042", 1)
		k := kindOf(strings.Replace(numbered, "<end offset>-<term>", "00000000000000000042-0000000007", 1))
		if (k.show == nil) != (name == ".lock") {
			t.Errorf("%s: the dump takes it for %q", name, k.name)
		}
		kinds++
	}
	if kinds < 20 {
		t.Errorf("only %d kinds are listed", kinds)
	}
}

func TestKindOf(t *testing.T) {
	for name, want := range map[string]string{
		"00000000000000000042.log":                   "segment",
		"00000000000000000042.log.deleted":           "segment",
		"00000000000000000042.index.cleaned":         "offset index",
		"00000000000000000042.timeindex.swap":        "time index",
		"leader-epoch-checkpoint.tmp":                "leader epoch checkpoint",
		"00000000000000000042-0000000007.checkpoint": "metadata snapshot",
		"00000000000000000042-7.checkpoint":          "",
		"00000000000000000042.checkpoint":            "",
		"quorum-identity":                            "quorum identity",
		".tidemark_scrub":                            "list of verified segments",
		"observed":                                   "observed metadata",
		"receipts-0000000001.jsonl":                  "journal of receipts",
		"receipts-1.jsonl":                           "",
		"receipt.json":                               "receipt",
		"42.log":                                     "",
		"0000000000000000004x.log":                   "",
		"99999999999999999999.log":                   "",
		"00000000000000000042":                       "",
		"00000000000000000042.txt":                   "",
		"recovery-point-offset-checkpoint.deleted.x": "",
	} {
		k := kindOf(name)
		if k.name != want || (k.show != nil) != (want != "") {
			t.Errorf("%s is taken for %q, want %q", name, k.name, want)
		}
	}
}
