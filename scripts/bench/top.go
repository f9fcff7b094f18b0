//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"
)

const (
	topRate  = 100 // events a second
	topWarm  = 3 * time.Second
	topSpan  = 5 * time.Second
	topWidth = 200 // columns

	// topLeast is how many bytes are printed at least; top writes changed cells only.
	topLeast = int64(topSpan/time.Second) * topRate * 20
)

// A topBench measures the live terminal.
type topBench struct{ *bench }

// top measures what the live terminal takes while 100 events a second come in, beside
// watch, which prints them: the share of one CPU, and the memory that is resident.
func (b topBench) top(ctx context.Context) error {
	l := load{resources: 5 * topRate / 2, times: filepath.Join(b.tmp, "times")} // each at most once in the 2 s in which events are coalesced
	file, err := b.writeConfig(map[string]any{"load": map[string]any{
		"command": b.self, "args": b.blastArgv(l)[1:], "read": "none", "trackResources": true, "trackTools": false, "trackPrompts": false,
		"onConnect": []any{map[string]any{"tool": "blast", "arguments": map[string]any{"count": int((topWarm + topSpan + 30*time.Second).Seconds()) * topRate, "rate": topRate}}},
	}})
	if err != nil {
		return err
	}
	for run := range b.runs {
		for command, turns := range map[string]int{"watch": b.seldom(), "top": b.runs} {
			if run >= turns {
				continue
			}
			if err := b.onTerminal(ctx, command, []string{b.mcptrack, "--config", file, command}); err != nil {
				return err
			}
		}
	}
	b.report.atMost(5, "top", "CPU at 100 events/s")
	b.report.difference(30, "top", "watch", "RSS at 100 events/s")
	return nil
}

// onTerminal runs a command on a terminal of its own and adds what it takes to the report.
func (b topBench) onTerminal(ctx context.Context, scenario string, argv []string) (err error) {
	screen, tty, err := openTerminal(topWidth, 50)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	_ = tty.Close()
	if err != nil {
		return errors.Join(err, screen.Close())
	}
	drained := make(chan int64, 1) // the bytes that it printed; sent to once
	go func() {
		n, _ := io.Copy(io.Discard, screen) // fails when the other side is closed
		drained <- n
	}()
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // a terminal that goes away may be an error
		printed := <-drained
		_ = screen.Close()
		if err = errors.Join(err, reapOrphans(time.Now())); err == nil && printed < topLeast {
			err = fmt.Errorf("%s printed only %d bytes", scenario, printed)
		}
	}()
	wait := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	wait(topWarm)
	began := time.Now()
	before, err := cpuTime(cmd.Process.Pid)
	if err != nil {
		return err
	}
	wait(topSpan)
	after, err := cpuTime(cmd.Process.Pid)
	if err != nil {
		return err
	}
	mib, err := memory(cmd.Process.Pid, "VmRSS")
	if err != nil {
		return err
	}
	b.report.add(scenario, "CPU at 100 events/s", "%", "mcptrack", 100*float64(after-before)/float64(time.Since(began)))
	b.report.add(scenario, "RSS at 100 events/s", "MiB", "mcptrack", mib)
	return ctx.Err()
}

// openTerminal makes a pseudo terminal: what is written to tty is read from screen.
func openTerminal(columns, rows uint16) (screen, tty *os.File, err error) {
	screen, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			_ = screen.Close()
		}
	}()
	var locked, number int32
	size := [4]uint16{rows, columns}
	for request, argument := range map[uintptr]unsafe.Pointer{
		syscall.TIOCSPTLCK: unsafe.Pointer(&locked), syscall.TIOCGPTN: unsafe.Pointer(&number), syscall.TIOCSWINSZ: unsafe.Pointer(&size),
	} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, screen.Fd(), request, uintptr(argument)); errno != 0 {
			return nil, nil, fmt.Errorf("make a terminal: %w", errno)
		}
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	return screen, tty, err
}
