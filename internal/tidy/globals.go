package tidy

import (
	"go/ast"
	"go/token"
	"strings"
)

// CheckGlobals looks for package variables that can change. An error sentinel
// and a literal table may be one, if nothing assigns to it.
func CheckGlobals(t *Tree) (out []Finding) {
	assigned := assignments(t)
	for _, f := range t.Files {
		if f.Test || f.Dir == "internal/mutant" {
			continue
		}
		imports := f.imports()
		for _, d := range f.AST.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				for i, name := range v.Names {
					if name.Name == "_" || embedded(g, v) {
						continue
					}
					what := notFixed(imports, v, i)
					if at := assigned[f.Dir+"."+name.Name]; what == "" && at != token.NoPos {
						p := t.Fset.Position(at)
						what = "is assigned to in " + p.Filename
					}
					if what != "" {
						out = append(out, t.find(name.Pos(), whyGlobal, "package variable %s %s", name.Name, what))
					}
				}
			}
		}
	}
	return out
}

func embedded(g *ast.GenDecl, v *ast.ValueSpec) bool {
	for _, c := range []*ast.CommentGroup{g.Doc, v.Doc} {
		if c == nil {
			continue
		}
		for _, line := range c.List {
			if strings.HasPrefix(line.Text, "//go:embed ") {
				return true
			}
		}
	}
	return false
}

// notFixed says why the type or first value of a variable is not that of a
// constant, or "".
func notFixed(imports map[string]string, v *ast.ValueSpec, i int) string {
	if changes(imports, v.Type) {
		return "is of a type that exists to change"
	}
	if i >= len(v.Values) {
		if len(v.Values) > 0 {
			return "is the result of a call"
		}
		if v.Type != nil {
			if _, ok := v.Type.(*ast.MapType); ok {
				return "is an empty map"
			}
		}
		return ""
	}
	return notLiteral(imports, v.Values[i])
}

// changes reports whether a type is one of sync's or sync/atomic's, or a
// channel. A sync.Pool isn't meant: nobody can tell a full one from an empty one.
func changes(imports map[string]string, e ast.Expr) bool {
	found := false
	if e == nil {
		return false
	}
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ChanType:
			found = true
		case *ast.SelectorExpr:
			if pkg, name := selected(imports, n); pkg == "sync" && name != "Pool" || pkg == "sync/atomic" {
				found = true
			}
		}
		return !found
	})
	return found
}

// fixedCalls are functions whose result nobody can change, by package path.
func fixedCalls(pkg, name string) bool {
	switch pkg {
	case "errors":
		return name == "New"
	case "fmt":
		return name == "Errorf"
	case "regexp":
		return name == "MustCompile"
	case "hash/crc32":
		return name == "MakeTable"
	case "math":
		return true
	case "strings":
		return name == "NewReplacer"
	case "time":
		return name == "Unix" || name == "Date"
	}
	return false
}

// notLiteral says why a first value is not a constant's, or "".
func notLiteral(imports map[string]string, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.CompositeLit:
		if changes(imports, e.Type) {
			return "is of a type that exists to change"
		}
		return ""
	case *ast.BasicLit, *ast.Ident, *ast.SelectorExpr, *ast.BinaryExpr, *ast.FuncLit, *ast.IndexExpr, *ast.ParenExpr:
		return ""
	case *ast.UnaryExpr:
		if e.Op == token.AND {
			return notLiteral(imports, e.X)
		}
		return ""
	case *ast.CallExpr:
		if pkg, name := selected(imports, e.Fun); fixedCalls(pkg, name) {
			return ""
		}
		if ownCall(e) {
			return ""
		}
		return "is the result of a call"
	}
	return "is not a literal"
}

// ownCall reports whether a call is a conversion, such as []byte("x"), or of a
// function of the package itself: a table that is computed once.
func ownCall(e *ast.CallExpr) bool {
	switch fn := e.Fun.(type) {
	case *ast.ArrayType, *ast.ParenExpr:
		return len(e.Args) == 1
	case *ast.Ident:
		return fn.Name != "make" && fn.Name != "new"
	}
	return false
}

// assignments collects what product code assigns to, as "dir.Name": variables
// of the package itself that no function declares anew, and those of others.
func assignments(t *Tree) map[string]token.Pos {
	out := make(map[string]token.Pos)
	for _, f := range t.Files {
		if f.Test {
			continue
		}
		imports := f.imports()
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			local := declared(fn)
			note := func(e ast.Expr) {
				switch x := root(e, imports).(type) {
				case *ast.Ident:
					if !local[x.Name] {
						out[f.Dir+"."+x.Name] = e.Pos()
					}
				case *ast.SelectorExpr:
					pkg, name := selected(imports, x)
					if dir, ours := strings.CutPrefix(pkg, Module+"/"); ours {
						out[dir+"."+name] = e.Pos()
					}
				}
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					if n.Tok != token.DEFINE {
						for _, e := range n.Lhs {
							note(e)
						}
					}
				case *ast.IncDecStmt:
					note(n.X)
				}
				return true
			})
		}
	}
	return out
}

// root is the variable at the bottom of an assignable expression: x of x[i].f,
// or pkg.X.
func root(e ast.Expr, imports map[string]string) ast.Expr {
	for {
		switch x := e.(type) {
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.SelectorExpr:
			if pkg, _ := selected(imports, x); pkg != "" {
				return x
			}
			e = x.X
		default:
			return e
		}
	}
}

// declared is every name that a function declares anywhere in it.
func declared(fn *ast.FuncDecl) map[string]bool {
	names := make(map[string]bool)
	eachDefinition(fn, func(id *ast.Ident) { names[id.Name] = true })
	return names
}
