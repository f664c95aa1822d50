package tidy

import (
	"path"
	"strings"
)

// Arrow says what a package may know. Patterns are package directories; one
// that ends in /... is all below it too.
type Arrow struct {
	From   string   // which packages; the first row that matches counts
	Ours   []string // packages of this module that they may import
	Theirs []string // packages from outside, but the standard library's
	Why    string   // what would be lost
}

// everywhere may be imported by all: nouns, assertions and planted bugs.
func everywhere() []string { return []string{"internal/model", "internal/assert", "internal/mutant"} }

// tools are programs and tests around the product. Nothing of the product
// imports them.
func tools() []string {
	return []string{"cmd/...", "sim/...", "compat/...", "integration/...", "bench/..."}
}

// Import paths of what we stand on.
const (
	kmsg = "github.com/twmb/franz-go/pkg/kmsg"
	kerr = "github.com/twmb/franz-go/pkg/kerr"
	zap  = "go.uber.org/zap/..."
	sys  = "golang.org/x/sys/..."
)

// Arrows is the table. Tests may import what they like.
func Arrows() []Arrow {
	return []Arrow{
		{"internal/model", []string{}, []string{},
			"the nouns that all share know nothing but themselves"},
		{"internal/assert", []string{}, []string{},
			"an assertion may stand anywhere, so it can import nothing"},
		{"internal/mutant", []string{}, []string{},
			"a planted bug may stand anywhere, so this can import nothing"},
		{"internal/tidy", []string{}, []string{"golang.org/x/tools/..."},
			"the keeper of the rules depends on none of what it judges"},
		{"internal/lifecycle", []string{}, []string{},
			"goroutines are started below everything"},
		{"internal/vfs/...", []string{"internal/vfs"}, []string{sys},
			"the disk knows bytes and names, and nothing of what is in them"},
		{"internal/loop/...", []string{"internal/loop", "internal/lifecycle"}, []string{},
			"a loop runs any state machine and knows none"},
		{"internal/metrics/...", []string{"internal/lifecycle"}, []string{"github.com/prometheus/..."},
			"everybody counts, so the counters know nobody"},
		{"internal/config", []string{"protocol/compress"}, []string{},
			"a setting doesn't know who reads it"},
		{"internal/security/...", []string{"controller/metadata", "internal/config"}, []string{},
			"who you are and what you may is decided without a connection"},
		{"internal/quota/...", []string{"controller/metadata", "internal/config"}, []string{},
			"a quota is arithmetic on an image and a clock reading"},

		{"protocol", []string{"protocol/record"}, []string{kmsg, kerr},
			"bytes on the wire know neither disk nor socket nor clock"},
		{"protocol/internal/apidoc", []string{"protocol"}, []string{kmsg},
			"the list of APIs is written from the table alone"},
		{"protocol/compress", []string{}, []string{"github.com/klauspost/compress/...", "github.com/pierrec/lz4/..."},
			"a codec turns bytes into bytes"},
		{"protocol/record", []string{"protocol/compress"}, []string{kmsg, "github.com/klauspost/compress/..."},
			"a record batch is the same on disk and wire, so it knows neither"},
		{"protocol/server", []string{"internal/...", "protocol/..."}, []string{kmsg, kerr, zap, sys},
			"a connection carries requests and doesn't know what they mean"},
		{"protocol/transport", []string{"internal/...", "protocol/..."}, []string{kmsg, kerr, zap, sys},
			"a connection between brokers doesn't know what it carries"},

		{"log", []string{"internal/vfs", "protocol/record", "log/..."}, []string{},
			"a log on one disk knows no network, no replica and no caller"},
		{"log/epoch", []string{"protocol/record"}, []string{},
			"epochs are arithmetic; whoever has the file hands over the entries"},
		{"log/producer", []string{"protocol/record"}, []string{},
			"producer state is a function of batches, not of files"},
		{"log/compaction", []string{"protocol/record"}, []string{},
			"which segments to clean is chosen over numbers; copying is the host's"},
		{"log/scrub", []string{}, []string{},
			"which segment is verified next is chosen over names and times; reading is the log's"},
		{"log/checkpoint", []string{"internal/vfs", "log/epoch"}, []string{},
			"small files of the log directory, and nothing of what is done with them"},
		{"log/scan", []string{"internal/vfs", "protocol/record"}, []string{},
			"batches are found without knowing what they are looked for"},
		{"log/dump", []string{"internal/vfs", "protocol/record", "log/...", "controller/metadata"}, []string{kmsg},
			"a file is shown as it lies on the disk, without a running broker"},
		{"log/repair", []string{"internal/vfs", "protocol/record", "log/..."}, []string{},
			"a log is mended by what was found in it, without a running broker"},
		{"log/rescue", []string{"internal/vfs", "protocol/record", "log/..."}, []string{"github.com/twmb/franz-go/pkg/kbin"},
			"what another broker has left is taken over without knowing who will serve it"},
		{"log/salvage", []string{"internal/vfs", "protocol/record", "log/scan", "log/producer"}, []string{},
			"what is left of a log is found without believing anything beside it"},
		{"log/verify", []string{"internal/vfs", "protocol/record", "log/..."}, []string{},
			"a log is judged as it lies on the disk, without a running broker"},
		{"log/receipt", []string{"internal/vfs", "log"}, []string{},
			"what leaves a log is kept on the same disk, by nobody who knows why it left"},
		{"log/logtest", []string{"internal/vfs/...", "protocol/record", "log/..."}, []string{},
			"help for tests of the log needs no more than the log"},

		{"controller/metadata", []string{"protocol/record", "internal/config"}, []string{kmsg},
			"the image is what all agree on; it knows neither who decides nor who acts"},
		{"controller", []string{"controller/metadata", "internal/config"}, []string{kmsg, kerr},
			"cluster decisions are a function of records and commands: no raft, no log, no connection"},
		{"controller/quorum", []string{"internal/...", "log/...", "protocol/record", "protocol/transport", "controller", "controller/metadata"},
			[]string{kmsg, zap, "go.etcd.io/raft/...", "google.golang.org/protobuf/..."},
			"the quorum carries commands and records between disk, peers and the controller's loop"},

		{"partition", []string{"protocol/record", "controller/metadata", "log/epoch", "log/producer", "partition/purgatory"}, []string{kmsg},
			"replication rules see no file, no connection and no clock, so that every order of events can be tried"},
		{"partition/fetcher", []string{"protocol/record", "controller/metadata", "log/epoch", "log/producer", "partition"}, []string{kmsg},
			"a follower's rules see no file, no connection and no clock"},
		{"partition/purgatory", []string{}, []string{},
			"waiting is a matter of offsets and deadlines"},
		{"partition/host", []string{"partition/...", "log/...", "internal/...", "protocol/record", "controller/metadata"}, []string{kmsg, zap, sys},
			"the shell that runs partitions knows no coordinator, no controller and no server"},

		{"coordinator/...", []string{"coordinator/...", "controller/metadata", "protocol/record", "internal/config"}, []string{kmsg, kerr},
			"a coordinator's rules don't know that its records live in a partition"},

		{"broker/admin", []string{"internal/..."}, []string{zap, "github.com/prometheus/..."},
			"the page for operators sees what the broker publishes, not its insides"},
		{"broker/telemetry", []string{"internal/config", "protocol", "protocol/compress"}, []string{},
			"what clients are asked for is decided without connections, clocks and images"},
		{"broker/inspect", []string{"internal/...", "broker/admin", "broker/telemetry", "protocol", "protocol/server", "protocol/transport", "partition", "partition/host", "controller/..."}, []string{},
			"looking at a node needs what its parts publish, not how they are put together"},
		{"broker", []string{"internal/...", "protocol/...", "log/...", "controller/...", "partition/...", "coordinator/...", "broker/..."},
			[]string{kmsg, kerr, zap, "github.com/prometheus/..."},
			"a node is put together here and here alone; nothing above it is known"},

		{"tidemarktest", []string{"broker", "internal/lifecycle"}, []string{zap},
			"a cluster in a test is built as anybody outside this module would build it"},

		{"cmd/...", nil, nil, "commands may use anything"},
		{"sim/...", nil, nil, "the simulated world may use anything"},
		{"compat/...", nil, nil, "checks against clients and Kafka may use anything"},
		{"integration/...", nil, nil, "tests of processes may use anything"},
		{"bench/...", nil, nil, "measuring may use anything"},
	}
}

