package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// OpKind is what an incremental alteration does with a key. The numbers are
// those of IncrementalAlterConfigs. Source: KIP-339.
type OpKind int8

// The kinds of alteration.
const (
	Set      OpKind = 0
	Delete   OpKind = 1
	Append   OpKind = 2
	Subtract OpKind = 3
)

// Op is one alteration of one key.
type Op struct {
	Key   string
	Kind  OpKind
	Value string
	Null  bool // no value was given
}

// BadOp is an alteration that makes no sense for its key: INVALID_CONFIG, or
// INVALID_REQUEST when Request is set.
type BadOp struct {
	Key     string
	Why     string
	Request bool
}

// Error names the key and says what is wrong.
func (e *BadOp) Error() string { return fmt.Sprintf("%s: %s", e.Key, e.Why) }

// ValidateTopic reports whether a topic may set key to value. The error is an
// *UnknownKey or a *BadValue.
func ValidateTopic(key, value string) error {
	k := LookupTopic(key)
	if k == nil {
		return &UnknownKey{Key: key}
	}
	return k.Check(value)
}

// ValidateBroker reports whether key may be set to value in the dynamic layer of
// one broker (perBroker) or of all. The error is an *UnknownKey, a *NotDynamic
// or a *BadValue.
func ValidateBroker(key, value string, perBroker bool) error {
	k, err := dynamicKey(key, perBroker)
	if err != nil {
		return err
	}
	return k.Check(value)
}

func dynamicKey(key string, perBroker bool) (*Key, error) {
	k := LookupBroker(key)
	switch {
	case k == nil:
		return nil, &UnknownKey{Key: key}
	case k.Update == ReadOnly, k.Update == PerBroker && !perBroker:
		return nil, &NotDynamic{Key: key, Mode: k.Update}
	case perBroker && key == "min.insync.replicas":
		return nil, &BadOp{Key: key, Why: "can be altered for the cluster or for a topic, not for one broker: replicas of one partition must agree on it"}
	}
	return k, nil
}

// ValidateTopicSet checks the whole set of a topic's own settings, each by
// itself and against each other.
func (b *Broker) ValidateTopicSet(dynamicBroker, overrides map[string]string) error {
	names := make([]string, 0, len(overrides))
	for n := range overrides { // order-free: sorted below
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		if err := ValidateTopic(n, overrides[n]); err != nil {
			return err
		}
	}
	_, err := b.Topic(dynamicBroker, overrides)
	return err
}

// AlterTopic applies ops to a topic's own settings and returns the new set;
// current is not changed. A key of current that no longer exists can still be
// deleted.
func AlterTopic(current map[string]string, ops []Op) (map[string]string, error) {
	return alter(current, ops, func(key string) (*Key, error) {
		if k := LookupTopic(key); k != nil {
			return k, nil
		}
		return nil, &UnknownKey{Key: key}
	})
}

// AlterBroker applies ops to the dynamic settings of one broker (perBroker) or
// of all and returns the new set; current is not changed.
func AlterBroker(current map[string]string, ops []Op, perBroker bool) (map[string]string, error) {
	return alter(current, ops, func(key string) (*Key, error) { return dynamicKey(key, perBroker) })
}

func alter(current map[string]string, ops []Op, find func(string) (*Key, error)) (map[string]string, error) {
	next := make(map[string]string, len(current)+len(ops))
	for k, v := range current { // order-free: builds a map
		next[k] = v
	}
	for i, op := range ops {
		if slices.ContainsFunc(ops[:i], func(o Op) bool { return o.Key == op.Key }) {
			return nil, &BadOp{Key: op.Key, Why: "altered twice in one request", Request: true}
		}
		if _, held := next[op.Key]; held && op.Kind == Delete {
			delete(next, op.Key)
			continue
		}
		k, err := find(op.Key)
		if err != nil {
			return nil, err
		}
		if err := k.apply(next, op); err != nil {
			return nil, err
		}
	}
	return next, nil
}

func (k *Key) apply(set map[string]string, op Op) error {
	if op.Kind == Delete {
		return nil
	}
	if op.Null {
		return &BadOp{Key: k.Name, Why: "no value was given", Request: true}
	}
	value := op.Value
	switch op.Kind {
	case Set:
	case Append, Subtract:
		if k.Type != List {
			return &BadOp{Key: k.Name, Why: fmt.Sprintf("is no list (its type is %s), so nothing can be appended to it or subtracted from it", k.Type)}
		}
		old, held := set[k.Name]
		if !held {
			old = k.Default
		}
		value = listOp(op.Kind, splitList(old), splitList(op.Value))
	default:
		return &BadOp{Key: k.Name, Why: fmt.Sprintf("unknown operation %d", op.Kind), Request: true}
	}
	if err := k.Check(value); err != nil {
		return err
	}
	set[k.Name] = value
	return nil
}

func listOp(kind OpKind, old, items []string) string {
	for _, item := range items {
		at := slices.Index(old, item)
		switch {
		case kind == Append && at < 0:
			old = append(old, item)
		case kind == Subtract && at >= 0:
			old = slices.Delete(old, at, at+1)
		}
	}
	return strings.Join(old, ",")
}

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }
