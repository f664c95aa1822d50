package config

import "fmt"

// Origin names where a value was read: "default", "file", "environment" or
// "flag", or for dynamic layers "cluster", "broker" or "topic".
type Origin string

// The origins.
const (
	FromDefault     Origin = "default"
	FromFile        Origin = "file"
	FromEnvironment Origin = "environment"
	FromFlag        Origin = "flag"
)

// BadValue is a setting whose value cannot be used. The text holds all that an
// operator needs to correct it.
type BadValue struct {
	Key    string
	Value  string
	Want   string // the allowed values in words or as a range
	Origin Origin // empty when the value came in a request
}

// Error returns key, value, origin and what would be allowed.
func (e *BadValue) Error() string {
	if e.Origin == "" {
		return fmt.Sprintf("%s: bad value %q: want %s", e.Key, e.Value, e.Want)
	}
	return fmt.Sprintf("%s: bad value %q (from %s): want %s", e.Key, e.Value, e.Origin, e.Want)
}

// UnknownKey is a request to alter a setting that does not exist.
type UnknownKey struct{ Key string }

// Error names the key.
func (e *UnknownKey) Error() string { return fmt.Sprintf("unknown setting %q", e.Key) }

// NotDynamic is a request to alter a broker setting in a way that its update
// mode does not allow.
type NotDynamic struct {
	Key  string
	Mode Update
}

// Error names the key and its mode.
func (e *NotDynamic) Error() string {
	if e.Mode == PerBroker {
		return fmt.Sprintf("%s can be altered for one broker only, not for the cluster", e.Key)
	}
	return fmt.Sprintf("%s cannot be altered while the broker runs; set it in its configuration and restart", e.Key)
}
