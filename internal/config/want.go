package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark/tidemark/internal/model"
)

// Want bounds a value beyond its type.
type Want struct {
	// Ranged says that Min and Max (both inclusive) bound a number.
	Ranged   bool
	Min, Max float64
	// Also is one more number that is allowed outside the range.
	Also *float64
	// OneOf lists the allowed words of a string, or of each item of a list.
	OneOf []string
	// AnyCase lets OneOf match regardless of case.
	AnyCase bool
	// NotEmpty refuses an empty string or list.
	NotEmpty bool
	// Check is a rule that a range cannot say; it returns what is wanted, or ""
	// when the value is good.
	Check func(value string) string
}

func atLeast(min float64) Want           { return Want{Ranged: true, Min: min, Max: math.Inf(1)} }
func between(a, b float64) Want          { return Want{Ranged: true, Min: a, Max: b} }
func oneOf(words ...string) Want         { return Want{OneOf: words} }
func notEmpty() Want                     { return Want{NotEmpty: true} }
func checked(f func(string) string) Want { return Want{Check: f} }

func betweenOr(a, b, also float64) Want {
	return Want{Ranged: true, Min: a, Max: b, Also: &also}
}

// describe says the bounds in the words that *BadValue uses.
func (w Want) describe(t Type) string {
	kind := map[Type]string{
		Bool: "true or false", String: "text", Int: "a 32 bit number", Short: "a 16 bit number",
		Long: "a 64 bit number", Double: "a number", List: "a comma separated list",
		Class: "a class name", Password: "a password",
	}[t]
	switch {
	case w.Ranged && math.IsInf(w.Max, 1):
		kind += fmt.Sprintf(" ≥ %s", number(w.Min))
	case w.Ranged:
		kind += fmt.Sprintf(" from %s to %s", number(w.Min), number(w.Max))
	case len(w.OneOf) > 0 && t == List:
		kind += " of " + strings.Join(w.OneOf, ", ")
	case len(w.OneOf) > 0:
		kind = "one of " + strings.Join(w.OneOf, ", ")
	case w.NotEmpty:
		kind += " that is not empty"
	}
	if w.Also != nil {
		kind += " or " + number(*w.Also)
	}
	return kind
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// Range returns the allowed values in words, for documentation and errors.
func (k *Key) Range() string { return k.Want.describe(k.Type) }

// Check reports whether value can be used for k; the error is a *BadValue
// without an origin.
func (k *Key) Check(value string) error {
	_, err := k.parse(value)
	return err
}

// parse reads value by k's type and bounds. It returns bool, int64, float64,
// string or []string.
func (k *Key) parse(value string) (any, error) {
	v, num, ok := k.read(value)
	if !ok {
		return nil, k.bad(value, k.Range())
	}
	if k.Want.Ranged && (num < k.Want.Min || num > k.Want.Max) && (k.Want.Also == nil || num != *k.Want.Also) {
		return nil, k.bad(value, k.Range())
	}
	if !k.Want.allowsWords(v) {
		return nil, k.bad(value, k.Range())
	}
	if k.Want.Check != nil {
		if want := k.Want.Check(value); want != "" {
			return nil, k.bad(value, want)
		}
	}
	return v, nil
}

// bad is the error for a value of k, which does not name what is secret.
func (k *Key) bad(value, want string) *BadValue {
	if k.Sensitive {
		value = "[hidden]"
	}
	return &BadValue{Key: k.Name, Value: value, Want: want}
}

// read converts value by type alone; num is the value as a number.
func (k *Key) read(value string) (v any, num float64, ok bool) {
	trimmed := strings.TrimSpace(value)
	switch k.Type {
	case Bool:
		switch strings.ToLower(trimmed) {
		case "true":
			return true, 0, true
		case "false":
			return false, 0, true
		}
		return nil, 0, false
	case Short, Int, Long:
		bits := map[Type]int{Short: 16, Int: 32, Long: 64}[k.Type]
		n, err := strconv.ParseInt(trimmed, 10, bits)
		return n, float64(n), err == nil
	case Double:
		f, err := strconv.ParseFloat(trimmed, 64)
		return f, f, err == nil && !math.IsNaN(f)
	case List:
		return splitList(trimmed), 0, true
	case Password:
		return value, 0, true
	}
	return trimmed, 0, true
}

func (w Want) allowsWords(v any) bool {
	items, isList := v.([]string)
	if s, ok := v.(string); ok {
		items = []string{s}
		if w.NotEmpty && s == "" {
			return false
		}
	}
	if isList && w.NotEmpty && len(items) == 0 {
		return false
	}
	if len(w.OneOf) == 0 {
		return true
	}
	for i, item := range items {
		found := slices.ContainsFunc(w.OneOf, func(o string) bool {
			return o == item || (w.AnyCase && strings.EqualFold(o, item))
		})
		if !found || (isList && slices.Contains(items[:i], item)) {
			return false
		}
	}
	return true
}

// splitList reads Kafka's list form: commas, blanks around items dropped, an
// empty text is an empty list.
func splitList(s string) []string {
	if strings.TrimSpace(s) == "" {
		return nil
	}
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// unit is the length of one unit of a duration setting, taken from the last
// word of its name.
func (k *Key) unit() time.Duration {
	switch k.Name[strings.LastIndexByte(k.Name, '.')+1:] {
	case "seconds", "secs":
		return time.Second
	case "minutes":
		return time.Minute
	case "hours":
		return time.Hour
	}
	return time.Millisecond
}

// store puts a parsed value into the field behind p.
func (k *Key) store(p any, v any) {
	switch f := p.(type) {
	case *bool:
		*f = v.(bool)
	case *int32:
		*f = int32(v.(int64))
	case *int64:
		*f = v.(int64)
	case *model.BrokerID:
		*f = model.BrokerID(v.(int64))
	case *float64:
		*f = v.(float64)
	case *string:
		*f = v.(string)
	case *[]string:
		*f = v.([]string)
	case *time.Duration:
		*f = scaleDuration(v.(int64), k.unit())
	case *CompressionType:
		*f = CompressionType(v.(string))
	case *TimestampType:
		*f = TimestampType(v.(string))
	case *CleanupPolicy:
		*f = cleanupPolicyOf(v.([]string))
	}
}

// scaleDuration multiplies and stops at the ends of the range, because Kafka's
// "for ever" is the largest 64 bit number of milliseconds.
func scaleDuration(n int64, unit time.Duration) time.Duration {
	if n > math.MaxInt64/int64(unit) {
		return math.MaxInt64
	}
	if n < math.MinInt64/int64(unit) {
		return math.MinInt64
	}
	return time.Duration(n) * unit
}

// Notation writes the bounds as Kafka's documentation does, for comparing the
// two.
func (w Want) Notation() string {
	s := ""
	switch {
	case w.Ranged && math.IsInf(w.Max, 1):
		s = "[" + number(w.Min) + ",...]"
	case w.Ranged:
		s = "[" + number(w.Min) + ",...," + number(w.Max) + "]"
	case len(w.OneOf) > 0:
		s = "[" + strings.Join(w.OneOf, ", ") + "]"
	case w.NotEmpty:
		s = "not empty"
	case w.Check != nil:
		s = "checked"
	}
	if w.Also != nil {
		s += " or " + number(*w.Also)
	}
	return s
}
