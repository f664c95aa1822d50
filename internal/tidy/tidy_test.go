package tidy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/tidy"
)

// src makes a source file of a package clause and some text.
func src(pkg, text string) string { return "package " + pkg + "\n" + text }

// in is a small tree, and out the part of each finding that must be there, in
// order. A rule that finds more, or less, fails.
type bad struct {
	name  string
	files map[string]string
	out   []string
}

// one is a tree of one file.
func one(path, text string) map[string]string { return map[string]string{path: text} }

func run(t *testing.T, check func(*tidy.Tree) []tidy.Finding, cases []bad) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			sources := make(map[string][]byte)
			for p, text := range c.files {
				sources[p] = []byte(text)
			}
			tree, err := tidy.Parse(sources)
			if err != nil {
				t.Fatal(err)
			}
			found := check(tree)
			for i, f := range found {
				if f.Reason == "" || f.Where == "" {
					t.Errorf("no place or no reason: %+v", f)
				}
				if !strings.Contains(f.String(), f.Reason) {
					t.Errorf("the reason is not printed: %s", f)
				}
				if i < len(c.out) && !strings.Contains(f.Where+": "+f.What, c.out[i]) {
					t.Errorf("finding %d is %q, want %q", i, f.Where+": "+f.What, c.out[i])
				}
			}
			if len(found) != len(c.out) {
				t.Errorf("%d findings, want %d: %v", len(found), len(c.out), found)
			}
		})
	}
}

func TestArrows(t *testing.T) {
	imports := func(pkg string, paths ...string) string {
		var b strings.Builder
		for _, p := range paths {
			if strings.HasPrefix(p, "./") {
				p = tidy.Module + p[1:]
			}
			fmt.Fprintf(&b, "import _ %q\n", p)
		}
		return src(pkg, b.String())
	}
	run(t, tidy.CheckArrows, []bad{
		{"what the table allows", map[string]string{
			"log/a.go":             imports("log", "./internal/vfs", "./protocol/record", "./log/epoch", "./internal/model", "./internal/assert", "os"),
			"log/epoch/a.go":       imports("epoch", "./internal/model"),
			"cmd/tidemark/main.go": imports("main", "./broker", "./sim", "github.com/spf13/cobra"),
			"broker/broker.go":     imports("broker", "./partition/host", "./protocol/server", "go.uber.org/zap"),
		}, nil},
		{"log knows no network", one("log/a.go", imports("log", "./protocol/server", "github.com/twmb/franz-go/pkg/kmsg")),
			[]string{"log/a.go:2: log imports \"github.com/tidemark/tidemark/protocol/server\"", "franz-go/pkg/kmsg"}},
		{"epochs know no file", one("log/epoch/a.go", imports("epoch", "./internal/vfs")), []string{"internal/vfs"}},
		{"the wire knows no disk", one("protocol/a.go", imports("protocol", "./log")), []string{"not among protocol/record"}},
		{"rules know no host", one("partition/a.go", imports("partition", "./partition/host", "./log")), []string{"partition/host", "/log"}},
		{"controller knows no raft", one("controller/a.go", imports("controller", "go.etcd.io/raft/v3")), []string{"raft"}},
		{"nobody imports cmd", one("broker/a.go", imports("broker", "./cmd/tidemark")), []string{"nothing of the product may know its tools"}},
		{"nobody imports sim", one("broker/a.go", imports("broker", "./sim")), []string{"nothing of the product may know its tools"}},
		{"tools may know tools", one("bench/compare/a.go", imports("main", "./cmd/tidemark", "./compat/kafka")), nil},
		{"tests may import anything", one("log/a_test.go", imports("log", "./broker", "github.com/twmb/franz-go/pkg/kgo")), nil},
		{"a new package needs a row, once", map[string]string{
			"novel/a.go": imports("novel", "./log"), "novel/b.go": imports("novel", "./broker")},
			[]string{"package novel has no row"}},
	})
}

