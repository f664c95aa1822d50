package tidy

import (
	"go/ast"
	"go/token"
	"slices"
)

// pure are the packages that decide and do nothing: given the same input they
// give the same output. coordinator, security and quota join them when written.
func pure() []string {
	return []string{"internal/model", "protocol", "protocol/record", "protocol/compress", "internal/config", "log/epoch",
		"log/producer", "log/compaction", "log/scrub", "controller", "controller/metadata", "partition", "partition/purgatory",
		"partition/fetcher", "coordinator/...", "broker/telemetry", "internal/security/...", "internal/quota/..."}
}

// seamed are the packages that touch disk and time only through what they are
// given, so that the simulator can run them.
func seamed() []string {
	return []string{"log", "log/checkpoint", "log/receipt", "controller/quorum", "partition/host", "internal/loop"}
}

// Reasons of the bans.
const (
	whyLog      = "std log hides behind our package named log and writes past the logger: use zap, or the segment log"
	whySleep    = "a sleep is not synchronisation: wait for the thing itself, or use a deadline"
	whyInit     = "what runs before main can't be seen, ordered or tested: make it a literal table or a constructor"
	whyGlobal   = "a package variable that changes is shared by every broker of a process and of a simulation"
	whyPanic    = "a broken invariant goes through internal/assert, so that its partition can be quarantined; bad input is an error"
	whyGo       = "a goroutine needs a name and a place in the list of what runs: use lifecycle.Group"
	whyContext  = "a context comes from the caller, or nothing can be stopped"
	whyPure     = "a package that decides is a function of its input, so that the simulator can repeat it"
	whySeam     = "this package runs in the simulator: time and disk come through its seam (model.Now, vfs.FS)"
	whyMapOrder = "the order of a map differs from run to run: sort the keys, or say // order-free and why"
)

// clockFuncs are what reads or waits for the operating system's clock.
func clockFuncs() []string {
	return []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Sleep"}
}

// CheckBans looks for what is banned where.
func CheckBans(t *Tree) (out []Finding) {
	for _, f := range t.Files {
		b := &bans{t: t, f: f, imports: f.imports()}
		b.checkImports()
		ast.Inspect(f.AST, func(n ast.Node) bool {
			b.node(n)
			return true
		})
		out = append(out, b.out...)
	}
	return out
}

// bans is the walk over one file.
type bans struct {
	t       *Tree
	f       *File
	imports map[string]string
	out     []Finding
}

func (b *bans) found(pos token.Pos, why, format string, args ...any) {
	b.out = append(b.out, b.t.find(pos, why, format, args...))
}

func (b *bans) checkImports() {
	for _, s := range b.f.AST.Imports {
		switch p := s.Path.Value; p {
		case `"log"`, `"log/slog"`:
			b.found(s.Pos(), whyLog, "imports %s", p)
		case `"os"`, `"net"`, `"sync"`, `"sync/atomic"`, `"crypto/rand"`, `"os/exec"`, `"net/http"`, `"math/rand"`:
			if b.isPure() && !(p == `"sync"` && b.f.Dir == "protocol/compress") {
				b.found(s.Pos(), whyPure, "imports %s", p)
			}
		}
	}
}

func (b *bans) isPure() bool { return !b.f.Test && in(b.f.Dir, pure()...) }

func (b *bans) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		b.selector(n)
	case *ast.CallExpr:
		if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "panic" && !b.f.Test && b.f.Dir != "internal/assert" && b.f.Dir != "sim" { // the simulator unwinds dying processes
			b.found(n.Pos(), whyPanic, "calls panic")
		}
	case *ast.GoStmt:
		if !b.f.Test && b.f.Dir != "internal/lifecycle" {
			b.found(n.Pos(), whyGo, "starts a goroutine")
		}
	case *ast.FuncDecl:
		if n.Name.Name == "init" && n.Recv == nil && !b.f.Test {
			b.found(n.Pos(), whyInit, "has an init function")
		}
	}
	if b.isPure() {
		b.pureNode(n)
	}
}

// selector looks at pkg.Name.
func (b *bans) selector(n *ast.SelectorExpr) {
	pkg, name := selected(b.imports, n)
	switch {
	case pkg == "time" && name == "Sleep":
		if !b.maySleep() {
			b.found(n.Pos(), whySleep, "calls time.Sleep")
		}
	case pkg == "context" && (name == "Background" || name == "TO"+"DO"):
		if !b.f.Test && !in(b.f.Dir, tools()...) {
			b.found(n.Pos(), whyContext, "calls context.%s", name)
		}
	case pkg == "time" && slices.Contains(clockFuncs(), name) && !b.f.Test:
		if in(b.f.Dir, pure()...) {
			b.found(n.Pos(), whyPure, "calls time.%s", name)
		} else if in(b.f.Dir, seamed()...) {
			b.found(n.Pos(), whySeam, "calls time.%s", name)
		}
	case pkg == "os" && !b.f.Test && in(b.f.Dir, seamed()...) && !constantOfOS(name) && !realSide(b.f.Path):
		b.found(n.Pos(), whySeam, "uses os.%s", name)
	}
}

// maySleep reports whether the file waits for processes that it can't ask: a
// tool, or a test of several processes. In a file of tests in virtual time
// (testing/synctest) a sleep moves the clock, and takes none.
func (b *bans) maySleep() bool {
	if b.f.Test {
		return in(b.f.Dir, "integration/...", "compat/...") || b.imports["synctest"] == "testing/synctest"
	}
	return in(b.f.Dir, tools()...)
}

// realSide are the files of seamed packages that are what a seam is filled with
// in production.
func realSide(path string) bool {
	switch path {
	case "partition/host/machine_linux.go": // the kernel's boot id and mounts
		return true
	}
	return false
}

// constantOfOS reports whether a name of package os is a flag, a type or an
// error: what vfs.FS speaks in.
func constantOfOS(name string) bool {
	switch name {
	case "FileMode", "File", "PathError", "LinkError", "SyscallError", "O_RDONLY", "O_WRONLY", "O_RDWR", "O_CREATE", "O_EXCL", "O_TRUNC":
		return true
	}
	return len(name) > 3 && name[:3] == "Err"
}

// pureNode looks for what lets another goroutine in.
func (b *bans) pureNode(n ast.Node) {
	switch n := n.(type) {
	case *ast.ChanType:
		b.found(n.Pos(), whyPure, "has a channel")
	case *ast.SendStmt:
		b.found(n.Pos(), whyPure, "sends on a channel")
	case *ast.SelectStmt:
		b.found(n.Pos(), whyPure, "has a select")
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			b.found(n.Pos(), whyPure, "receives from a channel")
		}
	}
}
