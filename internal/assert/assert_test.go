package assert_test

import (
	"errors"
	"testing"

	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/model"
)

func failure(t *testing.T, fn func()) (f *assert.Failure) {
	t.Helper()
	defer func() {
		r := recover()
		err, ok := r.(error)
		if r != nil && (!ok || !errors.As(err, &f)) {
			t.Fatalf("panicked with %T %v, want *assert.Failure", r, r)
		}
	}()
	fn()
	return nil
}

func TestThat(t *testing.T) {
	if f := failure(t, func() { assert.That(true, "never said %d", 1) }); f != nil {
		t.Errorf("a holding assertion failed: %v", f)
	}
	hw, leo := model.Offset(5), model.Offset(4)
	f := failure(t, func() { assert.That(hw <= leo, "hw %d above leo %d of %s", hw, leo, "t-0") })
	if f == nil {
		t.Fatal("a broken assertion held")
	}
	if got, want := f.Error(), "assertion failed: hw 5 above leo 4 of t-0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUnreachable(t *testing.T) {
	f := failure(t, func() { assert.Unreachable("role %d", 7) })
	if f == nil || f.Message != "unreachable: role 7" {
		t.Errorf("got %v", f)
	}
}

func TestSlowRunsOnlyWhenEnabled(t *testing.T) {
	ran := false
	assert.Slow(func() { ran = true })
	if ran != assert.SlowEnabled {
		t.Errorf("ran %v, enabled %v", ran, assert.SlowEnabled)
	}
}

// A holding assertion in a hot path costs no memory, whatever it would say.
func TestThatDoesNotAllocate(t *testing.T) {
	o, name := model.Offset(1<<40), "some-topic-12"
	n := testing.AllocsPerRun(100, func() {
		assert.That(o > 0, "offset %d of %s, %v", o, name, &o)
		o++
	})
	if n != 0 && !assert.SlowEnabled {
		t.Errorf("%v allocations per assertion, want 0", n)
	}
}
