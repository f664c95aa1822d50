package proc

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports from which brokers that are started again are given theirs: outside the
// range that the kernel hands to outgoing connections, so that nobody takes a
// port while its broker is down.
const (
	portMin = 20000
	portMax = 32000
)

// FreePorts returns the first of n neighbouring ports that nothing listens on
// now, on the IPv4 loopback.
func FreePorts(n int) (int, error) {
	for range 200 {
		first := portMin + rand.IntN(portMax-portMin-n)
		if allFree(first, n) {
			return first, nil
		}
	}
	return 0, errors.New("proc: no free ports on the loopback")
}

func allFree(first, n int) bool {
	for p := first; p < first+n; p++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}
