package admin

// Report is what one of the pages /healthz and /readyz says.
type Report struct {
	// OK is whether every check is. The page's status is 200 or 503.
	OK bool `json:"ok"`
	// Checks are in the order in which a start passes them.
	Checks []Check `json:"checks"`
}

// Check is one thing that was looked at.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Detail says what was seen, in words for a person.
	Detail string `json:"detail"`
}

// Add appends a check; one that fails makes the report fail.
func (r *Report) Add(c Check) {
	if len(r.Checks) == 0 {
		r.OK = true
	}
	r.OK = r.OK && c.OK
	r.Checks = append(r.Checks, c)
}
