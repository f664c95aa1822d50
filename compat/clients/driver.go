package clients

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/tidemark/tidemark/compat/proc"
)

// patience is how long a driver may take for one operation.
const patience = 60 * time.Second

// dumping is how long one that took longer has to say where it is.
const dumping = 2 * time.Second

// Driver is a running client. Its methods are for one goroutine.
type Driver struct {
	client Client
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr proc.Output
}

// Start starts a client against the broker at addr.
func (c Client) Start(ctx context.Context, addr string) (*Driver, error) {
	dir, err := source()
	if err != nil {
		return nil, err
	}
	argv, err := c.argv(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	d := &Driver{client: c, cmd: exec.Command(argv[0], append(argv[1:], addr)...)}
	d.cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=1", "KAFKAJS_NO_PARTITIONER_WARNING=1")
	d.cmd.Stderr = &d.stderr
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d.out = bufio.NewReaderSize(out, 1<<20)
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the driver of %s: %w", c.Name, err)
	}
	return d, nil
}

// Request is one line to a driver; the zero value of what an operation doesn't
// use is left out.
type Request struct {
	Op          string            `json:"op"`
	Topic       string            `json:"topic,omitempty"`
	Pattern     string            `json:"pattern,omitempty"`
	Partition   int               `json:"partition"`
	Partitions  int               `json:"partitions,omitempty"`
	Replication int               `json:"replication,omitempty"`
	Configs     map[string]string `json:"configs,omitempty"`

	Codec      string   `json:"codec,omitempty"`
	Idempotent bool     `json:"idempotent,omitempty"`
	Records    []Record `json:"records,omitempty"`

	// From is "earliest", "latest", an offset, or "ts:" and milliseconds.
	From string `json:"from,omitempty"`
	// Reset is what is done about an offset out of range: "error", "earliest"
	// or "latest".
	Reset   string `json:"reset,omitempty"`
	Count   int    `json:"count,omitempty"`
	Timeout int    `json:"timeout,omitempty"` // milliseconds
	Time    int64  `json:"t,omitempty"`

	Member   string `json:"member,omitempty"`
	Group    string `json:"group,omitempty"`
	Instance string `json:"instance,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	Strategy string `json:"strategy,omitempty"`
}

// Record is a record as drivers take and give it. A nil Key or Value is null.
type Record struct {
	Partition int      `json:"p"`
	Offset    int64    `json:"o"`
	Time      int64    `json:"t,omitempty"`
	Key       []byte   `json:"k"`
	Value     []byte   `json:"v"`
	Headers   []Header `json:"h,omitempty"`
}

// Header is a record header; it travels as a pair.
type Header struct {
	Key   string
	Value []byte
}

// MarshalJSON implements json.Marshaler.
func (h Header) MarshalJSON() ([]byte, error) { return json.Marshal([]any{h.Key, h.Value}) }

// UnmarshalJSON implements json.Unmarshaler.
func (h *Header) UnmarshalJSON(b []byte) error {
	pair := []any{&h.Key, &h.Value}
	return json.Unmarshal(b, &pair)
}

// Answer is one line from a driver.
type Answer struct {
	// Error is what the client said, in its own words.
	Error string `json:"error"`

	Client  string `json:"client"`
	Version string `json:"version"`

	Acks       []Ack             `json:"acks"`
	Records    []Record          `json:"records"`
	Assignment []Assigned        `json:"assignment"`
	Start      int64             `json:"start"`
	End        int64             `json:"end"`
	At         int64             `json:"at"`
	Offset     int64             `json:"offset"`
	Configs    map[string]string `json:"configs"`
	Topics     map[string]int    `json:"topics"`
}

// Ack is what became of one produced record.
type Ack struct {
	Partition int    `json:"p"`
	Offset    int64  `json:"o"`
	Error     string `json:"error"`
}

// Assigned is a partition that a member of a group has; it travels as a pair.
type Assigned struct {
	Topic     string
	Partition int
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Assigned) UnmarshalJSON(b []byte) error {
	pair := []any{&a.Topic, &a.Partition}
	return json.Unmarshal(b, &pair)
}

// ErrSilent is a driver that didn't answer, because it ended or hangs.
var ErrSilent = errors.New("the driver gave no answer")

// Do has the client do r. What the client refuses is in Answer.Error; an error
// is a driver that broke.
func (d *Driver) Do(r Request) (Answer, error) {
	var a Answer
	line, err := json.Marshal(r)
	if err != nil {
		return a, err
	}
	if _, err := d.in.Write(append(line, '\n')); err != nil {
		return a, d.broken(r, err)
	}
	// A driver that hangs is ended, which ends the reading. It says first where it
	// is, if it can.
	watch := time.AfterFunc(patience, func() { _ = d.cmd.Process.Signal(syscall.SIGQUIT) })
	defer watch.Stop()
	end := time.AfterFunc(patience+dumping, func() { _ = d.cmd.Process.Kill() })
	defer end.Stop()
	line, err = d.out.ReadBytes('\n')
	if err != nil {
		return a, d.broken(r, err)
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return a, d.broken(r, fmt.Errorf("%w in %q", err, line))
	}
	return a, nil
}

func (d *Driver) broken(r Request, err error) error {
	return fmt.Errorf("%s, %s: %w: %v\n%s", d.client.Name, r.Op, ErrSilent, err, proc.Tail(d.stderr.String(), 60))
}

// Stderr is what the client printed besides.
func (d *Driver) Stderr() string { return d.stderr.String() }

// Kill ends the client at once, as kill -9 does.
func (d *Driver) Kill() {
	_ = d.cmd.Process.Kill()
	_ = d.in.Close()
	_ = d.cmd.Wait()
}
