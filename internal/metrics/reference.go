package metrics

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// WriteReference prints a registry's metrics as a table of a Markdown page,
// sorted by name, then those of the process and of Go's runtime.
func (r *Registry) WriteReference(w io.Writer) error {
	rows := slices.Clone(r.table)
	slices.SortFunc(rows, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
	if err := writeRows(w, rows); err != nil {
		return err
	}
	families, err := r.process.Gather()
	if err != nil {
		return err
	}
	var others []Metric
	for _, f := range families {
		if n := f.GetName(); !strings.HasPrefix(n, "go_memstats_") {
			others = append(others, Metric{Name: n, Kind: kindNamed(f.GetType().String()), Help: strings.TrimSuffix(f.GetHelp(), ".")})
		}
	}
	fmt.Fprint(w, "\n## Of the process and of Go's runtime\n\nBeside these come `go_memstats_*`, the runtime's account of memory.\n\n")
	return writeRows(w, others)
}

func kindNamed(name string) Kind {
	for _, k := range []Kind{Gauge, Counter, Durations} {
		if strings.EqualFold(k.String(), name) {
			return k
		}
	}
	return 0
}

func writeRows(w io.Writer, rows []Metric) error {
	_, err := fmt.Fprint(w, "| name | kind | labels | meaning |\n|---|---|---|---|\n")
	for i := range rows {
		m := &rows[i]
		labels := "–"
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		kind := m.Kind.String()
		if m.Kind == 0 {
			kind = "summary"
		}
		if _, err := fmt.Fprintf(w, "| `%s` | %s | %s | %s |\n", m.Name, kind, labels, strings.ReplaceAll(m.Help, "|", `\|`)); err != nil {
			return err
		}
	}
	return err
}
