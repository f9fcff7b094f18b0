package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcptrack/mcptrack/core/peertest"
)

// A closed terminal ends every command, also one without output and one that reloads its config on SIGHUP.
func TestTerminalCloses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	save(t, file, config(fmt.Sprintf(`"hung": {"command": "sleep", "args": ["600"], "env": {%q: %q}, "trackResources": true}`, peerMark, markOf(t))))
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"watch", "--type", "resource.updated"}, 0},
		{[]string{"watch"}, 0},
		{[]string{"list"}, exitInterrupted},
	} {
		window, end := openTerminal(t)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		cmd := mcptrackCommand(ctx, append(c.args, "--config", file)...)
		var stderr bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = end, end, &stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = end.Close()
		for len(marked(t, markOf(t))) == 0 && ctx.Err() == nil {
			<-time.After(10 * time.Millisecond)
		}
		_ = window.Close()
		if err := cmd.Wait(); ctx.Err() != nil || cmd.ProcessState.ExitCode() != c.code {
			t.Errorf("%v: %v, want exit %d\n%s", c.args, err, c.code, &stderr)
		}
		cancel()
	}
}

// exitInterrupted is the exit code of an interrupted command.
const exitInterrupted = 130

// On a terminal, a server that fails repeatedly has one line for its first failure, no log lines, and one hint.
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	save(t, file, config(`"crashy": {"command": "sh", "args": ["-c", "exit 3"], "trackResources": true}, "demo": `+demoEntry(t, markOf(t), `, "trackResources": true`)))
	window, end := openTerminal(t)
	if err := unix.IoctlSetWinsize(int(end.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 80}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := mcptrackCommand(ctx, "watch", "--config", file)
	cmd.Env = append(os.Environ(), "TERM=xterm", "TZ=Asia/Tokyo")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = end, end, end
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = end.Close()
	var seen strings.Builder
	buf := make([]byte, 4<<10)
	for counted := false; !counted; {
		n, err := window.Read(buf)
		seen.Write(buf[:n])
		if err != nil {
			t.Fatalf("%v after\n%s", err, &seen)
		}
		counted = strings.Contains(seen.String(), "retrying") && strings.Contains(seen.String(), "hint: ")
	}
	drained := make(chan struct{}) // closed when nothing more comes
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, window)
	}()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	_ = window.Close()
	<-drained
	got := seen.String()
	for text, want := range map[string]int{"level=": 0, "retrying": 1, "pending": 0, "connecting": 0, "hint: ": 1} {
		if n := strings.Count(got, text); n != want {
			t.Errorf("%q is there %d times, want %d:\n%s", text, n, want, got)
		}
	}
	local := func(at time.Time) bool { return strings.Contains(got, at.UTC().Add(9*time.Hour).Format("15:")) }
	if !local(began) && !local(time.Now()) {
		t.Errorf("no local times:\n%s", got)
	}
}

