// Package admin serves the pages that operators and their tools look at: /metrics
// for Prometheus, /healthz for whoever restarts processes, /readyz for whoever
// sends clients. It stands on a listener of its own, from before a node loads its
// disk until after it has stopped, and knows the node through Introspector alone.
package admin
