//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	prSetChildSubreaper = 36 // prctl(2)
	clockTick           = 10 * time.Millisecond

	oneShotLimit = 60 * time.Second
	goneLimit    = 15 * time.Second // after the client has exited
)

// adoptOrphans makes this process the parent of every descendant whose own
// parent has gone, so that a server that outlives its client is seen.
func adoptOrphans() error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		return fmt.Errorf("become subreaper: %w", errno)
	}
	return nil
}

// oneShot runs a command to its end and returns how long it took until it and
// all its descendants were gone. No other child may run meanwhile.
func oneShot(ctx context.Context, argv []string) (time.Duration, error) {
	took, _, err := measured(ctx, argv)
	return took, err
}

// measured runs a command like oneShot, and also returns its user and system time, without the time of
// its descendants.
func measured(ctx context.Context, argv []string) (took, cpu time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, oneShotLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A file and not a pipe: Wait is not to wait for servers that hold it.
	sink, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return 0, 0, err
	}
	defer sink.Close()
	cmd.Stdout, cmd.Stderr = sink, sink
	began := time.Now()
	err = cmd.Start()
	if err == nil {
		err = ended(cmd.Process.Pid)
		var ofStat error
		cpu, ofStat = cpuTime(cmd.Process.Pid)
		err = errors.Join(err, ofStat, cmd.Wait(), reapOrphans(began))
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return time.Since(began), cpu, nil
}

// ended waits until a child has ended, and leaves it to be waited for, so that /proc still has its times.
func ended(pid int) error {
	const idPID, exited, noWait = 1, 0x4, 0x1000000 // waitid(2)
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, idPID, uintptr(pid), 0, exited|noWait, 0, 0)
		if errno == 0 {
			return nil
		}
		if errno != syscall.EINTR {
			return fmt.Errorf("wait for process %d: %w", pid, errno)
		}
	}
}

// reapOrphans waits until this process has no child left.
func reapOrphans(began time.Time) error {
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
			killChildren()
			return fmt.Errorf("a server was still alive %v after the start", time.Since(began).Round(time.Millisecond))
		default:
			time.Sleep(200 * time.Microsecond)
		}
	}
}

// killChildren ends what this process has adopted: its own children, by id.
func killChildren() {
	data, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	if err != nil {
		return
	}
	for field := range strings.FieldsSeq(string(data)) {
		if pid, err := strconv.Atoi(field); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			_, _ = syscall.Wait4(pid, nil, 0, nil)
		}
	}
}

// peakRSS runs a command like oneShot and returns the most memory that the
// client itself had resident. wait4 would include its servers, so the
// high water mark is read every now and then while the client lives.
func peakRSS(ctx context.Context, argv []string) (mib float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, oneShotLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	exited := make(chan error, 1) // one result, whether or not it is awaited
	go func() { exited <- cmd.Wait() }()
	look := time.NewTicker(500 * time.Microsecond)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if now, err := memory(cmd.Process.Pid, "VmHWM"); err == nil {
				mib = max(mib, now)
			}
		case err := <-exited:
			return mib, errors.Join(err, reapOrphans(began))
		}
	}
}

// memory reads a field of /proc/PID/status that is given in kB, as MiB.
func memory(pid int, field string) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return kilobytes(string(data), field)
}

// kilobytes reads a field of a file in /proc that is given in kB, as MiB.
func kilobytes(text, field string) (float64, error) {
	_, rest, ok := strings.Cut(text, field+":")
	if !ok {
		return 0, fmt.Errorf("no %s: the process is gone", strings.TrimSpace(field))
	}
	kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	return kb / 1024, err
}

// cpuTime is the user and system time of a process, its children left out.
func cpuTime(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), ") ") // the name may hold blanks
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return time.Duration(user+system) * clockTick, errors.Join(err1, err2)
}

// A running client whose standard output is read line by line.
type running struct {
	cmd   *exec.Cmd
	out   *bufio.Reader
	began time.Time
	stop  context.CancelFunc
	cause func() error // says that it ran longer than its limit; nil: it did not

	drained chan struct{} // closed when somebody else has read out to its end; nil: nobody does
	killed  *time.Timer   // set by terminate
}

// start starts a program. close ends it; after limit it is killed. If both is set, its standard error
// is part of out.
func start(ctx context.Context, limit time.Duration, argv []string, both bool) (*running, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s was killed by the bench, as it ran for %v", argv[0], limit))
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// The group: a client that is killed cannot end its servers.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	if both {
		cmd.Stderr = cmd.Stdout
	}
	r := &running{cmd: cmd, out: bufio.NewReaderSize(pipe, 256<<10), began: time.Now(), stop: cancel}
	r.cause = func() error {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil
		}
		return context.Cause(ctx)
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	return r, nil
}

// await reads lines until one has the text n times over all lines, and returns
// when the last of them came.
func (r *running) await(text string, n int) (time.Duration, error) {
	for n > 0 {
		line, err := r.out.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return 0, fmt.Errorf("%s: %d times %q missing: %w", strings.Join(r.cmd.Args, " "), n, text, err)
		}
		if bytes.Contains(line, []byte(text)) {
			n--
		}
	}
	return time.Since(r.began), nil
}

// close ends the client and everything it started, and waits for them.
func (r *running) close() error {
	r.terminate()
	if r.drained != nil {
		<-r.drained
	} else {
		_, _ = io.Copy(io.Discard, r.out) // a full pipe would block the program while it stops
	}
	return r.finish()
}

// end ends the client beside which others run. What it started is left to their close.
func (r *running) end() {
	r.terminate()
	_ = r.cmd.Wait() // how it ends is not measured
	r.killed.Stop()
	r.stop()
}

// terminate asks the client to end, and makes it end after 5 s.
func (r *running) terminate() {
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	r.killed = time.AfterFunc(5*time.Second, r.stop)
}

// finish waits for the end, once the output was read to its end.
func (r *running) finish() error {
	err := r.cmd.Wait()
	r.killed.Stop()
	killed := r.cause()
	r.stop()
	if killed != nil {
		return errors.Join(killed, reapOrphans(time.Now()))
	}
	if !isExit(err) {
		return err
	}
	return reapOrphans(time.Now())
}
