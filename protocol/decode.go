package protocol

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrUnsupported says that a request's API or version is not served here. The
// connection it came on is closed, but for ApiVersions. Source: Kafka's
// SocketServer, which does the same.
var ErrUnsupported = errors.New("protocol: API or version not served")

// ErrTooCostly says that a body would make the decoder allocate more than
// MaxAmplification allows.
var ErrTooCostly = errors.New("protocol: request would cost too much memory to decode")

// DecodeRequest decodes the body of a request. The result's byte slices alias
// body; its strings are copies. Bytes behind the last field are ignored, as
// Kafka does.
//
// The errors are ErrUnsupported, ErrShort, ErrMalformed and ErrTooCostly,
// wrapped with what was met; after any of them the connection is of no use,
// because the protocol has no answer for a request that can't be read.
func DecodeRequest(h RequestHeader, body []byte) (kmsg.Request, error) {
	api, ok := Lookup(h.Key)
	if !ok || !api.Served(h.Version) {
		return nil, fmt.Errorf("key %d version %d: %w", h.Key, h.Version, ErrUnsupported)
	}
	if err := Guard(h.Key, h.Version, body); err != nil {
		return nil, fmt.Errorf("%s version %d: %w", api.Name, h.Version, err)
	}
	req := kmsg.RequestForKey(h.Key)
	req.SetVersion(h.Version)
	if err := req.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%s version %d, %d bytes: %w: %w", api.Name, h.Version, len(body), ErrMalformed, err)
	}
	return req, nil
}
