package sim

import "testing"

func TestParseSpans(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"kill:3", "kill:3"},
		{"kill:3-3, story:1-40", "kill:3,story:1-40"},
		{"kill", "error"},
		{"kill:0", "error"},
		{"kill:4-3", "error"},
		{"kill:x-3", "error"},
		{"nothing:1", "error"},
		{":1", "error"},
	} {
		spans, err := ParseSpans(tt.in)
		got := joinSpans(spans)
		if err != nil {
			got = "error"
		}
		if got != tt.want {
			t.Errorf("ParseSpans(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
}

// What is left out does not happen, and everything before it is as it was.
func TestSkip(t *testing.T) {
	o := Options{Seed: 4, Nodes: 3, Until: 9000}
	first := Run(o, nil)
	k := KindKill
	for first.Acts[k] == 0 {
		k++
		if k == kindCount {
			t.Fatal("the nemesis did nothing")
		}
	}
	o.Skip = []Span{{k, 1, first.Acts[k]}}
	second := Run(o, nil)
	if second.Acts[k] == 0 {
		t.Errorf("acts of kind %s that are left out are not counted", k)
	}
	if first.Hash == second.Hash {
		t.Errorf("leaving out %v changed nothing", o.Skip)
	}
}