func TestBans(t *testing.T) {
	run(t, tidy.CheckBans, []bad{
		{"std log, also in tests", map[string]string{
			"broker/a.go":      src("broker", `import "log"`),
			"broker/a_test.go": src("broker", `import "log/slog"`),
		}, []string{`broker/a.go:2: imports "log"`, `imports "log/slog"`}},
		{"sleep", map[string]string{
			"broker/a.go":           src("broker", "import \"time\"\nfunc f() { time.Sleep(1) }"),
			"broker/a_test.go":      src("broker", "import \"time\"\nfunc f() { time.Sleep(1) }"),
			"broker/b.go":           src("broker", "import clock \"time\"\nfunc f() { clock.Sleep(1) }"),
			"cmd/x/a.go":            src("main", "import \"time\"\nfunc f() { time.Sleep(1) }"),
			"cmd/x/a_test.go":       src("main", "import \"time\"\nfunc f() { time.Sleep(1) }"),
			"broker/c_test.go":      src("broker", "import (\"time\"; \"testing/synctest\")\nfunc f() { time.Sleep(1); synctest.Wait() }"),
			"integration/a_test.go": src("integration", "import \"time\"\nfunc f() { time.Sleep(1) }"),
			"compat/x/a_test.go":    src("compat", "import \"time\"\nfunc f() { time.Sleep(1) }"),
		}, []string{"broker/a.go:3: calls time.Sleep", "broker/a_test.go:3", "broker/b.go:3", "cmd/x/a_test.go:3"}},
		{"init", one("broker/a.go", src("broker", "func init() {}\ntype t int\nfunc (t) init() {}")), []string{"a.go:2: has an init"}},
		{"panic", map[string]string{
			"broker/a.go":          src("broker", "func f() { panic(1) }"),
			"broker/a_test.go":     src("broker", "func f() { panic(1) }"),
			"internal/assert/a.go": src("assert", "func f() { panic(1) }"),
		}, []string{"broker/a.go:2: calls panic"}},
		{"goroutine", map[string]string{
			"broker/a.go":             src("broker", "func f() { go f() }"),
			"broker/a_test.go":        src("broker", "func f() { go f() }"),
			"internal/lifecycle/a.go": src("lifecycle", "func f() { go f() }"),
		}, []string{"broker/a.go:2: starts a goroutine"}},
		{"context", map[string]string{
			"broker/a.go":      src("broker", "import \"context\"\nvar x = context.Background()"),
			"cmd/x/a.go":       src("main", "import \"context\"\nvar x = context.Background()"),
			"broker/a_test.go": src("broker", "import \"context\"\nvar x = context.Background()"),
		}, []string{"broker/a.go:3: calls context.Background"}},
		{"a pure package", one("partition/a.go", src("partition", `import ("sync"; "time"; "os"; "net"; "sync/atomic"; "crypto/rand"; "math/rand/v2")
var a sync.Mutex
var b = time.Now()
func f(c chan int) {
	c <- 1
	<-c
	select {}
}
var d = time.Second`)),
			[]string{`"sync"`, `"os"`, `"net"`, `"sync/atomic"`, `"crypto/rand"`, "calls time.Now", "has a channel", "sends", "receives", "select"}},
		{"its tests", one("partition/a_test.go", src("partition", "import \"sync\"\nvar a chan sync.Mutex")), nil},
		{"pools of coders", one("protocol/compress/a.go", src("compress", "import \"sync\"\nvar p sync.Pool")), nil},
		{"a package with a seam", one("log/a.go", src("log", `import ("os"; "time")
const flags = os.O_RDWR | os.O_CREATE
var missing = os.ErrNotExist
func f() { os.Remove("x"); _ = time.Now() }
type d = time.Duration`)), []string{"uses os.Remove", "calls time.Now"}},
		{"a shell", one("internal/vfs/osfs/a.go", src("osfs", "import (\"os\"; \"time\")\nfunc f() { os.Remove(\"x\"); _ = time.Now() }")), nil},
	})
}

