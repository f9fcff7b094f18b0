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
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	clockTick = 10 * time.Millisecond

	processLimit = 3 * time.Minute  // for any process
	goneLimit    = 15 * time.Second // after the client has exited
)

// lines reads text line by line: messages, log lines and event streams.
type lines struct{ *bufio.Reader }

func newLines(r io.Reader, size int) *lines { return &lines{bufio.NewReaderSize(r, size)} }

// next returns the next line. It is valid until the next call.
func (l *lines) next() ([]byte, error) {
	line, err := l.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	line = bytes.Clone(line)
	rest, err := l.ReadBytes('\n')
	return append(line, rest...), err
}

// A process is a program that was started, whose standard output is read line by line.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *lines
	began time.Time
	kill  context.CancelFunc
	ids   int // of its requests
}

// launch starts a program. close or exit waits for it. If both is set, its standard error is part of out.
func (b *bench) launch(ctx context.Context, both bool, argv ...string) (*process, error) {
	ctx, cancel := context.WithTimeout(ctx, processLimit)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = b.tmp, b.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// The group: a client that is killed cannot end its servers.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if both {
		cmd.Stderr = cmd.Stdout
	}
	p := &process{cmd: cmd, in: in, out: newLines(out, 256<<10), kill: cancel, began: time.Now()}
	if err := errors.Join(err1, err2); err != nil {
		cancel()
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	return p, nil
}

// using starts a program, and ends it when measure returns.
func (b *bench) using(ctx context.Context, both bool, argv []string, measure func(*process) error) error {
	p, err := b.launch(ctx, both, argv...)
	if err != nil {
		return err
	}
	return errors.Join(measure(p), p.close(), reapOrphans())
}