// CheckArrows compares the imports of product code with the table.
func CheckArrows(t *Tree) (out []Finding) {
	unknown := make(map[string]bool)
	for _, f := range t.Files {
		if f.Test || f.Dir == "" {
			continue
		}
		row, ok := arrowOf(f.Dir)
		if !ok {
			if !unknown[f.Dir] {
				unknown[f.Dir] = true
				out = append(out, t.find(f.AST.Package, "a package without a row may come to know everything",
					"package %s has no row in internal/tidy/arrows.go", f.Dir))
			}
			continue
		}
		for _, s := range f.AST.Imports {
			if what := row.forbids(f.Dir, strings.Trim(s.Path.Value, `"`)); what != "" {
				out = append(out, t.find(s.Pos(), row.Why, "%s imports %s: %s", f.Dir, s.Path.Value, what))
			}
		}
	}
	return out
}

func arrowOf(dir string) (Arrow, bool) {
	for _, a := range Arrows() {
		if in(dir, a.From) {
			return a, true
		}
	}
	return Arrow{}, false
}

// forbids says what is wrong with an import, or "".
func (a Arrow) forbids(dir, imported string) string {
	if imported == Module {
		return "the root is not a package"
	}
	if ours, ok := strings.CutPrefix(imported, Module+"/"); ok {
		switch {
		case in(ours, "cmd/...") && !in(dir, tools()...), in(ours, "sim/...", "compat/...", "integration/...", "bench/...") && !in(dir, tools()...):
			return "nothing of the product may know its tools"
		case a.Ours == nil, in(ours, everywhere()...), in(ours, a.Ours...):
			return ""
		}
		return "not among " + list(a.Ours)
	}
	if standard(imported) || a.Theirs == nil || in(imported, a.Theirs...) {
		return ""
	}
	return "not among " + list(a.Theirs)
}

func list(patterns []string) string {
	if len(patterns) == 0 {
		return "what it may import, which is nothing"
	}
	return strings.Join(patterns, ", ")
}

// standard reports whether a path is of the standard library: its first
// element has no dot.
func standard(imported string) bool {
	first, _, _ := strings.Cut(path.Clean(imported), "/")
	return !strings.Contains(first, ".")
}