func TestGlobals(t *testing.T) {
	run(t, tidy.CheckGlobals, []bad{
		{"what may be one", one("broker/a.go", src("broker", `import ("errors"; "fmt"; "regexp"; "hash/crc32"; "sync"; "time"; "io")
var ErrX = errors.New("x")
var errY = fmt.Errorf("y: %w", ErrX)
var table = map[string]int{"a": 1}
var list = [...]string{"a"}
var pattern = regexp.MustCompile("x")
var castagnoli = crc32.MakeTable(1)
var zero [16]byte
var pool = sync.Pool{New: func() any { return 1 }}
var bytes = []byte("x")
var powers = compute()
var old = time.Unix(1, 0)
var _ io.Reader = (*t)(nil)
type t struct{}
func (*t) Read([]byte) (int, error) { table := 1; table = 2; _ = table; return 0, nil }
func compute() [4]int { return [4]int{} }`)), nil},
		{"what may not", one("broker/a.go", src("broker", `import ("sync"; "sync/atomic"; "os")
var mu sync.Mutex
var n atomic.Int64
var once = sync.Once{}
var c = make(chan int)
var m = make(map[string]int)
var e map[string]int
var host, _ = os.Hostname()`)),
			[]string{"mu is of a type", "n is of a type", "once is of a type", "c is the result", "m is the result", "e is an empty map", "host is the result"}},
		{"assigned to", map[string]string{
			"broker/a.go": src("broker", "var a = 1\nvar b = []int{1}\nvar C = 1\nvar d = 1\nfunc f() { a = 2; b[0]++; d := 1; d = 2; _ = d }"),
			"cmd/x/a.go":  src("main", "import \""+tidy.Module+"/broker\"\nfunc f() { broker.C = 1 }"),
		}, []string{"a is assigned to in broker/a.go", "b is assigned to", "C is assigned to in cmd/x/a.go"}},
		{"by a test", map[string]string{
			"broker/a.go":      src("broker", "var a = 1"),
			"broker/a_test.go": src("broker", "var x int\nfunc f() { a = 2; x = 1 }"),
		}, nil},
	})
}

func TestMapOrder(t *testing.T) {
	run(t, tidy.CheckMapOrder, []bad{
		{"ranges", map[string]string{
			"partition/a.go": src("partition", `import ("maps"; "slices"; "`+tidy.Module+`/controller/metadata")
type set map[string]int
type s struct { m set; i *metadata.Image }
func f(x *s, l []int, g map[int]int) {
	for range x.m {}
	for range x.i.Topics {}
	for range l {}
	for range 3 {}
	for k := range g { _ = k } // order-free: nothing comes of it
	// order-free: as above
	for k := range g { _ = k }
	for range maps.Keys(g) {}
	for range slices.Sorted(maps.Keys(g)) {}
	for _, v := range unknown() { _ = v }
}`),
			"controller/metadata/a.go": src("metadata", "type Image struct { Topics map[string]int }"),
			"partition/host/a.go":      src("host", "func f(m map[int]int) { for range m {} }"),
		}, []string{"partition/a.go:6", "partition/a.go:7", "partition/a.go:13"}},
		{"files for other tags", map[string]string{
			"partition/on.go":  "//go:build x\n\n" + src("partition", "const on = true"),
			"partition/off.go": "//go:build !x\n\n" + src("partition", "const on = false\nfunc f(m map[int]int) { for range m {} }"),
		}, []string{"partition/off.go:5"}},
	})
}

func TestSizes(t *testing.T) {
	lines := strings.Repeat("\t_ = 1\n", 99)
	cases := strings.Repeat("\tcase 1:\n", 120)
	run(t, tidy.CheckSizes, []bad{
		{"functions", one("broker/a.go", src("broker",
			"func ok() {\n"+lines[:len(lines)-7]+"}\nfunc long() {\n"+lines+"}\nfunc flat() {\n\tswitch {\n"+cases+"\t}\n}\n"+
				"func table() []int {\n\treturn []int{\n"+strings.Repeat("\t\t1,\n", 120)+"\t}\n}\n"+
				"func almost() {\n\t_ = 1\n\tswitch {\n"+cases+"\t}\n}\n")),
			[]string{"function long has 101 lines", "function almost has 125 lines"}},
		{"files", map[string]string{
			"broker/a.go":      src("broker", strings.Repeat("\n", 799)),
			"broker/b.go":      src("broker", strings.Repeat("\n", 800)),
			"broker/b_test.go": src("broker", strings.Repeat("\n", 900)),
			"broker/c.go":      "// Code generated by x. DO NOT EDIT.\n\n" + src("broker", strings.Repeat("\n", 900)),
		}, []string{"broker/b.go:1: 801 lines"}},
	})
}

