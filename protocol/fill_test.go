package protocol

import (
	"math/rand/v2"
	"reflect"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// filler sets the fields of a request at random, so that tests meet every field
// of every version without a word about any.
type filler struct {
	rng   *rand.Rand
	elems int // at most so many elements in an array
	tags  bool
}

func (f filler) request(key, version int16) kmsg.Request {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	f.value(reflect.ValueOf(req).Elem())
	req.SetVersion(version)
	return req
}

func (f filler) value(v reflect.Value) {
	if v.Type() == reflect.TypeFor[kmsg.Tags]() {
		if f.tags && f.rng.IntN(3) == 0 {
			v.Addr().Interface().(*kmsg.Tags).Set(100+f.rng.Uint32N(50), []byte("unknown"))
		}
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(f.rng.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(int8(f.rng.Uint32())))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(uint64(f.rng.IntN(200)))
	case reflect.String:
		v.SetString(strings.Repeat("x", f.rng.IntN(5)))
	case reflect.Array:
		for i := range v.Len() {
			f.value(v.Index(i))
		}
	case reflect.Pointer:
		// Some pointers stand for a field that is not nullable in every
		// version, so they are always set.
		v.Set(reflect.New(v.Type().Elem()))
		f.value(v.Elem())
	case reflect.Slice:
		n := 1 + f.rng.IntN(f.elems)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			f.value(v.Index(i))
		}
	case reflect.Struct:
		if m := v.Addr().MethodByName("Default"); m.IsValid() {
			m.Call(nil)
		}
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() && field.Name != "Version" {
				f.value(v.Field(i))
			}
		}
	}
}

// eachServed calls fn for every API and version that is answered.
func eachServed(fn func(api API, version int16)) {
	for _, api := range Table() {
		for v := api.ServedMin; v <= api.Max; v++ {
			fn(api, v)
		}
	}
}
