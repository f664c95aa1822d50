package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Module is the path of the module that the rules are for.
const Module = "github.com/tidemark/tidemark"

// File is one Go source file.
type File struct {
	Path string // from the module's root, with slashes
	Dir  string // its package, "" for the root
	Test bool   // a _test.go file
	Text []byte
	AST  *ast.File
}

// Tree is the source of the module.
type Tree struct {
	Fset  *token.FileSet
	Files []*File           // Go, in the order of their paths
	Other map[string][]byte // other text files by path, for words that have no place
}

// Finding is one breach of a rule.
type Finding struct {
	Where  string // file:line, or a path
	What   string
	Reason string
}

// String renders the finding in one line.
func (f Finding) String() string { return f.Where + ": " + f.What + "\n\twhy: " + f.Reason }

// Load reads the tree below root: every directory but testdata, hidden ones and
// those that git is told to ignore.
func Load(root string) (*Tree, error) {
	sources := make(map[string][]byte)
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || name == "tidemark-data" || name == "tidemark-dev") {
				return filepath.SkipDir
			}
			// Another module can't import ours, and has its own ways.
			if _, err := os.Stat(filepath.Join(p, "go.mod")); p != root && err == nil {
				return filepath.SkipDir
			}
			return nil
		}
		if !isText(name) {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		sources[filepath.ToSlash(rel)] = text
		return nil
	})
	if err != nil {
		return nil, err
	}
	return Parse(sources)
}

func isText(name string) bool {
	switch path.Ext(name) {
	case ".go", ".md", ".sh", ".yml", ".yaml", ".java":
		return true
	}
	return false
}

// Parse makes a tree of sources by path.
func Parse(sources map[string][]byte) (*Tree, error) {
	t := &Tree{Fset: token.NewFileSet(), Other: make(map[string][]byte)}
	paths := make([]string, 0, len(sources))
	for p := range sources {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		if path.Ext(p) != ".go" {
			t.Other[p] = sources[p]
			continue
		}
		f, err := parser.ParseFile(t.Fset, p, sources[p], parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		t.Files = append(t.Files, &File{
			Path: p,
			Dir:  strings.TrimSuffix(path.Dir(p), "."),
			Test: strings.HasSuffix(p, "_test.go"),
			Text: sources[p],
			AST:  f,
		})
	}
	return t, nil
}

// find makes a Finding at a position.
func (t *Tree) find(pos token.Pos, reason, format string, args ...any) Finding {
	p := t.Fset.Position(pos)
	return Finding{Where: fmt.Sprintf("%s:%d", p.Filename, p.Line), What: fmt.Sprintf(format, args...), Reason: reason}
}

// imports returns a file's imports by the name that it uses for each.
func (f *File) imports() map[string]string {
	m := make(map[string]string)
	for _, s := range f.AST.Imports {
		p := strings.Trim(s.Path.Value, `"`)
		name := path.Base(p)
		if s.Name != nil {
			name = s.Name.Name
		}
		m[name] = p
	}
	return m
}

// selected returns the package path and the name of a reference to something
// exported by a package, such as "time" and "Sleep", or nothing.
func selected(imports map[string]string, e ast.Expr) (pkg, name string) {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	return imports[x.Name], s.Sel.Name
}

// in reports whether a package is one of the patterns: itself, or below one
// that ends in "/...".
func in(dir string, patterns ...string) bool {
	for _, p := range patterns {
		if base, ok := strings.CutSuffix(p, "/..."); ok {
			if dir == base || strings.HasPrefix(dir, base+"/") {
				return true
			}
		} else if dir == p {
			return true
		}
	}
	return false
}
