package verify

import (
	"fmt"

	"github.com/tidemark/tidemark/internal/model"
)

// Grade says what a finding costs.
type Grade uint8

const (
	// Note is worth knowing, and nothing has to be done.
	Note Grade = iota
	// Derived: a file that can be made anew from the segments is missing or
	// wrong. No record is lost.
	Derived
	// Tail: the last segment ends in bytes that are no batch, as a write leaves
	// them that was cut short. A start cuts them off.
	Tail
	// Damage: records are wrong or missing, and no crash explains it.
	Damage
)

// String names the grade as the output does.
func (g Grade) String() string { return [...]string{"note", "derived", "tail", "damage"}[g] }

// Finding is one fault, or one thing worth knowing.
type Finding struct {
	Grade Grade
	// File is the name of the file, relative to the directory reported on.
	File string
	// Position is in bytes from the start of the file, −1 if there is none.
	Position int64
	// Offset is the offset at which the log is concerned, NoOffset if there is
	// none. Records below it are not touched by the fault.
	Offset model.Offset
	Text   string
}

// String is the finding as one line.
func (f Finding) String() string {
	s := f.Grade.String() + " " + f.File
	if f.Position >= 0 {
		s += fmt.Sprintf(" position %d", f.Position)
	}
	if f.Offset >= 0 {
		s += fmt.Sprintf(" offset %d", f.Offset)
	}
	return s + ": " + f.Text
}

// findings collects what is found in one directory.
type findings struct {
	list []Finding
	// more counts what was left out, since a broken index has a fault an entry.
	more int
}

// findingsMax bounds the findings that are told of one directory.
const findingsMax = 1000

func (l *findings) add(g Grade, file string, pos int64, o model.Offset, format string, args ...any) {
	if len(l.list) == findingsMax {
		l.more++
		return
	}
	l.list = append(l.list, Finding{Grade: g, File: file, Position: pos, Offset: o, Text: fmt.Sprintf(format, args...)})
}

// worst is the highest grade among findings.
func worst(list []Finding) Grade {
	g := Note
	for _, f := range list {
		g = max(g, f.Grade)
	}
	return g
}
