package proc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark/tidemark/internal/lifecycle"
)

// Output collects what a process prints. It may be read while the process
// writes.
type Output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends p.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

// String returns everything printed so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// Process is a program that runs on until it is stopped.
type Process struct {
	Stdout Output
	Stderr Output

	name  string
	cmd   *exec.Cmd
	group lifecycle.Group
	ended chan struct{}
	err   error // of the process's end; valid once ended is closed
}

// Start starts argv in dir ("" is the current one) with env added to the
// environment. Where the kernel can do so, the process dies with this one.
func Start(dir string, env []string, argv ...string) (*Process, error) {
	p := &Process{name: argv[0], ended: make(chan struct{})}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.Stdout, &p.Stderr
	p.cmd.SysProcAttr = attr()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	p.group.Go("wait for "+argv[0], func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	})
	return p, nil
}

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends the process a signal.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Wait waits for the process to end and returns its exit code, -1 if a signal
// ended it; an error is a process that is still there.
func (p *Process) Wait(patience time.Duration) (int, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-timer.C:
		return 0, fmt.Errorf("%s still runs after %s", p.name, patience)
	}
}

// Ended reports whether the process is gone.
func (p *Process) Ended() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Stop asks the process to end with SIGTERM and waits for it; one that does not
// obey in time is killed, which is an error, as is a failing exit.
func (p *Process) Stop(patience time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.ended:
		// A Java virtual machine that obeys SIGTERM exits with 143.
		if p.err != nil && p.cmd.ProcessState.ExitCode() != 143 {
			return fmt.Errorf("%s after SIGTERM: %w\n%s", p.name, p.err, Tail(p.Stderr.String(), 30))
		}
		return nil
	case <-timer.C:
		p.Kill()
		return fmt.Errorf("%s did not end within %s of SIGTERM", p.name, patience)
	}
}

// Kill ends the process with SIGKILL and waits for it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// Until calls ready every few milliseconds until it is true, the process ends,
// or patience runs out.
func (p *Process) Until(patience time.Duration, ready func() bool) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended: %v\n%s%s", p.name, p.err, p.Stdout.String(), Tail(p.Stderr.String(), 40))
		case <-timer.C:
			return fmt.Errorf("%s not ready after %s\n%s", p.name, patience, Tail(p.Stderr.String(), 40))
		case <-tick.C:
		}
	}
	return nil
}

// Result is how a program that ran to its end did.
type Result struct {
	Stdout string
	Stderr string
	Exit   int
}

// All returns both outputs, for finding a text wherever it was printed.
func (r Result) All() string { return r.Stdout + r.Stderr }

// Run runs argv to its end with stdin as its input (nil is empty). A program
// that cannot be started, or that ctx ends, is an error; a failing exit is not.
func Run(ctx context.Context, stdin io.Reader, argv ...string) (Result, error) {
	var out, errOut bytes.Buffer
	exit, err := RunTo(ctx, stdin, &out, &errOut, argv...)
	return Result{Stdout: out.String(), Stderr: errOut.String(), Exit: exit}, err
}

// RunTo is Run for output that is too large to keep.
func RunTo(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer, argv ...string) (exit int, err error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		return -1, fmt.Errorf("%s: %w", strings.Join(argv, " "), ctx.Err())
	}
	if exitErr, ok := err.(*exec.ExitError); ok {
		return exitErr.ExitCode(), nil
	}
	if err != nil {
		return -1, fmt.Errorf("%s: %w", argv[0], err)
	}
	return 0, nil
}

// Tail returns the last n lines of s.
func Tail(s string, n int) string {
	lines := strings.Split(s, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
