package tidy

import (
	"go/ast"
	"go/types"
	"path"
	"strings"
)

// CheckMapOrder looks in pure packages for ranges over maps that are not marked
// as free of order.
func CheckMapOrder(t *Tree) (out []Finding) {
	c := newChecker(t)
	for _, dir := range c.order {
		if !in(dir, pure()...) {
			continue
		}
		info := c.check(dir)
		for _, f := range c.files[dir] {
			free := orderFree(t, f)
			imports := f.imports()
			ast.Inspect(f.AST, func(n ast.Node) bool {
				r, ok := n.(*ast.RangeStmt)
				if !ok || !overMap(info, imports, r.X) {
					return true
				}
				if line := t.Fset.Position(r.Pos()).Line; !free[line] && !free[line-1] {
					out = append(out, t.find(r.Pos(), whyMapOrder, "ranges over a map"))
				}
				return true
			})
		}
	}
	return out
}

// orderFree is the lines of a file that have the mark.
func orderFree(t *Tree, f *File) map[int]bool {
	lines := make(map[int]bool)
	for _, g := range f.AST.Comments {
		for _, c := range g.List {
			if strings.Contains(c.Text, "order-free") {
				for l := t.Fset.Position(c.Pos()).Line; l <= t.Fset.Position(g.End()).Line; l++ {
					lines[l] = true
				}
			}
		}
	}
	return lines
}

func overMap(info *types.Info, imports map[string]string, e ast.Expr) bool {
	if call, ok := e.(*ast.CallExpr); ok {
		pkg, name := selected(imports, call.Fun)
		return pkg == "maps" && (name == "Keys" || name == "Values" || name == "All")
	}
	typ := info.TypeOf(e)
	if typ == nil {
		return false
	}
	_, ok := typ.Underlying().(*types.Map)
	return ok
}

// checker works out types of the module's packages. Others are empty to it:
// what comes from them has no type, and is no map of ours.
type checker struct {
	t     *Tree
	files map[string][]*File // product files by package
	order []string
	infos map[string]*types.Info
	pkgs  map[string]*types.Package
}

func newChecker(t *Tree) *checker {
	c := &checker{t: t, files: make(map[string][]*File), infos: make(map[string]*types.Info), pkgs: make(map[string]*types.Package)}
	for _, f := range t.Files {
		if f.Test {
			continue
		}
		if c.files[f.Dir] == nil {
			c.order = append(c.order, f.Dir)
		}
		c.files[f.Dir] = append(c.files[f.Dir], f)
	}
	return c
}

// Import returns a package of the module with its types, any other without.
func (c *checker) Import(p string) (*types.Package, error) {
	if pkg := c.pkgs[p]; pkg != nil {
		return pkg, nil
	}
	if dir, ours := strings.CutPrefix(p, Module+"/"); ours && c.files[dir] != nil {
		c.check(dir)
		return c.pkgs[p], nil
	}
	pkg := types.NewPackage(p, path.Base(p))
	pkg.MarkComplete()
	c.pkgs[p] = pkg
	return pkg, nil
}

func (c *checker) check(dir string) *types.Info {
	if info := c.infos[dir]; info != nil {
		return info
	}
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Defs: make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object)}
	c.infos[dir] = info
	var asts []*ast.File
	for _, f := range c.files[dir] {
		asts = append(asts, f.AST)
	}
	conf := types.Config{Importer: c, Error: func(error) {}, FakeImportC: true, DisableUnusedImportCheck: true}
	// Errors are expected: of names from outside, and of files for other tags.
	pkg, _ := conf.Check(Module+"/"+dir, c.t.Fset, asts, info)
	c.pkgs[Module+"/"+dir] = pkg
	return info
}
