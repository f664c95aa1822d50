package transport

import "strings"

// joined is one error of several, on one line.
type joined []error

// Error joins what each says.
func (j joined) Error() string {
	said := make([]string, 0, len(j))
	for _, err := range j {
		if err != nil {
			said = append(said, err.Error())
		}
	}
	return strings.Join(said, ": ")
}

// Unwrap returns all of them.
func (j joined) Unwrap() []error { return j }
