package compress

import (
	"bytes"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// gzipSource reads one or more gzip members, as Java's GZIPInputStream does.
type gzipSource struct {
	in  bytes.Reader
	z   gzip.Reader
	err error // of the first header
}

var gzipSources = sync.Pool{New: func() any { return new(gzipSource) }}

func newGzipSource(src []byte) *gzipSource {
	s := gzipSources.Get().(*gzipSource)
	s.in.Reset(src)
	if s.err = s.z.Reset(&s.in); s.err == io.EOF {
		s.err = io.ErrUnexpectedEOF // no member at all is not an empty one
	}
	return s
}

func (s *gzipSource) read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	return s.z.Read(p)
}

func (s *gzipSource) release() {
	s.in.Reset(nil)
	gzipSources.Put(s)
}
