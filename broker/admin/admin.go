package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/metrics"
)

// Introspector tells what a node is doing. Its methods may be called from any
// goroutine, at any time of the node's life, and don't wait for its loops for
// longer than a second or two.
type Introspector interface {
	// Collect hands over every number there is.
	Collect(s *metrics.Sink)
	// Health says whether restarting the process is called for.
	Health() Report
	// Readiness says whether clients can be served.
	Readiness() Report
}

// Config is what a Server is made of.
type Config struct {
	// Listen is host:port.
	Listen string
	// Table is what Node.Collect publishes.
	Table  []metrics.Metric
	Node   Introspector
	Logger *zap.Logger
	Group  *lifecycle.Group
}

// Server is the listener and its pages.
type Server struct {
	http http.Server
	addr string
}

// The bounds of a request: its pages are small and nobody uploads anything.
const (
	headerMax     = 16 << 10
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
)

// Start binds the address and serves. The caller stops it.
func Start(ctx context.Context, c Config) (*Server, error) {
	registry, err := metrics.New(c.Table, c.Node.Collect)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	errorLog, err := zap.NewStdLogAt(c.Logger, zap.DebugLevel)
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("tidemark.http.listen: %w", err)
	}
	s := &Server{addr: l.Addr().String()}
	s.http = http.Server{
		Handler: pages(registry, c.Node), ErrorLog: errorLog,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerMax,
	}
	c.Group.Go("http", func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			c.Logger.Error("the pages for operators are no longer served", zap.Error(err))
		}
	})
	c.Logger.Info("pages for operators", zap.String("metrics", "http://"+s.addr+"/metrics"),
		zap.String("health", "http://"+s.addr+"/healthz"), zap.String("readiness", "http://"+s.addr+"/readyz"))
	return s, nil
}

// Addr returns host:port with the port that the listener really got.
func (s *Server) Addr() string { return s.addr }

// Stop closes the listener and waits for the pages that are being written, until
// ctx ends.
func (s *Server) Stop(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("http: %w", err), s.http.Close())
	}
	return nil
}

// pages routes requests; anything but GET and HEAD is refused.
func pages(registry *metrics.Registry, node Introspector) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", registry.Handler())
	mux.Handle("GET /healthz", report(node.Health))
	mux.Handle("GET /readyz", report(node.Readiness))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "/metrics\n/healthz\n/readyz\n") // a client that went away
	})
	return mux
}

// report is a page that says with its status what a program needs to know, and
// why in JSON.
func report(look func() Report) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r := look()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if !r.OK {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(r) // a client that went away
	})
}
