package sim

import (
	"fmt"
	"strconv"
	"strings"
)

// Span is a run of acts of the nemesis: those of a kind from one number to
// another, counted from 1.
type Span struct {
	Kind        Kind
	First, Last uint64
}

// String is the span on the command line: kind:first or kind:first-last.
func (s Span) String() string {
	if s.First == s.Last {
		return fmt.Sprintf("%s:%d", s.Kind, s.First)
	}
	return fmt.Sprintf("%s:%d-%d", s.Kind, s.First, s.Last)
}

// ParseSpans reads a comma-separated list of spans.
func ParseSpans(text string) ([]Span, error) {
	var spans []Span
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, numbers, _ := strings.Cut(item, ":")
		ks, err := ParseKinds(name)
		if err != nil {
			return nil, err
		}
		first, last, several := strings.Cut(numbers, "-")
		if !several {
			last = first
		}
		s := Span{}
		if len(ks) != 1 {
			return nil, fmt.Errorf("%q: want kind:first-last", item)
		}
		s.Kind = ks[0]
		if s.First, err = strconv.ParseUint(first, 10, 64); err == nil {
			s.Last, err = strconv.ParseUint(last, 10, 64)
		}
		if err != nil || s.First == 0 || s.Last < s.First {
			return nil, fmt.Errorf("%q: want kind:first-last", item)
		}
		spans = append(spans, s)
	}
	return spans, nil
}

// skips reports whether an act of the nemesis was chosen not to take place.
func (o *Options) skips(k Kind, n uint64) bool {
	for _, s := range o.Skip {
		if s.Kind == k && s.First <= n && n <= s.Last {
			return true
		}
	}
	return false
}

func joinSpans(spans []Span) string {
	texts := make([]string, len(spans))
	for i, s := range spans {
		texts[i] = s.String()
	}
	return strings.Join(texts, ",")
}
