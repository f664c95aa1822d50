package main

import (
	"testing"

	"github.com/tidemark/tidemark/internal/config"
)

func TestDataPlace(t *testing.T) {
	for _, tc := range []struct{ flag, want string }{
		{"tidemark.data.dir=/d", "/d"},
		{"log.dirs=/x/1,/x/2", "/x/1,/x/2"},
		{"log.dir=/y", "/y"},
	} {
		b, _, _, err := config.Load(config.Sources{Flags: []string{tc.flag}})
		if err != nil {
			t.Fatal(err)
		}
		if got := dataPlace(b); got != tc.want {
			t.Errorf("with %s: %q, want %q", tc.flag, got, tc.want)
		}
	}
}
