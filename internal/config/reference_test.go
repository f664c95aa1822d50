package config

import (
	"bytes"
	"flag"
	"go/ast"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/tidy"
)

//go:generate go test -run TestReferenceIsCurrent -update .

var update = flag.Bool("update", false, "write docs/CONFIG.md instead of comparing with it")

const (
	referencePath = "../../docs/CONFIG.md"

	referenceHead = `# Settings

Generated from the tables in package internal/config, and from who reads them, by ` + "`go generate ./internal/config`" + `.

A setting comes from a file in the form of Kafka's server.properties (` + "`--config`" + `), from the environment
(` + "`KAFKA_NUM_PARTITIONS=6`" + `: ` + "`_`" + ` stands for a dot, ` + "`__`" + ` for an underscore, ` + "`___`" + ` for a dash), or from
` + "`--set num.partitions=6`" + `; what comes later in this list wins. ` + "`tidemark config print`" + ` shows each value in force and where it
came from. Topics have settings of their own, set when they are created or altered later.

Every name that Apache Kafka 4.3 knows is accepted. The last table lists those that have no meaning here; a start says so
when one of them is set. An unknown name is told of and otherwise ignored.
`
)

func TestReferenceIsCurrent(t *testing.T) {
	tree, err := tidy.Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	use := usage{fields: make(map[string]bool)}
	use.read(tree)
	got := bytes.NewBufferString(referenceHead)
	if err := WriteReference(got, use.effect); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(referencePath, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Fatal("docs/CONFIG.md is stale, or a setting came into use or fell out of it: run go generate ./internal/config")
	}
	// Known answers, so that a scan that finds nothing, or everything, is noticed.
	for _, name := range []string{"node.id", "num.partitions", "message.max.bytes", "listeners", "max.connections", "replica.lag.time.max.ms", "log.cleaner.dedupe.buffer.size"} {
		if use.effect(LookupBroker(name)) != InEffect {
			t.Errorf("%s is in use, and the scan doesn't see it", name)
		}
	}
	use.fields = map[string]bool{"Server.RequestTimeout": true}
	for name, want := range map[string]Effect{
		"request.timeout.ms": InEffect, "controller.quorum.request.timeout.ms": Stored, "num.partitions": Stored,
		"message.max.bytes": Stored, "listeners": InEffect, "background.threads": NoEffect,
	} {
		if k := LookupBroker(name); use.effect(k) != want {
			t.Errorf("%s has effect %d, want %d", name, use.effect(k), want)
		}
	}
}

// usage is which fields of Broker and Topic are read anywhere outside this
// package. It goes by names: that of the field, and that of the group it is in.
type usage struct{ fields map[string]bool }

// effect says what a setting does, by who reads it.
func (u *usage) effect(k *Key) Effect {
	if k.Ignored != "" {
		return NoEffect
	}
	if k.Scope == ScopeTopic {
		var topic Topic
		return u.of(fieldAt(reflect.ValueOf(&topic).Elem(), "", k.topic(&topic)))
	}
	if k.Scope == ScopeGroup {
		var group Group
		return u.of(fieldAt(reflect.ValueOf(&group).Elem(), "", k.group(&group)))
	}
	if k.Scope == ScopeClientMetrics {
		var c ClientMetrics
		return u.of(fieldAt(reflect.ValueOf(&c).Elem(), "", k.client(&c)))
	}
	var broker Broker
	at := k.broker(&broker)
	if at != nil {
		return u.of(fieldAt(reflect.ValueOf(&broker).Elem(), "", at))
	}
	topics := k.defaultOf()
	for _, topic := range topics {
		if u.effect(topic) == InEffect {
			return InEffect
		}
	}
	if len(topics) > 0 {
		return Stored
	}
	return InEffect // read by this package, together with others
}

// of goes by the last group that the field is in.
func (u *usage) of(field string) Effect {
	parts := strings.Split(field, ".")
	if u.fields[strings.Join(parts[max(0, len(parts)-2):], ".")] {
		return InEffect
	}
	return Stored
}

