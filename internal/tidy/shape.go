package tidy

import (
	"bytes"
	"go/ast"
	"go/token"
	"path"
)

// Bounds of files and functions, in lines.
const (
	FileLinesMax = 800
	FuncLinesMax = 100
)

// Reasons of the bounds.
const (
	whyLong     = "what is longer has more than one noun, or more than one job"
	whyNoWaiver = "the bound has no exceptions but flat tables: split it"
)

// CheckSizes looks for files and functions that are too long. Tests and
// generated files have no bound; neither has a function that is one switch or
// one literal.
func CheckSizes(t *Tree) (out []Finding) {
	for _, f := range t.Files {
		if f.Test || ast.IsGenerated(f.AST) {
			continue
		}
		if n := bytes.Count(f.Text, []byte("\n")); n > FileLinesMax {
			out = append(out, t.find(f.AST.Package, whyLong, "%d lines, may have %d", n, FileLinesMax))
		}
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || flat(fn.Body) {
				continue
			}
			n := t.Fset.Position(fn.End()).Line - t.Fset.Position(fn.Pos()).Line + 1
			if n > FuncLinesMax {
				out = append(out, t.find(fn.Pos(), whyNoWaiver, "function %s has %d lines, may have %d", fn.Name.Name, n, FuncLinesMax))
			}
		}
	}
	return out
}

// flat reports whether a body is one switch or one composite literal.
func flat(b *ast.BlockStmt) bool {
	if len(b.List) != 1 {
		return false
	}
	switch s := b.List[0].(type) {
	case *ast.SwitchStmt, *ast.TypeSwitchStmt:
		return true
	case *ast.ReturnStmt:
		if len(s.Results) == 0 {
			return false
		}
		e := s.Results[0]
		if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.AND {
			e = u.X
		}
		_, ok := e.(*ast.CompositeLit)
		return ok
	}
	return false
}

// CheckDocs looks for packages without doc.go and exported names without a
// comment.
func CheckDocs(t *Tree) (out []Finding) {
	type pkg struct {
		first  *File
		hasDoc bool
	}
	pkgs := make(map[string]*pkg)
	var order []string
	for _, f := range t.Files {
		if f.Test || f.Dir == "" {
			continue
		}
		p := pkgs[f.Dir]
		if p == nil {
			p = &pkg{first: f}
			pkgs[f.Dir] = p
			order = append(order, f.Dir)
		}
		if path.Base(f.Path) == "doc.go" && f.AST.Doc != nil {
			p.hasDoc = true
		}
		for _, d := range f.AST.Decls {
			out = append(out, undocumented(t, f, d)...)
		}
	}
	for _, dir := range order {
		if p := pkgs[dir]; !p.hasDoc {
			out = append(out, Finding{dir, "package has no doc.go with a package comment", whyDocFile})
		}
	}
	return out
}

func undocumented(t *Tree, f *File, d ast.Decl) (out []Finding) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
			out = append(out, t.find(d.Pos(), whyDoc, "%s has no comment", d.Name.Name))
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
					out = append(out, t.find(s.Pos(), whyDoc, "%s has no comment", s.Name.Name))
				}
			case *ast.ValueSpec:
				for _, id := range s.Names {
					if id.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
						out = append(out, t.find(id.Pos(), whyDoc, "%s has no comment", id.Name))
					}
				}
			}
		}
	}
	return out
}

// exportedReceiver reports whether a function has no receiver or one of an
// exported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}
