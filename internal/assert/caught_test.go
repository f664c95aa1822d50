package assert_test

import (
	"testing"

	"github.com/tidemark/tidemark/internal/assert"
)

func TestCaught(t *testing.T) {
	catch := func(fn func()) (f *assert.Failure) {
		defer func() { f = assert.Caught(recover()) }()
		fn()
		return nil
	}
	if f := catch(func() {}); f != nil {
		t.Errorf("no panic gave %v", f)
	}
	if f := catch(func() { assert.Unreachable("here") }); f == nil || f.Message != "unreachable: here" {
		t.Errorf("a failed assertion gave %v", f)
	}
	defer func() {
		if r := recover(); r != "other" {
			t.Errorf("another panic became %v", r)
		}
	}()
	catch(func() { panic("other") })
	t.Error("another panic was swallowed")
}
