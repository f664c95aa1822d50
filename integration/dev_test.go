package integration

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark/tidemark/compat/proc"
)

// devCluster is a running tidemark dev and what it says.
type devCluster struct {
	t        *testing.T
	cmd      *exec.Cmd
	in       io.Writer
	out, err proc.Output
	addrs    string
}

// startDev runs tidemark dev and waits for its ready line.
func startDev(t *testing.T, args ...string) *devCluster {
	t.Helper()
	// Ports of clients, controllers and pages lie a hundred apart.
	port, err := proc.FreePorts(203)
	if err != nil {
		t.Fatal(err)
	}
	d := &devCluster{t: t}
	d.cmd = exec.Command(program, append([]string{"dev", "--dir", t.TempDir(), "--port-base", strconv.Itoa(port)}, args...)...)
	d.cmd.Stdout, d.cmd.Stderr = &d.out, &d.err
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if d.cmd.ProcessState == nil {
			_ = d.cmd.Process.Kill()
			_ = d.cmd.Wait()
		}
		d.awaitGone()
		if t.Failed() {
			t.Logf("tidemark dev said:\n%s%s", d.out.String(), proc.Tail(d.err.String(), 60))
		}
	})
	var ready []string
	d.await("the ready line", func() bool {
		ready = regexp.MustCompile(`^tidemark dev ready bootstrap=(\S+) nodes=3 cluster=\S+ dir=\S+ ms=\d+\n$`).FindStringSubmatch(d.out.String())
		return ready != nil
	})
	d.addrs = ready[1]
	return d
}

func (d *devCluster) await(what string, so func() bool) {
	d.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			d.t.Fatalf("not within a minute: %s\n%s", what, proc.Tail(d.err.String(), 40))
		}
	}
}

var pidLine = regexp.MustCompile(`(?m)^\[dev\] node (\d+).*\bpid (\d+)`)

// pids returns the newest process of each node, by what was printed.
func (d *devCluster) pids() map[string]int {
	all := make(map[string]int)
	for _, m := range pidLine.FindAllStringSubmatch(d.err.String(), -1) {
		all[m[1]], _ = strconv.Atoi(m[2])
	}
	return all
}

// awaitGone waits until no process of a node is left.
func (d *devCluster) awaitGone() {
	d.t.Helper()
	for _, m := range pidLine.FindAllStringSubmatch(d.err.String(), -1) {
		pid, _ := strconv.Atoi(m[2])
		d.await(fmt.Sprintf("the end of process %d", pid), func() bool { return gone(pid) })
	}
}

// gone reports whether a process has ended; whoever inherited it may not have
// taken note yet.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// tidemark runs another command against the cluster.
func (d *devCluster) tidemark(stdin string, args ...string) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := proc.Run(ctx, strings.NewReader(stdin), append(append([]string{program}, args...), "--bootstrap-server", d.addrs)...)
	if err != nil || r.Exit != 0 {
		d.t.Fatalf("tidemark %s: exit %d, %v\n%s", strings.Join(args, " "), r.Exit, err, r.All())
	}
	return r.Stdout
}

var leaderOf0 = regexp.MustCompile(`partition=0 leader=(\d+)`)

// TestDevSurvivesTheLeader is what the README says: the leader is killed, nothing
// acknowledged is lost, and it comes back with one line typed.
func TestDevSurvivesTheLeader(t *testing.T) {
	d := startDev(t)
	d.tidemark("", "topic", "create", "orders")
	d.tidemark("one\ntwo\n", "produce", "orders")
	leader := leaderOf0.FindStringSubmatch(d.tidemark("", "topic", "describe", "orders"))[1]
	if err := syscall.Kill(d.pids()[leader], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.await("word of the kill", func() bool {
		return strings.Contains(d.err.String(), "node "+leader+" ended: signal: killed; to bring it back type: start "+leader)
	})
	d.tidemark("three\n", "produce", "orders")
	if got := d.tidemark("", "consume", "orders", "--from-beginning", "--exit"); got != "one\ntwo\nthree\n" {
		t.Errorf("consumed %q", got)
	}
	fmt.Fprintf(d.in, "start %s\n", leader)
	d.await("its return", func() bool { return strings.Contains(d.err.String(), "node "+leader+" serves again") })
	d.await("three replicas in sync", func() bool {
		return regexp.MustCompile(`isr=\d,\d,\d `).MatchString(d.tidemark("", "topic", "describe", "orders"))
	})
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("tidemark dev after SIGTERM: %v", err)
	}
	d.awaitGone()
}

// TestDevCommands types commands, mistakes among them.
func TestDevCommands(t *testing.T) {
	d := startDev(t, "--restart")
	said := func(what string) {
		t.Helper()
		d.await(what, func() bool { return strings.Contains(d.err.String(), what) })
	}
	fmt.Fprint(d.in, "status\nnonsense\nkill 7\nstart 1\n")
	said("[dev] node 3: serves on localhost:")
	said(`[dev] "nonsense": want kill N, stop N, start N or status`)
	said(`[dev] "kill 7": want a node from 1 to 3`)
	said("[dev] node 1 runs already")
	fmt.Fprint(d.in, "kill 2\n")
	said("[dev] node 2 ended: signal: killed; it is started again")
	said("[dev] node 2 serves again")
	fmt.Fprint(d.in, "stop 3\n")
	said("[dev] node 3 ended: stopped in order; to bring it back type: start 3")
	fmt.Fprint(d.in, "kill 3\nstatus\n")
	said("[dev] node 3 doesn't run; to bring it back type: start 3")
	said("[dev] node 3: ended")
}

// page gets a page of a node by its number.
func (d *devCluster) page(node int, path string) (status int, body string) {
	d.t.Helper()
	addr := strings.Split(d.addrs, ",")[node-1]
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		d.t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		d.t.Fatal(err)
	}
	resp, err := http.Get(fmt.Sprintf("http://%s/%s", net.JoinHostPort(host, strconv.Itoa(n+200)), path))
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestReadinessWithoutAMajority: the node that is left says that it is not ready,
// and that a restart wouldn't help it; once the others are back it is ready again.
func TestReadinessWithoutAMajority(t *testing.T) {
	d := startDev(t, "--set", "broker.session.timeout.ms=2000", "--set", "broker.heartbeat.interval.ms=500")
	if status, body := d.page(3, "readyz"); status != 200 {
		t.Fatalf("ready: %d\n%s", status, body)
	}
	fmt.Fprint(d.in, "kill 1\nkill 2\n")
	for _, why := range []string{"no active controller is known", "no controller has been heard for "} {
		d.await(why, func() bool {
			status, body := d.page(3, "readyz")
			return status == 503 && strings.Contains(body, why)
		})
	}
	if status, body := d.page(3, "healthz"); status != 200 {
		t.Errorf("healthy: %d\n%s", status, body)
	}
	fmt.Fprint(d.in, "start 1\nstart 2\n")
	d.await("a ready node 3", func() bool {
		status, _ := d.page(3, "readyz")
		return status == 200
	})
}

// TestDevDies: the nodes stop by themselves when the process that runs them is
// gone, however it went.
func TestDevDies(t *testing.T) {
	d := startDev(t)
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = d.cmd.Wait() // says that it was killed
	d.awaitGone()
}