// Interrupts on the terminal are the pager's, which would otherwise be left behind.
func TestPagerIsInterrupted(t *testing.T) {
	t.Parallel()
	pager := filepath.Join(t.TempDir(), "pager")
	if err := os.WriteFile(pager, []byte("trap '' INT\necho ready\nwhile read line; do echo \"read $line\"; done </dev/tty\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	window, end := openTerminal(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := mcptrackCommand(ctx, "--help")
	cmd.Env = append(os.Environ(), "PAGER=sh "+pager)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = end, end, end
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = end.Close()
	screen := bufio.NewReader(window)
	for _, step := range []struct{ until, press string }{{"ready", "\x03a\n"}, {"read a", "\x03b\n"}, {"read b", "\x04"}} {
		for line := ""; !strings.Contains(line, step.until); {
			var err error
			if line, err = screen.ReadString('\n'); err != nil {
				t.Fatalf("%v before %q; mcptrack: %v", err, step.until, cmd.Wait())
			}
		}
		if _, err := io.WriteString(window, step.press); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// openTerminal opens a pseudo terminal: output to terminal can be read from screen.
func openTerminal(t *testing.T) (screen, terminal *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { screen.Close() })
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { terminal.Close() })
	return screen, terminal
}

// tmuxPane is a terminal of tmux, in a server of its own.
type tmuxPane struct {
	*testing.T
	socket string
}

func (p tmuxPane) run(args ...string) string {
	p.Helper()
	out, err := exec.CommandContext(p.Context(), "tmux", append([]string{"-S", p.socket, "-f", "/dev/null"}, args...)...).CombinedOutput()
	if err != nil {
		p.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// until waits for text on the screen and returns the screen.
func (p tmuxPane) until(part string) string {
	p.Helper()
	screen := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if screen = p.run("capture-pane", "-p"); strings.Contains(screen, part) {
			return screen
		}
	}
	p.Fatalf("no %q on\n%s", part, screen)
	return ""
}

func (p tmuxPane) press(keys ...string) { p.run(append([]string{"send-keys"}, keys...)...) }

// TestRealTop uses top in a real terminal. Afterwards the screen is restored.
func TestRealTop(t *testing.T) {
	t.Parallel()
	peertest.Program(t, "tmux")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp-servers.json")
	save(t, file, config(`"demo": `+demoEntry(t, markOf(t), `, "trackResources": true`)+`, "away": {"url": "http://127.0.0.1:1/mcp", "trackResources": true}`))
	for _, size := range [][2]int{{80, 24}, {200, 50}} {
		t.Run(fmt.Sprint(size[0]), func(t *testing.T) {
			p := tmuxPane{t, filepath.Join(dir, fmt.Sprint("tmux", size[0]))}
			p.run("new-session", "-d", "-x", fmt.Sprint(size[0]), "-y", fmt.Sprint(size[1]), "bash", "--norc")
			defer p.run("kill-server")
			p.press(fmt.Sprintf("PS1=; clear; echo before; bash -c 'exec -a mcptrack %s top --config %s'; echo left $?", self, file), "Enter")
			p.until("1 of 2 ready  1 failing")
			p.until("updated    vault://note/clock.md")
			p.press("/", "d", "e", "m", "o", "Enter")
			p.until("▸ready")
			p.press("Enter")
			p.until("[1 Resources ")
			p.press("2")
			p.until("count_words")
			p.press("1", "/", "c", "l", "o", "c", "k", "Enter", "Enter")
			p.until("# Clock")
			p.press("d")
			p.until("+- tick:")
			p.press("3")
			p.until("[3 History]")
			p.press("?")
			p.until("ctrl+z, ctrl+c")
			p.press("q", "q", "q", "q")
			if screen := p.until("left 0"); !strings.HasPrefix(screen, "before") || strings.Contains(screen, "Clock") {
				t.Errorf("the terminal is not as it was:\n%s", screen)
			}
		})
	}
}

// top shows the servers of a daemon, also those that are added to the config, and why the config is
// rejected. When the daemon has ended, top follows the servers itself.
func TestRealTopOverADaemon(t *testing.T) {
	t.Parallel()
	peertest.Program(t, "tmux")
	a := newAccount(t)
	untracked := `"untracked": ` + a.entry("counted-server", a.counted)
	save(t, a.config, config(a.tracked("counted"), untracked))
	g := a.mustAttach(nil)
	p := tmuxPane{t, filepath.Join(t.TempDir(), "tmux")}
	p.run(append(append([]string{"new-session", "-d", "-x", "120", "-y", "30", "env", "-i", "-C", a.dir}, a.env...),
		"TERM=screen", "sh", "-c", "mcptrack top; echo left $?; cat")...)
	defer p.run("kill-server")
	p.until("1 of 1 ready")
	save(t, a.config, config(a.tracked("counted"), untracked, a.tracked("added")))
	p.until("config reloaded  +added")
	p.until("2 of 2 ready")
	save(t, a.config, "{")
	if screen := p.until("config rejected"); strings.Contains(screen, "untracked") || strings.Contains(screen, "r reconnect") {
		t.Errorf("these are not the servers of the config, or not the daemon's:\n%s", screen)
	}
	save(t, a.config, config(a.tracked("added")))
	p.until("1 of 1 ready")
	a.closes(g)
	if _, err := a.run("daemon", "stop"); err != nil {
		t.Error(err)
	}
	p.until("r reconnect") // only of own servers
	p.until("1 of 1 ready")
	p.press("q")
	p.until("left 0")
}
