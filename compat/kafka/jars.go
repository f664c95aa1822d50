package kafka

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/tidemark/tidemark/compat/proc"
)

// Version is the release of Apache Kafka that the jars are of, as in pom.xml.
const Version = "4.3.1"

// Jars is a directory with Kafka's jars and all that they need.
type Jars struct {
	lib  string // directory of the jars
	apps string // directory of further jars; may be empty
	home string // directory of pom.xml and log4j2.properties
}

// Resolve returns the cached jars and has Maven fetch them if there are none.
// Several test programs may call it at once: one fetches, the others wait.
func Resolve(ctx context.Context) (Jars, error) {
	home, cache, err := places()
	if err != nil {
		return Jars{}, err
	}
	j := Jars{lib: filepath.Join(cache, "kafka-"+Version), home: home}
	return j, fetchOnce(ctx, cache, j.lib, filepath.Join(home, "pom.xml"), "kafka_2.13-"+Version+".jar")
}

// ResolveApps is Resolve with Kafka Streams and Connect's file connector.
func ResolveApps(ctx context.Context) (Jars, error) {
	j, err := Resolve(ctx)
	if err != nil {
		return j, err
	}
	j.apps = j.lib + "-apps"
	return j, fetchOnce(ctx, filepath.Dir(j.lib), j.apps, filepath.Join(j.home, "apps", "pom.xml"), "kafka-streams-"+Version+".jar")
}

// places returns this package's directory and that of the cache.
func places() (home, cache string, err error) {
	_, self, _, ok := runtime.Caller(0)
	if !ok {
		return "", "", errors.New("kafka: the source directory is unknown (built with -trimpath?)")
	}
	home = filepath.Dir(self)
	cache = filepath.Join(filepath.Dir(home), ".cache")
	return home, cache, os.MkdirAll(cache, 0o755)
}

// fetchOnce fetches a directory of jars that is not there yet.
func fetchOnce(ctx context.Context, cache, lib, pom, sign string) error {
	unlock, err := lockFile(filepath.Join(cache, "kafka.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(lib); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fetch(ctx, lib, pom, sign)
}

// fetch copies the jars beside their final place and renames, so that a cache
// directory is always complete. sign is a jar that must be among them.
func fetch(ctx context.Context, lib, pom, sign string) error {
	part := lib + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	r, err := proc.Run(ctx, nil, "mvn", "-q", "-B", "-f", pom,
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+part)
	if err != nil {
		return err
	}
	if r.Exit != 0 {
		return fmt.Errorf("mvn could not fetch Apache Kafka %s (exit %d):\n%s", Version, r.Exit, proc.Tail(r.All(), 20))
	}
	if _, err := os.Stat(filepath.Join(part, sign)); err != nil {
		return fmt.Errorf("mvn fetched something else: %w", err)
	}
	return os.Rename(part, lib)
}

func lockFile(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return func() { f.Close() }, nil
}

// java returns the command line that runs class with the jars.
func (j Jars) java(flags []string, class string, args ...string) []string {
	argv := append([]string{"java"}, flags...)
	path := j.lib + "/*"
	if j.apps != "" {
		path += ":" + j.apps + "/*"
	}
	argv = append(argv, "-cp", path, "-Dlog4j2.configurationFile="+filepath.Join(j.home, "log4j2.properties"), class)
	return append(argv, args...)
}

// Source returns the command line that compiles and runs one Java file with the
// jars.
func (j Jars) Source(file string) []string {
	return j.java([]string{"-Xmx256m", "-XX:TieredStopAtLevel=1"}, file)
}
