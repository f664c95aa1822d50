// Command driver drives the Kafka clients that are written in Go: one JSON
// object a line in, one a line out.
//
//	driver CLIENT HOST:PORT
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ops is what a driver can do.
type ops interface {
	hello() (client, module string)
	produce(r *request) ([]ack, error)
	consume(r *request) ([]rec, error)
	offsets(r *request) (start, end, at int64, err error)
	create(r *request) error
	remove(r *request) error
	grow(r *request) error
	alter(r *request) error
	configs(r *request) (map[string]string, error)
	topics(r *request) (map[string]int, error)
	join(r *request) error
	poll(r *request) ([]rec, [][2]any, error)
	commit(r *request) error
	committed(r *request) (int64, error)
	leave(r *request) error
}

type request struct {
	Op, Topic, Pattern      string
	Partition               int32
	Partitions, Replication int
	Configs                 map[string]string
	Codec                   string
	Idempotent              bool
	Records                 []rec
	From, Reset             string
	Count, Timeout          int
	T                       int64
	Member, Group, Instance string
	Protocol, Strategy      string
}

// within is the time that the request allows.
func (r *request) within(d time.Duration) time.Duration {
	if r.Timeout > 0 {
		return time.Duration(r.Timeout) * time.Millisecond
	}
	return d
}

// position reads From: a special offset, an offset or a time in milliseconds.
func (r *request) position() (special string, n int64) {
	if ms, ok := strings.CutPrefix(r.From, "ts:"); ok {
		n, _ = strconv.ParseInt(ms, 10, 64)
		return "ts", n
	}
	if n, err := strconv.ParseInt(r.From, 10, 64); err == nil {
		return "", n
	}
	return r.From, 0
}

type rec struct {
	P int32    `json:"p"`
	O int64    `json:"o"`
	T int64    `json:"t"`
	K []byte   `json:"k"`
	V []byte   `json:"v"`
	H []header `json:"h"`
}

type header struct {
	K string
	V []byte
}

func (h header) MarshalJSON() ([]byte, error) { return json.Marshal([]any{h.K, h.V}) }

func (h *header) UnmarshalJSON(b []byte) error {
	pair := []any{&h.K, &h.V}
	return json.Unmarshal(b, &pair)
}

type ack struct {
	P     int32  `json:"p"`
	O     int64  `json:"o"`
	Error string `json:"error,omitempty"`
}

// answer does what a request says.
func answer(o ops, r *request) (map[string]any, error) {
	switch r.Op {
	case "hello":
		client, module := o.hello()
		return map[string]any{"client": client, "version": version(module)}, nil
	case "produce":
		acks, err := o.produce(r)
		return map[string]any{"acks": acks}, err
	case "consume":
		rs, err := o.consume(r)
		return map[string]any{"records": rs}, err
	case "offsets":
		start, end, at, err := o.offsets(r)
		return map[string]any{"start": start, "end": end, "at": at}, err
	case "create":
		return nil, o.create(r)
	case "delete":
		return nil, o.remove(r)
	case "grow":
		return nil, o.grow(r)
	case "alter":
		return nil, o.alter(r)
	case "configs":
		m, err := o.configs(r)
		return map[string]any{"configs": m}, err
	case "topics":
		m, err := o.topics(r)
		return map[string]any{"topics": m}, err
	case "join":
		return nil, o.join(r)
	case "poll":
		rs, owns, err := o.poll(r)
		return map[string]any{"records": rs, "assignment": owns}, err
	case "commit":
		return nil, o.commit(r)
	case "committed":
		offset, err := o.committed(r)
		return map[string]any{"offset": offset}, err
	case "leave":
		return nil, o.leave(r)
	}
	return nil, fmt.Errorf("no operation %q", r.Op)
}

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	if len(os.Args) != 3 {
		return errors.New("usage: driver CLIENT HOST:PORT")
	}
	var o ops
	switch addr := os.Args[2]; os.Args[1] {
	case "kgo":
		o = newFranz(addr)
	case "sarama":
		o = newSarama(addr)
	case "kafka-go":
		o = newSegment(addr)
	default:
		return fmt.Errorf("no client %q", os.Args[1])
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil // the test is done
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		a, err := answer(o, &r)
		if a == nil {
			a = map[string]any{}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, r.Op, err)
			a["error"] = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
}
