package broker

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// frameBytes returns how much memory the frames of all connections may take
// together: a quarter of the limit, which is the configured one or else the
// container's or machine's.
func frameBytes(configured int64) int64 {
	limit := configured
	if limit <= 0 {
		limit = memoryLimit()
	}
	return max(limit/4, frameBytesLeast)
}

// frameBytesLeast lets one Produce of the largest size through anywhere.
const frameBytesLeast = 128 << 20

// memoryLimit returns the least of what the kernel says this process may use.
func memoryLimit() int64 {
	limit := int64(1 << 40)
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if text, err := os.ReadFile(path); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
				limit = min(limit, n)
			}
		}
	}
	if n := machineMemory(); n > 0 {
		limit = min(limit, n)
	}
	return limit
}

func machineMemory() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}
