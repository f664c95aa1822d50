package protocol

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestParseRequestHeader(t *testing.T) {
	long := strings.Repeat("c", 1<<15-1)
	tests := []struct {
		name string
		in   []byte
		want RequestHeader
		body string
		err  error
	}{
		{"v1", []byte("\x00\x03\x00\x08\x00\x00\x00\x07\x00\x02idbody"), RequestHeader{Key: 3, Version: 8, CorrelationID: 7, ClientID: "id"}, "body", nil},
		{"v1 null client", []byte("\x00\x03\x00\x08\xff\xff\xff\xff\xff\xffbody"), RequestHeader{Key: 3, Version: 8, CorrelationID: -1, NoClientID: true}, "body", nil},
		{"v1 empty client", []byte("\x00\x03\x00\x08\x00\x00\x00\x07\x00\x00"), RequestHeader{Key: 3, Version: 8, CorrelationID: 7}, "", nil},
		{"v2 no tags", []byte("\x00\x03\x00\x09\x00\x00\x00\x07\x00\x02id\x00body"), RequestHeader{Key: 3, Version: 9, CorrelationID: 7, ClientID: "id"}, "body", nil},
		{"v2 one tag", []byte("\x00\x03\x00\x09\x00\x00\x00\x07\x00\x02id\x01\x05\x03tagbody"), RequestHeader{Key: 3, Version: 9, CorrelationID: 7, ClientID: "id"}, "body", nil},
		{"v2 same tag twice", []byte("\x00\x03\x00\x09\x00\x00\x00\x07\x00\x00\x02\x05\x00\x05\x00body"), RequestHeader{Key: 3, Version: 9, CorrelationID: 7}, "body", nil},
		{"ApiVersions of a future version", []byte("\x00\x12\x00\x63\x00\x00\x00\x07\x00\x00\x00body"), RequestHeader{Key: 18, Version: 99, CorrelationID: 7}, "body", nil},
		{"longest client id", append([]byte("\x00\x03\x00\x08\x00\x00\x00\x07\x7f\xff"), long...), RequestHeader{Key: 3, Version: 8, CorrelationID: 7, ClientID: long}, "", nil},
		{"client id of odd bytes", []byte("\x00\x03\x00\x08\x00\x00\x00\x07\x00\x03\x00\xff\n"), RequestHeader{Key: 3, Version: 8, CorrelationID: 7, ClientID: "\x00\xff\n"}, "", nil},
		{"client id -2", []byte("\x00\x03\x00\x08\x00\x00\x00\x07\xff\xfe"), RequestHeader{}, "", ErrMalformed},
		{"client id past the end", []byte("\x00\x03\x00\x08\x00\x00\x00\x07\x00\x03id"), RequestHeader{}, "", ErrShort},
		{"nine bytes", []byte("\x00\x03\x00\x08\x00\x00\x00\x07\xff"), RequestHeader{}, "", ErrShort},
		{"nothing", nil, RequestHeader{}, "", ErrShort},
		{"v2 without tags", []byte("\x00\x03\x00\x09\x00\x00\x00\x07\x00\x00"), RequestHeader{}, "", ErrShort},
		{"v2 tag past the end", []byte("\x00\x03\x00\x09\x00\x00\x00\x07\x00\x00\x01\x00\x05abc"), RequestHeader{}, "", ErrShort},
		{"v2 tag count of six bytes", []byte("\x00\x03\x00\x09\x00\x00\x00\x07\x00\x00\xff\xff\xff\xff\xff\x01"), RequestHeader{}, "", ErrMalformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, body, err := ParseRequestHeader(tt.in, "before")
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if tt.err == nil && (got != tt.want || string(body) != tt.body) {
				t.Errorf("got %+v and body %q, want %+v and %q", got, body, tt.want, tt.body)
			}
		})
	}
}

func TestClientIDIsNotAllocatedAgain(t *testing.T) {
	in := []byte("\x00\x03\x00\x08\x00\x00\x00\x07\x00\x06clientbody")
	if n := testing.AllocsPerRun(100, func() {
		if _, _, err := ParseRequestHeader(in, "client"); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a client id that is known", n)
	}
}

// TestHeadersOfEveryVersion parses what kmsg writes and compares the answer's
// header with what the version demands.
func TestHeadersOfEveryVersion(t *testing.T) {
	id := "me"
	eachServed(func(api API, version int16) {
		req := kmsg.RequestForKey(api.Key)
		req.SetVersion(version)
		frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID(id)).AppendRequest(nil, req, 77)
		h, body, err := ParseRequestHeader(frame[FrameSizeLen:], "")
		if err != nil {
			t.Fatalf("%s v%d: %v", api.Name, version, err)
		}
		if h.Key != api.Key || h.Version != version || h.CorrelationID != 77 || h.ClientID != id {
			t.Errorf("%s v%d: header %+v", api.Name, version, h)
		}
		if !bytes.Equal(body, req.AppendTo(nil)) {
			t.Errorf("%s v%d: body does not begin where the header ends", api.Name, version)
		}
		want := []byte{0, 0, 0, 77}
		if req.IsFlexible() && api.Key != KeyApiVersions {
			want = append(want, 0)
		}
		if got := AppendResponseHeader(nil, api.Key, version, 77); !bytes.Equal(got, want) {
			t.Errorf("%s v%d: response header %x, want %x", api.Name, version, got, want)
		}
	})
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte("\x00\x03\x00\x09\x00\x00\x00\x07\x00\x02id\x00body"))
	f.Add([]byte("\x00\x12\x00\x03\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, body, err := ParseRequestHeader(in, "")
		if err != nil {
			return
		}
		if len(body) > len(in)-MinRequestLen || !bytes.HasSuffix(in, body) {
			t.Errorf("body of %d bytes is not the end of %d", len(body), len(in))
		}
		if key, ok := PeekKey(in); !ok || key != h.Key {
			t.Errorf("PeekKey says %d, the header %d", key, h.Key)
		}
	})
}
