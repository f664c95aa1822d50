package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is what a process has used so far.
type Usage struct {
	CPU       time.Duration // all threads, user and system, nanosecond resolution
	User, Sys time.Duration // the same apart, in clock ticks of 10 ms
	RSS       int64         // resident now, bytes
	PeakRSS   int64         // resident at most so far, bytes
}

// clockTick is the kernel's USER_HZ, which Linux fixes at 100 on every
// architecture Go runs on.
const clockTick = 10 * time.Millisecond

// Sub returns what was used between v and u; the resident sizes are u's.
func (u Usage) Sub(v Usage) Usage {
	return Usage{CPU: u.CPU - v.CPU, User: u.User - v.User, Sys: u.Sys - v.Sys, RSS: u.RSS, PeakRSS: u.PeakRSS}
}

// ReadUsage reads the usage of another process. The CPU figure comes from that
// process's own CPU clock (clock_getcpuclockid), since the ticks of
// /proc/PID/stat are too coarse for a run of a second.
func ReadUsage(pid int) (Usage, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &ts); err != nil {
		return Usage{}, fmt.Errorf("cpu clock of process %d: %w", pid, err)
	}
	u := Usage{CPU: time.Duration(ts.Nano())}
	if err := readTicks(pid, &u); err != nil {
		return Usage{}, err
	}
	return u, readMemory(pid, &u)
}

func readTicks(pid int, u *Usage) error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return err
	}
	// The command name may hold spaces; fields are counted behind its ')'.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return fmt.Errorf("/proc/%d/stat: %d fields", pid, len(fields))
	}
	user, err := strconv.ParseInt(string(fields[11]), 10, 64)
	if err != nil {
		return err
	}
	sys, err := strconv.ParseInt(string(fields[12]), 10, 64)
	if err != nil {
		return err
	}
	u.User, u.Sys = time.Duration(user)*clockTick, time.Duration(sys)*clockTick
	return nil
}

func readMemory(pid int, u *Usage) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err
	}
	for _, line := range bytes.Split(status, []byte("\n")) {
		fields := bytes.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, err := strconv.ParseInt(string(fields[1]), 10, 64)
		if err != nil {
			continue
		}
		switch string(fields[0]) {
		case "VmRSS:":
			u.RSS = kib << 10
		case "VmHWM:":
			u.PeakRSS = kib << 10
		}
	}
	return nil
}