func TestDocs(t *testing.T) {
	run(t, tidy.CheckDocs, []bad{
		{"doc.go", map[string]string{
			"broker/doc.go":    "// Package broker is.\npackage broker",
			"log/a.go":         "// Package log is.\npackage log",
			"protocol/doc.go":  "package protocol",
			"compat/a_test.go": "package compat",
		}, []string{"log: package has no doc.go", "protocol: package has no doc.go"}},
		{"names", map[string]string{
			"broker/doc.go": "// Package broker is.\npackage broker",
			"broker/a.go": src("broker", `
type T struct{ F int }
func F() {}
func (*T) M() {}
func (T) m() {}
type u int
func (u) Len() int { return 0 }
const (
	A = 1
	B = 2 // said
)
// All of them.
const (
	C = 1
	D = 2
)
var E, e = 1, 2
type G[K any] struct{}
func (G[K]) M() {}
// H is said.
func H() {}`),
			"broker/a_test.go": src("broker", "func TestX() {}"),
		}, []string{"T has no comment", "F has no comment", "M has no comment", "A has no comment", "E has no comment", "G has no comment", "M has no comment"}},
	})
}

func TestLogName(t *testing.T) {
	run(t, tidy.CheckLogName, []bad{
		{"everywhere but in log", map[string]string{
			"log/a.go": src("log", "var log int"),
			"broker/a.go": src("broker", `import log "x"
var log int
type s struct{ log int }
type i interface{ log() }
func f(log int) (r int) {
	log := 1
	for log := range 3 { _ = log }
	plog, mlog := 1, 2
	return plog + mlog + log
}
func (log s) g() {}`),
			"broker/a_test.go": src("broker", "func f() { var log int; _ = log }"),
		}, []string{"a.go:2", "a.go:3", "a.go:4", "a.go:5", "a.go:6", "a.go:7", "a.go:8", "a.go:12", "a_test.go:2"}},
	})
}

func TestWords(t *testing.T) {
	do, me, now, impl := "TO"+"DO", "FIX"+"ME", "for "+"now", "not "+"implemented"
	run(t, tidy.CheckWords, []bad{
		{"comments and text", map[string]string{
			"broker/a.go":      src("broker", "// "+do+": later\n/* "+me+" */\n// wait for now.Mono\nvar x = \""+do+"\" // a "+do+"L\nfunc "+do+"() {}"),
			"broker/a_test.go": src("broker", "// good "+now),
			"README.md":        "one\nthis is " + impl + "\n",
		}, []string{"broker/a.go:2", "broker/a.go:3", "broker/a_test.go:2", "README.md:2"}},
	})
}

func TestMutantNames(t *testing.T) {
	on := func(args string) string {
		return src("log", "import \""+tidy.Module+"/internal/mutant\"\nvar x = mutant."+args)
	}
	check := func(t *tidy.Tree) []tidy.Finding { return tidy.CheckMutants(t, []string{"a", "b"}) }
	run(t, check, []bad{
		{"registered and used", map[string]string{
			"log/a.go": on(`On("a")`), "log/b.go": on(`On("b")`), "log/a_test.go": on(`Set("")`), "log/b_test.go": on(`Set(name)`),
		}, nil},
		{"not registered", map[string]string{
			"log/a.go": on(`On("a")`), "log/b.go": on(`On("b")`), "log/c.go": on(`On("c")`), "log/c_test.go": on(`Set("d")`),
		}, []string{`mutant "c" is not in`, `mutant "d" is not in`}},
		{"not used", map[string]string{
			"log/a.go": on(`On("a")`), "log/b_test.go": on(`On("b")`),
		}, []string{`mutant "b" is nowhere`}},
		{"not a literal", map[string]string{
			"log/a.go": on(`On("a")`), "log/b.go": on(`On("b")`), "log/c.go": on(`On(name)`),
		}, []string{"other than a literal"}},
	})
}