// fieldAt returns the name of the field at an address, "Group.Field" in a group.
func fieldAt(v reflect.Value, prefix string, at any) string {
	for i := range v.NumField() {
		f, name := v.Field(i), prefix+v.Type().Field(i).Name
		if !v.Type().Field(i).IsExported() {
			continue
		}
		if f.Addr().Pointer() == reflect.ValueOf(at).Pointer() && f.Addr().Type() == reflect.TypeOf(at) {
			return name
		}
		if f.Kind() == reflect.Struct && f.Type().PkgPath() == v.Type().PkgPath() {
			if found := fieldAt(f, name+".", at); found != "" {
				return found
			}
		}
	}
	return ""
}

func (u *usage) read(tree *tidy.Tree) {
	handed := groupsHanded(tree)
	for _, f := range tree.Files {
		// What reads a setting only to check or to fill it in does nothing with it.
		if f.Test || f.Dir == "internal/config" {
			continue
		}
		aliases := groupAliases(f.AST)
		ast.Inspect(f.AST, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			u.fields[s.Sel.Name] = true
			for _, group := range handed[f.Dir] {
				u.fields[group+"."+s.Sel.Name] = true
			}
			if s.Sel.Name == "IsController" {
				u.fields["ControllerListeners"] = true // which it reads
			}
			switch x := s.X.(type) {
			case *ast.SelectorExpr:
				u.fields[x.Sel.Name+"."+s.Sel.Name] = true
			case *ast.Ident:
				if group := aliases[x.Name]; group != "" {
					u.fields[group+"."+s.Sel.Name] = true
				}
			}
			return true
		})
	}
}

// innerGroups are the groups within groups of Broker. Packages are handed them as a
// whole, and call them what they like.
func innerGroups() (names []string) {
	for _, outer := range reflect.VisibleFields(reflect.TypeFor[Broker]()) {
		if outer.Type.Kind() != reflect.Struct || outer.Type.PkgPath() != reflect.TypeFor[Broker]().PkgPath() {
			continue
		}
		for _, inner := range reflect.VisibleFields(outer.Type) {
			if inner.Type.Kind() == reflect.Struct && inner.Type.PkgPath() == outer.Type.PkgPath() {
				names = append(names, inner.Type.Name())
			}
		}
	}
	return names
}

// groupsHanded are the inner groups whose types, as in config.Cleaner, each
// directory's files name.
func groupsHanded(tree *tidy.Tree) map[string][]string {
	inner, handed := innerGroups(), map[string][]string{}
	for _, f := range tree.Files {
		if f.Test {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "config" && slices.Contains(inner, s.Sel.Name) {
				handed[f.Dir] = append(handed[f.Dir], s.Sel.Name)
			}
			return true
		})
	}
	return handed
}

// groupAliases finds variables that are made of a selection, as in
// s := &b.config.Server, and what is selected.
func groupAliases(f *ast.File) map[string]string {
	aliases := make(map[string]string)
	ast.Inspect(f, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || len(a.Lhs) != len(a.Rhs) {
			return true
		}
		for i := range a.Lhs {
			id, ok := a.Lhs[i].(*ast.Ident)
			if !ok {
				continue
			}
			e := a.Rhs[i]
			if u, ok := e.(*ast.UnaryExpr); ok {
				e = u.X
			}
			if s, ok := e.(*ast.SelectorExpr); ok {
				aliases[id.Name] = s.Sel.Name
			}
		}
		return true
	})
	return aliases
}

func TestReferenceHasEveryKey(t *testing.T) {
	var page strings.Builder
	if err := WriteReference(&page, func(k *Key) Effect {
		if k.Ignored != "" {
			return NoEffect
		}
		return InEffect
	}); err != nil {
		t.Fatal(err)
	}
	for _, k := range append(BrokerKeys(), TopicKeys()...) {
		if !k.Internal && !strings.Contains(page.String(), "| `"+k.Name+"` |") {
			t.Errorf("%s is missing", k.Name)
		}
	}
}
