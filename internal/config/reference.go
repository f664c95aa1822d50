package config

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Effect says what a setting does in this version.
type Effect uint8

// The effects.
const (
	// InEffect: the setting changes what the node does.
	InEffect Effect = iota + 1
	// Stored: it is checked, kept and shown, and nothing acts on it yet.
	Stored
	// NoEffect: it is accepted, and has no meaning here.
	NoEffect
)

// WriteReference prints every setting as the Markdown page docs/CONFIG.md.
// effect tells what each does.
func WriteReference(w io.Writer, effect func(*Key) Effect) error {
	for _, part := range []struct {
		title string
		keys  []Key
		want  func(*Key) bool
	}{
		{"Tidemark's own", BrokerKeys(), func(k *Key) bool { return k.Own() }},
		{"Of a node", BrokerKeys(), func(k *Key) bool { return !k.Own() && effect(k) != NoEffect }},
		{"Of a topic", TopicKeys(), func(k *Key) bool { return effect(k) != NoEffect }},
		{"Of a consumer group", GroupKeys(), func(k *Key) bool { return effect(k) != NoEffect }},
		{"Of a subscription to clients' metrics (KIP-714)", ClientMetricsKeys(), func(k *Key) bool { return effect(k) != NoEffect }},
	} {
		if err := writeKeys(w, part.title, part.keys, part.want, effect); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprint(w, "\n## Accepted and ignored\n\n| name | of | why |\n|---|---|---|\n"); err != nil {
		return err
	}
	for _, k := range slices.Concat(BrokerKeys(), TopicKeys(), GroupKeys()) {
		if effect(&k) != NoEffect || k.Internal {
			continue
		}
		if _, err := fmt.Fprintf(w, "| `%s` | %s | %s |\n", k.Name, k.Scope, cell(k.Ignored)); err != nil {
			return err
		}
	}
	return nil
}

// String returns the word for where a key may be set.
func (s Scope) String() string {
	switch s {
	case ScopeTopic:
		return "topic"
	case ScopeGroup:
		return "group"
	case ScopeClientMetrics:
		return "client-metrics"
	}
	return "node"
}

func writeKeys(w io.Writer, title string, keys []Key, want func(*Key) bool, effect func(*Key) Effect) error {
	_, err := fmt.Fprintf(w, "\n## %s\n\n| name | value | default | changes | meaning |\n|---|---|---|---|---|\n", title)
	for i := range keys {
		k := &keys[i]
		if !want(k) || k.Internal {
			continue
		}
		meaning := k.Doc
		if effect(k) == Stored {
			meaning = "**Stored and shown only**; nothing acts on it yet. " + meaning
		}
		if _, err := fmt.Fprintf(w, "| `%s` | %s | %s | %s | %s |\n",
			k.Name, cell(k.Range()), defaultCell(k), k.changes(), cell(meaning)); err != nil {
			return err
		}
	}
	return err
}

// changes says when an altered value takes effect. Of a node's own settings only
// those that are defaults of topics, and those of compaction, are looked at while
// it runs.
func (k *Key) changes() string {
	switch {
	case k.Scope != ScopeBroker:
		return "any time"
	case k.Update == ReadOnly || len(k.defaultOf()) == 0 && !k.runs():
		return "at a start"
	}
	return "any time"
}

// defaultOf returns the topic settings whose value a node's setting supplies.
func (k *Key) defaultOf() []*Key {
	var keys []*Key
	for i := range topicKeys {
		for _, s := range topicKeys[i].Synonyms {
			if s.Name == k.Name {
				keys = append(keys, &topicKeys[i])
			}
		}
	}
	return keys
}

func defaultCell(k *Key) string {
	switch {
	case k.Null:
		return "none"
	case k.Default == "":
		return "empty"
	}
	text := "`" + k.Default + "`"
	if len(k.Synonyms) > 0 {
		text += ", or the node's `" + k.Synonyms[0].Name + "`"
	}
	return text
}

func cell(s string) string {
	if s == "" {
		return "–"
	}
	return strings.ReplaceAll(s, "|", `\|`)
}
