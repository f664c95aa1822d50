package tidy

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// Reasons of the rules about names and words.
const (
	whyLogName = "log is a package here; an instance is plog, mlog or l, a zap value is logger"
	whyWords   = "what is unfinished is finished, answered with a clear error, or listed as not supported"
	whyMutant  = "a mutant that is not in the list is run by no test, and one that is not in the code kills nothing"
	whyDoc     = "an exported name is a promise: say what it means, in which unit, who owns it"
	whyDocFile = "doc.go says what a package does and does not, and who calls it from which loop"
)

// eachDefinition calls fn for every name that a node declares.
func eachDefinition(root ast.Node, fn func(id *ast.Ident)) {
	fields := func(l *ast.FieldList) {
		if l == nil {
			return
		}
		for _, f := range l.List {
			for _, id := range f.Names {
				fn(id)
			}
		}
	}
	expr := func(e ast.Expr) {
		if id, ok := e.(*ast.Ident); ok {
			fn(id)
		}
	}
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			fn(n.Name)
			fields(n.Recv)
		case *ast.FuncType:
			fields(n.Params)
			fields(n.Results)
			fields(n.TypeParams)
		case *ast.StructType:
			fields(n.Fields)
		case *ast.InterfaceType:
			fields(n.Methods)
		case *ast.ValueSpec:
			for _, id := range n.Names {
				fn(id)
			}
		case *ast.TypeSpec:
			fn(n.Name)
			fields(n.TypeParams)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, e := range n.Lhs {
					expr(e)
				}
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				expr(n.Key)
				expr(n.Value)
			}
		case *ast.LabeledStmt:
			fn(n.Label)
		case *ast.ImportSpec:
			if n.Name != nil {
				fn(n.Name)
			}
		}
		return true
	})
}

// CheckLogName looks for anything named log.
func CheckLogName(t *Tree) (out []Finding) {
	for _, f := range t.Files {
		if f.Dir == "log" {
			continue
		}
		eachDefinition(f.AST, func(id *ast.Ident) {
			if id.Name == "log" {
				out = append(out, t.find(id.Pos(), whyLogName, "declares something named log"))
			}
		})
	}
	return out
}

// unfinished are the words for work that was put off.
func unfinished() *regexp.Regexp {
	return regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b|\bfor ` + `now([\s,;:)]|\.\s|\.?$)|\bnot ` + `implemented\b`)
}

// CheckWords looks for words of unfinished work in comments and in other text.
func CheckWords(t *Tree) (out []Finding) {
	words := unfinished()
	for _, f := range t.Files {
		for _, g := range f.AST.Comments {
			for _, c := range g.List {
				if w := words.FindString(c.Text); w != "" {
					out = append(out, t.find(c.Pos(), whyWords, "says %q", w))
				}
			}
		}
	}
	for p, text := range t.Other {
		for i, line := range strings.Split(string(text), "\n") {
			if w := words.FindString(line); w != "" {
				out = append(out, Finding{p + ":" + strconv.Itoa(i+1), "says " + strconv.Quote(w), whyWords})
			}
		}
	}
	return out
}

// CheckMutants compares the mutants in the code with the registered names.
func CheckMutants(t *Tree, registered []string) (out []Finding) {
	known := make(map[string]bool)
	for _, name := range registered {
		known[name] = false
	}
	for _, f := range t.Files {
		imports := f.imports()
		ast.Inspect(f.AST, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			pkg, fn := selected(imports, call.Fun)
			if pkg != Module+"/internal/mutant" || fn != "On" && fn != "Set" || f.Dir == "internal/mutant" {
				return true
			}
			lit, ok := call.Args[0].(*ast.BasicLit)
			if !ok {
				if !f.Test {
					out = append(out, t.find(call.Pos(), whyMutant, "mutant.%s of something other than a literal name", fn))
				}
				return true
			}
			name, _ := strconv.Unquote(lit.Value)
			if _, ok := known[name]; !ok {
				if fn == "On" || name != "" {
					out = append(out, t.find(call.Pos(), whyMutant, "mutant %q is not in mutant.Names", name))
				}
			} else if !f.Test && fn == "On" {
				known[name] = true
			}
			return true
		})
	}
	for _, name := range registered {
		if !known[name] {
			out = append(out, Finding{"internal/mutant/names.go", "mutant " + strconv.Quote(name) + " is nowhere in the code", whyMutant})
		}
	}
	return out
}
