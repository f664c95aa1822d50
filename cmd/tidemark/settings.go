package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tidemark/tidemark/internal/config"
)

// settingFlags are the flags that say how a broker is configured.
type settingFlags struct {
	file    string
	set     []string
	listen  string
	dataDir string
}

func (s *settingFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&s.file, "config", "", "file of settings in the form of Kafka's server.properties")
	fs.StringArrayVar(&s.set, "set", nil, "one setting KEY=VALUE (repeatable); beats environment and file")
	fs.StringVar(&s.listen, "listen", "", "HOST:PORT to serve clients on; short for --set listeners=PLAINTEXT://HOST:PORT")
	fs.StringVar(&s.dataDir, "data-dir", "", "directory of all data; short for log.dirs=DIR/log and tidemark.kept.dir=DIR/kept")
}

// load reads file, environment and flags. Whatever is wrong is a usage error.
func (s *settingFlags) load(environ []string) (*config.Broker, []config.Effective, config.Warnings, error) {
	src := config.Sources{Env: environ}
	if s.file != "" {
		text, err := os.ReadFile(s.file)
		if err != nil {
			return nil, nil, config.Warnings{}, &usageError{fmt.Errorf("--config: %w", err)}
		}
		src.File = string(text)
	}
	// The shorthands stand first, so that a --set of the same key wins.
	if s.listen != "" {
		src.Flags = append(src.Flags, "listeners=PLAINTEXT://"+s.listen)
	}
	if strings.Contains(s.dataDir, ",") {
		return nil, nil, config.Warnings{}, &usageError{fmt.Errorf("--data-dir %q: a comma separates directories; name them with --set log.dirs=A,B", s.dataDir)}
	}
	if s.dataDir != "" {
		src.Flags = append(src.Flags, "tidemark.data.dir="+s.dataDir, "log.dirs="+s.dataDir+"/log", "tidemark.kept.dir="+s.dataDir+"/kept")
	}
	src.Flags = append(src.Flags, s.set...)
	cfg, effective, warnings, err := config.Load(src)
	if err != nil {
		return nil, nil, warnings, &usageError{err}
	}
	return cfg, effective, warnings, nil
}

// warn says once, before anything starts, which settings will not do what was
// perhaps meant.
func warn(out io.Writer, w config.Warnings) {
	for _, k := range w.Ignored {
		fmt.Fprintf(out, "tidemark: %s (from %s) is ignored: %s\n", k.Key, k.Origin, k.Reason)
	}
	for _, k := range w.Unknown {
		fmt.Fprintf(out, "tidemark: %s (from %s) is unknown: %s\n", k.Key, k.Origin, k.Reason)
	}
	for _, note := range w.Notes {
		fmt.Fprintf(out, "tidemark: %s\n", note)
	}
}
