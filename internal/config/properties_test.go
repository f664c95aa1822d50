package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseProperties(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a=b", "a=b"},
		{"  a = b  ", "a=b"},
		{"a:b", "a=b"},
		{"a b c", "a=b c"},
		{"a", "a="},
		{"a=", "a="},
		{"# x\n! y\n\n a=1\r\nb=2", "a=1;b=2"},
		{"a=1,\\\n   2,\\\n   3", "a=1,2,3"},
		{`a=c:\\temp`, `a=c:\temp`},
		{`a\=b=c`, `a=b=c`},
		{`a\ b=c`, `a b=c`},
		{`a=x\ty\u00e9`, "a=x\tyé"},
		{`a=end\`, `a=end`},
		{"a=b=c", "a=b=c"},
		{"a=1\na=2", "a=1;a=2"},
	} {
		pairs, err := ParseProperties(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		var got []string
		for _, p := range pairs {
			got = append(got, p.Key+"="+p.Value)
		}
		if s := strings.Join(got, ";"); s != c.want {
			t.Errorf("%q: got %q, want %q", c.text, s, c.want)
		}
	}
	for _, text := range []string{"=x", `a=\u12`, `a=\uzzzz`, "b=1\n\n=x"} {
		if _, err := ParseProperties(text); err == nil || !strings.HasPrefix(err.Error(), "line ") {
			t.Errorf("%q: got %v, want an error with the line", text, err)
		}
	}
}

func FuzzProperties(f *testing.F) {
	f.Add("a=b\nc:d\\\n e")
	f.Add(`\u0041=\`)
	f.Fuzz(func(t *testing.T, text string) {
		pairs, err := ParseProperties(text)
		if err != nil {
			return
		}
		// What was read, written plainly, reads the same.
		var b strings.Builder
		for _, p := range pairs {
			fmt.Fprintf(&b, "%s=%s\n", escapeProperty(p.Key), escapeProperty(p.Value))
		}
		again, err := ParseProperties(b.String())
		if err != nil || fmt.Sprint(again) != fmt.Sprint(pairs) {
			t.Fatalf("%q became %q (%v), first %q", b.String(), again, err, pairs)
		}
	})
}

// escapeProperty writes every byte that could mean something as an escape.
func escapeProperty(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; c {
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		case '\f':
			b.WriteString(`\f`)
		case ' ', '=', ':', '#', '!', '\\':
			b.WriteString(`\` + string(c))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
