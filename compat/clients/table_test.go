//go:build compat

package clients_test

import (
	"fmt"
	"strings"
	"sync"

	"github.com/tidemark/tidemark/compat/clients"
)

// table collects what docs/COMPATIBILITY.md says. Several clients fill it at
// once.
type table struct {
	mu       sync.Mutex
	versions map[string]string
	cells    map[string]string // "row\x00client"
}

func newTable() *table {
	return &table{versions: map[string]string{}, cells: map[string]string{}}
}

func (t *table) version(c clients.Client, version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.versions[c.Name] = version
}

func (t *table) set(c clients.Client, r row, cell string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cells[r.name+"\x00"+c.Name] = cell
}

func (t *table) result(c clients.Client, r row, passed bool) {
	if passed {
		t.set(c, r, "yes")
	} else {
		t.set(c, r, "**no**")
	}
}

func (t *table) limit(c clients.Client, r row, _ string) { t.set(c, r, "–") }

// String is the table in Markdown, and the limits of clients below it.
func (t *table) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var names, versions, notes []string
	for _, c := range clients.List() {
		if t.versions[c.Name] == "" {
			continue
		}
		names, versions = append(names, c.Name), append(versions, t.versions[c.Name])
		for _, r := range rows() {
			if why, limit := c.Limits[r.name]; limit {
				notes = append(notes, fmt.Sprintf("* %s, `%s`: %s.\n", c.Name, r.name, why))
			}
		}
	}
	var b strings.Builder
	line := func(cells ...string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(append([]string{"", ""}, names...)...)
	b.WriteString("|---|---|" + strings.Repeat("---|", len(names)) + "\n")
	line(append([]string{"", "version"}, versions...)...)
	for _, r := range rows() {
		cells := []string{"`" + r.name + "`", r.what}
		for _, n := range names {
			cells = append(cells, t.cells[r.name+"\x00"+n])
		}
		line(cells...)
	}
	b.WriteString("\nA dash is a limit of the client itself; the same row fails, or can't be asked for, against Apache Kafka:\n\n" + strings.Join(notes, ""))
	return b.String()
}
