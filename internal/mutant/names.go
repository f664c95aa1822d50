package mutant

// Mutant is one planted bug.
type Mutant struct {
	// Name is the argument of On, lower case with dashes, the area first.
	Name string
	// Bug says what goes wrong when it is on.
	Bug string
}

// Names returns every mutant of the product, sorted by name.
func Names() []Mutant {
	return []Mutant{
		{"loop-inline-overtakes", "a message is handled at once when the box is free, though others are queued"},
		{"loop-lost-wakeup", "an owner releases the box without looking for messages that came meanwhile"},
	}
}
