package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"github.com/tidemark/tidemark/broker"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/lifecycle"
)

// stopTimeout bounds an orderly stop; what is not finished by then is left to
// the recovery of the next start.
const stopTimeout = 60 * time.Second

func newServe(io streams) *cobra.Command {
	var (
		settings   settingFlags
		whileStdin bool
		sources    []string
	)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a broker",
		Long: "Runs a broker until SIGTERM or an interrupt, which stops it in order; a second one ends\n" +
			"it at once. When it serves, one line on standard output says so; events go to standard\n" +
			"error.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, _, warnings, err := settings.load(os.Environ())
			if err != nil {
				return err
			}
			warn(io.err, warnings)
			if err := importKafka(sources, cfg, io.err); err != nil {
				return err
			}
			ctx := cmd.Context()
			if whileStdin {
				ctx = whileOpen(ctx, io.in)
			}
			return serve(ctx, cfg, io)
		},
	}
	settings.register(cmd.Flags())
	cmd.Flags().StringArrayVar(&sources, "import", nil,
		"first copy what this log directory of a stopped Apache Kafka broker holds into the empty log directory; may be repeated")
	cmd.Flags().BoolVar(&whileStdin, whileStdinFlag, false, "stop in order when standard input ends")
	_ = cmd.Flags().MarkHidden(whileStdinFlag) // it was made just now
	return cmd
}

// whileStdinFlag has a node end with whoever started it.
const whileStdinFlag = "while-stdin"

// whileOpen returns a context that ends when in does.
func whileOpen(parent context.Context, in io.Reader) context.Context {
	ctx, cancel := context.WithCancel(parent)
	new(lifecycle.Group).Go("standard input", func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, in) // however it ended, it is over
	})
	return ctx
}

func serve(ctx context.Context, cfg *config.Broker, io streams) error {
	b, err := broker.New(broker.Config{Settings: cfg, Logger: newLogger(io.err, cfg.Own.LogLevel)})
	if err != nil {
		return err
	}
	background, end := context.WithCancel(ctx)
	defer end()
	keepHeadroom(background, new(lifecycle.Group))
	if err := b.Start(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintf(io.out, "tidemark ready listener=%s node=%d cluster=%s data=%s ms=%d\n",
		b.Addr(), cfg.NodeID, b.ClusterID(), dataPlace(cfg), time.Since(io.start).Milliseconds())
	if err != nil {
		return fmt.Errorf("write ready line: %w", err)
	}
	if cfg.Roles.Broker {
		hint(io.err, b.Addr())
	}
	select {
	case <-ctx.Done():
	case <-b.Failed():
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return b.Stop(stopCtx)
}

// hint tells a person at a terminal what to try first.
func hint(out io.Writer, addr string) {
	if f, ok := out.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return
	}
	host, port, err := net.SplitHostPort(addr)
	if err == nil && (host == "" || host == "0.0.0.0" || host == "::") {
		addr = "localhost:" + port
	}
	fmt.Fprintf(out, "Try it:  echo hello | kcat -P -b %s -t greetings && kcat -C -b %s -t greetings -o beginning -e -q\n", addr, addr)
}

func newLogger(out io.Writer, level string) *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	enc.EncodeLevel = zapcore.CapitalLevelEncoder
	at, err := zapcore.ParseLevel(level)
	if err != nil {
		at = zapcore.InfoLevel
	}
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(enc), zapcore.Lock(zapcore.AddSync(out)), at))
}

// dataPlace says where the node's data lies: its data directory, or the log
// directories if they were set to lie elsewhere.
func dataPlace(cfg *config.Broker) string {
	if slices.Equal(cfg.LogDirs, []string{cfg.DataDir + "/log"}) {
		return cfg.DataDir
	}
	return strings.Join(cfg.LogDirs, ",")
}
