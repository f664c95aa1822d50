package sim

import (
	"maps"
	"slices"
)

// sortedKeys returns the keys of a map, sorted.
func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
