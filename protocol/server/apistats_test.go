package server

import (
	"slices"
	"testing"
	"time"

	"github.com/tidemark/tidemark/protocol"
)

// statsOf returns the counts of one API.
func (h *harness) statsOf(key int16) APIStats {
	all := h.srv.APIs()
	if i := slices.IndexFunc(all, func(a APIStats) bool { return a.Key == key }); i >= 0 {
		return all[i]
	}
	return APIStats{Key: key}
}

// Every answer is counted once with its bytes, whether it was given at once,
// late, out of turn, or not at all.
func TestAPIsAreCounted(t *testing.T) {
	var late []*Request
	h := start(t, Config{}, handlerFunc(func(r *Request) {
		switch {
		case r.Header.Key == protocol.KeyMetadata && r.Header.CorrelationID < 10:
			late = append(late, r)
			if len(late) == 3 {
				echo(late[1])
				late[2].NoReply() // kept until its turn
				echo(late[0])
			}
		case r.Header.Key == protocol.KeyMetadata:
			echo(r)
		default:
			r.NoReply()
		}
	}))
	c := h.dial()
	in, out := 0, 0
	send := func(id int32) {
		b := encode(metadata("topic"), id)
		in += len(b)
		c.write(b)
	}
	for _, id := range []int32{1, 2, 3} {
		send(id)
	}
	for _, id := range []int32{1, 2} {
		out += 8 + len(c.want(id))
	}
	send(10)
	out += 8 + len(c.want(10))
	eventually(t, func() bool { return h.statsOf(protocol.KeyMetadata).Took.Count == 4 })
	got := h.statsOf(protocol.KeyMetadata)
	if got.BytesIn != int64(in) || got.BytesOut != int64(out) {
		t.Errorf("%d bytes in and %d out, want %d and %d", got.BytesIn, got.BytesOut, in, out)
	}
	if got.Took.Sum <= 0 || got.Took.Sum > time.Minute {
		t.Errorf("took %v", got.Took.Sum)
	}
	if all := h.srv.APIs(); len(all) != 1 {
		t.Errorf("counted %+v", all)
	}
}

func TestEveryKeyIsCountedInOnePlace(t *testing.T) {
	places := make(map[int]int16)
	for _, key := range []int16{0, 1, 75, 95, protocol.FirstPrivateKey, protocol.FirstPrivateKey + 15} {
		i := apiIndex(key)
		if other, taken := places[i]; taken || apiKey(i) != key {
			t.Errorf("key %d is counted at %d, with %d, and read back as %d", key, i, other, apiKey(i))
		}
		places[i] = key
	}
	for _, key := range []int16{-1, 96, 19999, protocol.FirstPrivateKey + 16, 32767} {
		if i := apiIndex(key); apiKey(i) != -1 {
			t.Errorf("key %d is counted as %d", key, apiKey(i))
		}
	}
}
