package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/tidemark/tidemark/internal/lifecycle"
)

// answerBytes is the size of a Produce answer for one partition.
const answerBytes = 64

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: echopeer PORT")
		os.Exit(2)
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "echopeer:", err)
		os.Exit(1)
	}
	var conns lifecycle.Group
	for {
		c, err := l.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, "echopeer:", err)
			os.Exit(1)
		}
		conns.Go("connection", func() { answer(c) })
	}
}

// answer serves one connection until it ends.
func answer(c net.Conn) {
	defer c.Close()
	in := bufio.NewReaderSize(c, 64<<10)
	out := make([]byte, 4+answerBytes)
	binary.BigEndian.PutUint32(out, answerBytes)
	var size [4]byte
	for {
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return
		}
		if _, err := in.Discard(int(binary.BigEndian.Uint32(size[:]))); err != nil {
			return
		}
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}
