package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// Options choose what is checked and how it is told.
type Options struct {
	// Deep decodes the records of each batch.
	Deep bool
	// JSON writes one object a line instead of text.
	JSON bool
	// Quiet leaves out partitions of which there is nothing to tell.
	Quiet bool
}

// Run checks what is under each path: a partition's directory, a log directory,
// or a data directory that holds one. found says that something is wrong, beyond
// notes. err joins what could not be read; all else is checked regardless.
func Run(files vfs.FS, paths []string, o Options, out io.Writer) (found bool, err error) {
	t := &teller{out: out, o: o}
	var failures []error
	for _, path := range paths {
		if err := t.path(files, path); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", path, err))
		}
	}
	t.summary()
	return t.grades[Derived]+t.grades[Tail]+t.grades[Damage] > 0, errors.Join(append(failures, t.err)...)
}

// teller writes reports.
type teller struct {
	out io.Writer
	o   Options
	err error // the first of out

	partitions, bad int
	counts
	grades [Damage + 1]int
}

// The lines of the JSON output.
type (
	counts struct {
		Segments int64 `json:"segments"`
		Batches  int64 `json:"batches"`
		Records  int64 `json:"records"`
		Bytes    int64 `json:"bytes"`
	}
	partitionLine struct {
		Type        string `json:"type"`
		Dir         string `json:"dir"`
		Topic       string `json:"topic"`
		Partition   int32  `json:"partition"`
		Verdict     string `json:"verdict"`
		StartOffset int64  `json:"startOffset"`
		EndOffset   int64  `json:"endOffset"`
		counts
	}
	findingLine struct {
		Type     string `json:"type"`
		Dir      string `json:"dir"`
		Grade    string `json:"grade"`
		File     string `json:"file"`
		Position *int64 `json:"position,omitempty"`
		Offset   *int64 `json:"offset,omitempty"`
		Text     string `json:"text"`
	}
	summaryLine struct {
		Type       string `json:"type"`
		Partitions int    `json:"partitions"`
		Faulty     int    `json:"faulty"`
		counts
		Notes   int `json:"notes"`
		Derived int `json:"derived"`
		Tails   int `json:"tails"`
		Damages int `json:"damages"`
	}
)

func (t *teller) path(files vfs.FS, path string) error {
	at, err := Find(files, path)
	if err != nil {
		return err
	}
	var failures []error
	logs := Ends{}
	for _, dir := range at.Partitions {
		r, err := Partition(files, dir, t.o.Deep)
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", dir, err))
			continue
		}
		logs[r.Partition] = r
		t.report(r)
	}
	if at.Dir != "" && len(failures) == 0 {
		list, err := LogDir(files, at.Dir, logs)
		if err != nil {
			return err
		}
		t.findings(at.Dir, list)
	}
	return errors.Join(failures...)
}

// report tells of one partition.
func (t *teller) report(r *Report) {
	t.partitions++
	t.Segments += int64(r.Segments)
	t.Batches += r.Batches
	t.Records += r.Records
	t.Bytes += r.Bytes
	g := r.Worst()
	if g > Note {
		t.bad++
	}
	word := g.String()
	if g == Note {
		word = "ok"
	}
	switch {
	case t.o.Quiet && len(r.Findings) == 0:
	case t.o.JSON:
		t.line(partitionLine{
			Type: "partition", Dir: r.Dir, Topic: r.Partition.Topic, Partition: r.Partition.Partition, Verdict: word,
			StartOffset: int64(r.Start), EndOffset: int64(r.End), counts: counts{int64(r.Segments), r.Batches, r.Records, r.Bytes},
		})
	default:
		t.printf("%-7s %s: offsets [%d, %d), %d segments, %d batches, %d records, %d bytes\n",
			word, r.Dir, r.Start, r.End, r.Segments, r.Batches, r.Records, r.Bytes)
	}
	t.findings(r.Dir, r.Findings)
	if r.More > 0 {
		t.findings(r.Dir, []Finding{{Grade: Note, File: ".", Position: -1, Offset: model.NoOffset, Text: fmt.Sprintf("%d more findings", r.More)}})
	}
}

// findings tells of what was found in a directory.
func (t *teller) findings(dir string, list []Finding) {
	for _, f := range list {
		t.grades[f.Grade]++
		if !t.o.JSON {
			t.printf("        %v\n", f)
			continue
		}
		l := findingLine{Type: "finding", Dir: dir, Grade: f.Grade.String(), File: f.File, Text: f.Text}
		if f.Position >= 0 {
			l.Position = &f.Position
		}
		if f.Offset >= 0 {
			l.Offset = (*int64)(&f.Offset)
		}
		t.line(l)
	}
}

func (t *teller) summary() {
	if t.partitions == 0 {
		return // an error says why
	}
	if t.o.JSON {
		t.line(summaryLine{
			Type: "summary", Partitions: t.partitions, Faulty: t.bad, counts: t.counts,
			Notes: t.grades[Note], Derived: t.grades[Derived], Tails: t.grades[Tail], Damages: t.grades[Damage],
		})
		return
	}
	t.printf("%d partitions, %d of them not as they should be; %d segments, %d batches, %d records, %d bytes; "+
		"findings: %d damage, %d tail, %d derived, %d notes\n",
		t.partitions, t.bad, t.Segments, t.Batches, t.Records, t.Bytes,
		t.grades[Damage], t.grades[Tail], t.grades[Derived], t.grades[Note])
}

func (t *teller) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(t.out, format, args...); err != nil && t.err == nil {
		t.err = err
	}
}

func (t *teller) line(l any) {
	b, err := json.Marshal(l)
	if err == nil {
		_, err = fmt.Fprintf(t.out, "%s\n", b)
	}
	if err != nil && t.err == nil {
		t.err = err
	}
}
