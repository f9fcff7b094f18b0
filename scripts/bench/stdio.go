//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stdioLimit is how long a client of a stdio server runs at most.
const stdioLimit = 3 * time.Minute

// stdioClient is a client of one stdio server, protocol 2025-11-25, with as little of its own as can
// be. It has one request in flight. It declares roots and elicitation, as most hosts do.
type stdioClient struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	began time.Time
	first time.Duration // from the start to the first byte of the first answer
	ids   int
	stop  context.CancelFunc
}

// startStdio starts a server and sends the request initialize. It does not wait for the answer.
func startStdio(ctx context.Context, dir string, env, argv []string) (*stdioClient, error) {
	ctx, cancel := context.WithTimeout(ctx, stdioLimit)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		cancel()
		return nil, err
	}
	c := &stdioClient{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 64<<10), stop: cancel, began: time.Now()}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	if err := c.send("initialize", json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true},"elicitation":{}},"clientInfo":{"name":"bench","version":"1"}}`)); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// initialized waits for the answer to initialize.
func (c *stdioClient) initialized() error {
	_, err := c.out.Peek(1)
	c.first = time.Since(c.began)
	if err == nil {
		_, err = c.answer()
	}
	if err == nil {
		_, err = io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	}
	return err
}

// ask sends a request and waits for its answer.
func (c *stdioClient) ask(method string, params any) (json.RawMessage, error) {
	if err := c.send(method, params); err != nil {
		return nil, err
	}
	return c.answer()
}

func (c *stdioClient) send(method string, params any) error {
	c.ids++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.ids, "method": method, "params": params})
	if err == nil {
		_, err = c.in.Write(append(line, '\n'))
	}
	return err
}

// answer reads up to the answer to the last request. Notifications are ignored, and so are lines that
// are no messages, which some servers print.
func (c *stdioClient) answer() (json.RawMessage, error) {
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.Join(c.cmd.Args, " "), err)
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
		}
		switch {
		case json.Unmarshal(line, &m) != nil:
			continue
		case m.Method == "roots/list":
			if _, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}}`+"\n", m.ID); err != nil {
				return nil, err
			}
			continue
		case m.Method != "" || string(m.ID) != strconv.Itoa(c.ids):
			continue
		case m.Result == nil:
			return nil, fmt.Errorf("%s: answer %.200s", strings.Join(c.cmd.Args, " "), line)
		}
		return m.Result, nil
	}
}

// close ends the server as hosts do, and waits for it.
func (c *stdioClient) close() error {
	_ = c.in.Close()
	late := time.AfterFunc(5*time.Second, c.stop)
	_, _ = io.Copy(io.Discard, c.out)
	err := c.cmd.Wait()
	late.Stop()
	c.stop()
	if !isExit(err) {
		return err
	}
	return nil
}

// A session is what one window of a host has open: a client for each server.
type session []*stdioClient

// openSession starts all servers together. It returns when each has listed its tools, and how long
// that took.
func openSession(ctx context.Context, dir string, env []string, argvs [][]string) (session, time.Duration, error) {
	s, failed := make(session, len(argvs)), make([]error, len(argvs))
	began := time.Now()
	var wg sync.WaitGroup
	for i, argv := range argvs {
		wg.Go(func() {
			c, err := startStdio(ctx, dir, env, argv)
			if err != nil {
				failed[i] = err
				return
			}
			s[i] = c
			var tools json.RawMessage
			if err = c.initialized(); err == nil {
				tools, err = c.ask("tools/list", map[string]any{})
			}
			if err == nil && !bytes.Contains(tools, []byte(`"inputSchema"`)) {
				err = fmt.Errorf("%s lists no tools: %.200s", strings.Join(argv, " "), tools)
			}
			failed[i] = err
		})
	}
	wg.Wait()
	took := time.Since(began)
	if err := errors.Join(failed...); err != nil {
		return nil, 0, errors.Join(err, s.close())
	}
	return s, took, nil
}

func (s session) close() error {
	failed := make([]error, len(s))
	var wg sync.WaitGroup
	for i, c := range s {
		if c != nil {
			wg.Go(func() { failed[i] = c.close() })
		}
	}
	wg.Wait()
	return errors.Join(failed...)
}
