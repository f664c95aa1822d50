package server

import (
	"fmt"
	"testing"
)

func TestOneRequestOneAnswer(t *testing.T) {
	h := start(t, Config{}, handlerFunc(echo))
	c := h.dial()
	for i := range int32(3) {
		name := fmt.Sprintf("topic-%d", i)
		c.send(metadata(name), i)
		if got := topicOf(t, c.want(i)); got != name {
			t.Errorf("answer names %q, want %q", got, name)
		}
	}
}
