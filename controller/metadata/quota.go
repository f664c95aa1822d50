package metadata

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The kinds of who a client quota is for, by the names that the protocol uses.
// Source: KIP-546.
const (
	QuotaUser     = "user"
	QuotaClientID = "client-id"
	QuotaIP       = "ip"
)

// QuotaEntity is whom a client quota is for: a user, a client id, both, or an
// address. It is sorted by kind, each kind once.
type QuotaEntity []QuotaPart

// QuotaPart is one part of a QuotaEntity. A nil Name stands for all that have no
// quota of their own.
type QuotaPart struct {
	Kind string
	Name *string
}

// Key is the entity as the name of a QuotaResource: kind="name" or kind=default,
// with commas between.
func (q QuotaEntity) Key() string {
	q = slices.SortedFunc(slices.Values(q), func(a, b QuotaPart) int { return strings.Compare(a.Kind, b.Kind) })
	parts := make([]string, len(q))
	for i, p := range q {
		parts[i] = p.Kind + "=default"
		if p.Name != nil {
			parts[i] = p.Kind + "=" + strconv.Quote(*p.Name)
		}
	}
	return strings.Join(parts, ",")
}

// ParseQuotaEntity is the inverse of Key.
func ParseQuotaEntity(key string) (QuotaEntity, error) {
	var q QuotaEntity
	for rest := key; ; {
		kind, value, found := strings.Cut(rest, "=")
		if !found || kind == "" {
			return nil, fmt.Errorf("quota entity %q: no kind", key)
		}
		part := QuotaPart{Kind: kind}
		if after, is := strings.CutPrefix(value, "default"); is {
			rest = after
		} else {
			quoted, err := strconv.QuotedPrefix(value)
			if err != nil {
				return nil, fmt.Errorf("quota entity %q: %w", key, err)
			}
			name, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, fmt.Errorf("quota entity %q: %w", key, err)
			}
			part.Name, rest = &name, value[len(quoted):]
		}
		q = append(q, part)
		if rest == "" {
			return q, nil
		}
		if rest[0] != ',' {
			return nil, fmt.Errorf("quota entity %q: %q stands behind a name", key, rest)
		}
		rest = rest[1:]
	}
}