// open starts a server and asks it for its tools.
func (b *bench) open(ctx context.Context, argv []string) (*process, error) {
	p, err := b.launch(ctx, false, argv...)
	if err != nil {
		return nil, err
	}
	var tools json.RawMessage
	if err = p.initialize(); err == nil {
		tools, err = p.ask("tools/list", struct{}{})
	}
	if err == nil && !bytes.Contains(tools, []byte(`"inputSchema"`)) {
		err = fmt.Errorf("%s lists no tools: %.200s", strings.Join(argv, " "), tools)
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// openAll opens all servers together, as a host does. It returns those that are open, also after an error.
func (b *bench) openAll(ctx context.Context, argvs [][]string) ([]*process, error) {
	open, failed := make([]*process, len(argvs)), make([]error, len(argvs))
	var wg sync.WaitGroup
	for i, argv := range argvs {
		wg.Go(func() { open[i], failed[i] = b.open(ctx, argv) })
	}
	wg.Wait()
	return slices.DeleteFunc(open, func(p *process) bool { return p == nil }), errors.Join(failed...)
}

// await reads lines until one has the text n times over all lines, and returns the last of them.
func (p *process) await(text string, n int) ([]byte, error) {
	for {
		line, err := p.out.next()
		if err != nil {
			return nil, fmt.Errorf("%s: %d times %q missing: %w", strings.Join(p.cmd.Args, " "), n, text, err)
		}
		if !bytes.Contains(line, []byte(text)) {
			continue
		}
		if n--; n == 0 {
			return line, nil
		}
	}
}

// initialize opens a session of protocol 2025-11-25. It declares roots and elicitation, as most hosts do.
func (p *process) initialize() error {
	_, err := p.ask("initialize", json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true},"elicitation":{}},"clientInfo":{"name":"bench","version":"1"}}`))
	if err == nil {
		_, err = io.WriteString(p.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	}
	return err
}

// ask sends a request and returns the result. It skips notifications and lines that are no messages,
// which some servers print.
func (p *process) ask(method string, params any) (json.RawMessage, error) {
	p.ids++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": p.ids, "method": method, "params": params})
	if err == nil {
		_, err = p.in.Write(append(line, '\n'))
	}
	if err != nil {
		return nil, err
	}
	for {
		line, err := p.out.next()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.Join(p.cmd.Args, " "), err)
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
		}
		switch {
		case json.Unmarshal(line, &m) != nil:
		case m.Method == "roots/list":
			if _, err := fmt.Fprintf(p.in, `{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}}`+"\n", m.ID); err != nil {
				return nil, err
			}
		case m.Method != "" || string(m.ID) != strconv.Itoa(p.ids):
		case m.Result == nil:
			return nil, fmt.Errorf("%s: answer %.200s", strings.Join(p.cmd.Args, " "), line)
		default:
			return m.Result, nil
		}
	}
}

// exit waits for the end of the program, not of what it started. A failure of it is an error.
func (p *process) exit() error {
	defer p.kill()
	_, _ = io.Copy(io.Discard, p.out) // a full pipe would block the program
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(p.cmd.Args, " "), err)
	}
	return nil
}

// close ends the program and waits for it, not for what it started. How it ends does not matter.
func (p *process) close() error {
	_ = p.in.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(5*time.Second, p.kill)
	defer late.Stop()
	err := p.exit()
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		return nil
	}
	return err
}

// closeAll closes programs at the same time.
func closeAll(processes []*process) error {
	failed := make([]error, len(processes))
	var wg sync.WaitGroup
	for i, p := range processes {
		wg.Go(func() { failed[i] = p.close() })
	}
	wg.Wait()
	return errors.Join(failed...)
}

// run runs a program. It adds how long it took until it and all that it started were gone, and the
// most memory that it had resident. wait4 would include its servers, so the high water mark is read
// every now and then while it lives. No other child may run meanwhile.
func (b *bench) run(ctx context.Context, scenario, client string, argv ...string) error {
	p, err := b.launch(ctx, false, argv...)
	if err != nil {
		return err
	}
	mib := 0.0
	exited := make(chan error, 1)
	go func() { exited <- p.exit() }()
	for {
		select {
		case <-time.After(500 * time.Microsecond):
			if now, err := memory(p.cmd.Process.Pid, "status", "VmHWM"); err == nil {
				mib = max(mib, now)
			}
		case err := <-exited:
			if err := errors.Join(err, reapOrphans()); err != nil {
				return err
			}
			b.report.add(scenario, "wall", "ms", client, milliseconds(time.Since(p.began)))
			if mib > 0 { // else it ended before the first look
				b.report.add(scenario, "peak RSS", "MiB", client, mib)
			}
			return nil
		}
	}
}

// reapOrphans waits until this process has no child left. It kills those that stay.
func reapOrphans() error {
	deadline := time.Now().Add(goneLimit)
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.ECHILD):
			return nil
		case errors.Is(err, syscall.EINTR) || pid > 0:
		case err != nil:
			return err
		case time.Now().After(deadline):
			left := descendants(os.Getpid())
			for _, pid := range left {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				_, _ = syscall.Wait4(pid, nil, 0, nil)
			}
			return fmt.Errorf("%d processes were still alive %v after their client", len(left), goneLimit)
		default:
			time.Sleep(200 * time.Microsecond)
		}
	}
}

// descendants returns the processes that a process has started, and those that these have started,
// without those that have ended.
func descendants(pid int) []int {
	files, _ := filepath.Glob("/proc/[0-9]*")
	children := map[int][]int{}
	for _, file := range files {
		child, _ := strconv.Atoi(filepath.Base(file))
		stat, err := statOf(child)
		if err != nil || stat[0] == "Z" {
			continue // it has ended
		}
		parent, _ := strconv.Atoi(stat[1])
		children[parent] = append(children[parent], child)
	}
	found := slices.Clone(children[pid])
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}

// statOf returns the fields of /proc/PID/stat that follow the name, which may hold blanks and
// parentheses: the state, the parent, and so on.
func statOf(pid int) ([]string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 13 {
		return nil, fmt.Errorf("/proc/%d/stat is %.100q", pid, data)
	}
	return fields, nil
}

// cpuTime is the user and system time of a process, its children left out.
func cpuTime(pid int) (time.Duration, error) {
	stat, err := statOf(pid)
	if err != nil {
		return 0, err
	}
	user, err1 := strconv.Atoi(stat[11])
	system, err2 := strconv.Atoi(stat[12])
	return time.Duration(user+system) * clockTick, errors.Join(err1, err2)
}

// memory reads a field of /proc/PID/file that is given in kB, as MiB.
func memory(pid int, file, field string) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(data), "\n"+field+":")
	if !ok {
		return 0, fmt.Errorf("process %d has no %s: it is gone", pid, field)
	}
	kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	return kb / 1024, err
}

// proportional returns the memory of processes in MiB. What several processes share is divided among
// them, so that it is counted once.
func proportional(pids []int) (mib float64, err error) {
	for _, pid := range pids {
		one, err := memory(pid, "smaps_rollup", "Pss")
		if err != nil {
			return 0, err
		}
		mib += one
	}
	return mib, nil
}
