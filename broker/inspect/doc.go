// Package inspect looks at the parts of a running node and tells what they are
// doing: as metrics, and as the checks behind the health and readiness pages. It
// only reads what the parts publish anyway and enters no partition's loop, so
// that looking at a node that is in trouble is safe.
package inspect
