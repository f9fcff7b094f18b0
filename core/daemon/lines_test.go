package daemon

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"path/filepath"
	"testing"

	"github.com/mcptrack/mcptrack/core/daemon/ipc"
)

// A line for the relay is between two messages although the socket has taken a part of the first.
func TestLinesForTheRelay(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(client).Encode(ipc.Hello{Protocol: ipc.Protocol}); err != nil {
		t.Fatal(err)
	}
	c, err := ipc.Accept(t.Context(), conn, ipc.Build{})
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan [][]byte)
	go func() {
		var all [][]byte
		for r := bufio.NewReader(client); ; {
			line, err := r.ReadBytes('\n')
			if err != nil {
				read <- all
				return
			}
			all = append(all, line)
		}
	}()
	message := append(bytes.Repeat([]byte("x"), 8<<20), '\n')
	out := &lines{conn: c}
	n := out.Try(message)
	if err := out.control(map[string]any{"ends": true}); err != nil {
		t.Error(err)
	}
	if _, err := out.Write(message[n:]); err != nil {
		t.Error(err)
	}
	_ = out.Close()
	whole, control := 0, 0
	for _, line := range <-read {
		if bytes.Equal(line, message) {
			whole++
		} else if json.Valid(line) {
			control++
		}
	}
	if whole != 1 || control != 1 {
		t.Errorf("%d messages and %d lines for the relay arrived whole", whole, control)
	}
}
