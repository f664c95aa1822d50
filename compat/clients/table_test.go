//go:build compat

package clients_test

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tidemark/tidemark/compat/clients"
	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/compat/target"
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
	against := "Tidemark"
	if target.IsKafka() {
		against = "Apache Kafka " + kafka.Version
	}
	fmt.Fprintf(&b, "# Compatibility\n\nWhat unmodified clients see of one broker, %s, on %s. Written by\n\n", against, time.Now().UTC().Format(time.DateOnly))
	b.WriteString("    TIDEMARK_CLIENT_ROWS=all TIDEMARK_COMPAT_TABLE=$PWD/docs/COMPATIBILITY.md go test -count=1 -tags compat ./compat/clients\n\n")
	b.WriteString("With `TIDEMARK_TEST_TARGET=kafka` the same rows run against Apache Kafka. kcat, franz-go's own tests, Kafka's command line tools, Kafka Streams\n" +
		"and Kafka Connect have tests of their own in `compat`.\n\n")
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
