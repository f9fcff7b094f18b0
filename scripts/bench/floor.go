//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// runFloor lists tools, resources and prompts with nothing but lines of text,
// as fast as the server can be asked and ended: no client can be faster.
func runFloor(server []string) error {
	if len(server) == 0 {
		return errors.New("floor: no server")
	}
	cmd := exec.Command(server[0], server[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	answers := bufio.NewReaderSize(out, 256<<10)
	_, err = io.WriteString(in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"floor","version":"1"}}}`+"\n")
	if err == nil {
		err = awaitAnswers(answers, 1)
	}
	if err == nil {
		_, err = io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+
			`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`+"\n"+
			`{"jsonrpc":"2.0","id":2,"method":"resources/list"}`+"\n"+
			`{"jsonrpc":"2.0","id":3,"method":"prompts/list"}`+"\n")
	}
	if err == nil {
		err = awaitAnswers(answers, 3)
	}
	in.Close()
	late := time.AfterFunc(100*time.Millisecond, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer late.Stop()
	if err != nil {
		_ = cmd.Process.Kill()
	}
	_, _ = io.Copy(io.Discard, answers)
	// How the server ends when its stdin does is its own affair.
	if werr := cmd.Wait(); !isExit(werr) {
		err = errors.Join(err, werr)
	}
	fmt.Fprintln(os.Stdout, "done")
	return err
}

func isExit(err error) bool {
	var exit *exec.ExitError
	return err == nil || errors.As(err, &exit)
}

func awaitAnswers(in *bufio.Reader, n int) error {
	for n > 0 {
		line, err := in.ReadString('\n')
		if err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		if strings.Contains(line, `"error":`) {
			return fmt.Errorf("server answered %s", line)
		}
		if strings.Contains(line, `"id":`) {
			n--
		}
	}
	return nil
}
