//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mcptrack/mcptrack/core/peertest"
)

// TestScript runs the program as users do, against mcptrack's demo server.
func TestScript(t *testing.T) {
	t.Parallel()
	runScripts(t, "")
}

// TestRealScript runs the scripts that need more than Go, a shell and its usual programs.
func TestRealScript(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"curl", "jq", "gnome-keyring-daemon", "secret-tool", "dbus-run-session"} {
		peertest.Program(t, name)
	}
	runScripts(t, "real")
}

// runScripts runs the scripts of a folder in testdata/script.
func runScripts(t *testing.T, folder string) {
	t.Helper()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("..", "..", "testdata", "script", folder),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_CACHE_HOME", filepath.Join(env.WorkDir, ".cache"))
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, ".config"))
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, ".state"))
			env.Setenv("MCPTRACK_SOCKET", filepath.Join(env.WorkDir, "d", "s"))
			env.Setenv("NO_COLOR", "1")
			env.Setenv("MCPTRACK_TRUST", env.WorkDir) // trust.txtar tests what is not
			env.Values[addressesKey{}] = addresses{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"completes": completes, "exits": exits, "gets": gets, "json": jsonField, "serves": serves, "shows": shows, "streams": streams},
	})
}

// gets asks for a URL until the answer matches: gets URL PATTERN.
func gets(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: gets URL PATTERN")
	}
	url, want := ts.Value(addressesKey{}).(addresses).replace(args[0]), regexp.MustCompile("(?m)"+args[1])
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		p, err := http.Get(url) //nolint:noctx // the server ends with the script
		ts.Check(err)
		body, err := io.ReadAll(p.Body)
		_ = p.Body.Close()
		ts.Check(err)
		if want.Match(body) {
			return
		}
		if time.Since(began) > docsTimeout {
			ts.Fatalf("%s: no match for %s in\n%s", url, want, body)
		}
	}
}

// exits runs a program and wants a certain exit code: exits CODE PROGRAM [ARG...].
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Exec returns it bare
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// completes wants a completion that only a server can tell: completes PATTERN [ARG...]. Completion waits
// for servers for less than a second, so it is asked again while the machine is busy.
func completes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: completes PATTERN [ARG...]")
	}
	want := regexp.MustCompile("(?m)" + args[0])
	for began := time.Now(); ; {
		ts.Check(ts.Exec("mcptrack", append([]string{"__complete"}, args[1:]...)...))
		switch got := ts.ReadFile("stdout"); {
		case want.MatchString(got):
			return
		case time.Since(began) > docsTimeout:
			ts.Fatalf("no completion matches %s: %s", want, got)
		}
	}
}

// jsonField checks the last output: json FILE PATH WANT, where FILE is stdout or
// stderr, PATH is like 0.servers.1.id (numbers index arrays and lines of NDJSON),
// and WANT is the value as JSON, or a bare string.
func jsonField(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: json FILE PATH WANT")
	}
	var docs []any
	dec := json.NewDecoder(bytes.NewReader([]byte(ts.ReadFile(args[0]))))
	for dec.More() {
		var doc any
		ts.Check(dec.Decode(&doc))
		docs = append(docs, doc)
	}
	var at any = docs
	if len(docs) == 1 {
		at = docs[0]
	}
	for name := range strings.SplitSeq(args[1], ".") {
		switch v := at.(type) {
		case map[string]any:
			at = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(v) {
				ts.Fatalf("%s: no element %s in an array of %d", args[1], name, len(v))
			}
			at = v[i]
		default:
			ts.Fatalf("%s: nothing below a %T", args[1], at)
		}
	}
	got, ok := at.(string)
	if !ok {
		b, err := json.Marshal(at)
		ts.Check(err)
		got = string(b)
	}
	if (got == args[2]) == neg {
		ts.Fatalf("%s is %s, want %s", args[1], got, fmt.Sprintf("%s (negated: %t)", args[2], neg))
	}
}

// The following script commands run the lines of the README and the help topics verbatim, except for
// addresses: servers listen on a free port, and later lines use its address.

// addresses maps the addresses in the text to the real ones of one script.
type addresses map[string]string

type addressesKey struct{}

// defaultAddresses returns the default address of each command that listens.
func defaultAddresses() map[string]string {
	return map[string]string{"serve-sse": "127.0.0.1:8722", "gateway": "127.0.0.1:8723", "vault": "127.0.0.1:8724"}
}

const docsTimeout = time.Minute

func (a addresses) replace(line string) string {
	for shown, real := range a {
		line = strings.ReplaceAll(line, shown, real)
		if shown != "127.0.0.1:8722" || strings.Contains(line, real) || strings.Contains(line, "--data-dir") {
			continue
		}
		for _, command := range []string{"mcptrack status", "mcptrack tail", "mcptrack history", "mcptrack diff", "mcptrack webhooks"} { // whose default it is
			if args, ok := strings.CutPrefix(line, command); ok {
				line = command + " --url http://" + real + args
			}
		}
	}
	return line
}

// onFreePort returns the address at which a line listens, "" if it does not, and the line
// with a free port instead.
func onFreePort(line string) (shown, changed string) {
	for command, address := range defaultAddresses() {
		if strings.HasPrefix(line, "mcptrack "+command+" ") {
			return address, line + " --addr 127.0.0.1:0"
		}
	}
	if _, after, ok := strings.Cut(line, "--listen "); ok {
		shown, _, _ = strings.Cut(after, " ")
		return shown, strings.Replace(line, shown, "127.0.0.1:0", 1)
	}
	return "", line
}

// shell returns a command in the environment of the script and a process group of its own.
func shell(ts *testscript.TestScript, line string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", line) //nolint:noctx // killed by the deferred function of its caller
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "WORK", "NO_COLOR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "MCPTRACK_SOCKET", "MCPTRACK_TRUST", "TMPDIR"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// serves starts a line that listens: serves LINE. It runs until the script ends.
func serves(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: serves LINE")
	}
	shown, line := onFreePort(args[0])
	cmd := shell(ts, "exec "+line)
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	listening := make(chan string, 1) // sent to once; closed when stderr ends
	go func() {
		defer close(listening)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if _, after, ok := strings.Cut(lines.Text(), "listening on "); ok {
				listening <- after
				break
			}
		}
		_, _ = bufio.NewReader(stderr).WriteTo(&bytes.Buffer{})
	}()
	ts.Defer(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		for range listening { // until its stderr is closed
		}
		_ = cmd.Wait()
	})
	select {
	case url, ok := <-listening:
		if !ok {
			ts.Fatalf("%s: ended without listening", line)
		}
		_, host, _ := strings.Cut(url, "://")
		host, _, _ = strings.Cut(host, "/")
		ts.Value(addressesKey{}).(addresses)[shown] = host
	case <-time.After(docsTimeout):
		ts.Fatalf("%s: not listening after %s", line, docsTimeout)
	}
}

// shows runs a line to its end: shows CODE LINE [PATTERN]. PATTERN must match
// stdout or, if CODE is not 0, stderr.
func shows(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: shows CODE LINE [PATTERN]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	_, line := onFreePort(ts.Value(addressesKey{}).(addresses).replace(args[1]))
	cmd := shell(ts, line)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	ts.Check(cmd.Start())
	over := time.AfterFunc(docsTimeout, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer over.Stop()
	err = cmd.Wait()
	if exit, failed := errors.AsType[*exec.ExitError](err); err != nil && (!failed || exit.ExitCode() != want) || err == nil && want != 0 {
		ts.Fatalf("%s: %v, want exit code %d\n%s", args[1], err, want, &stderr)
	}
	out := stdout.Bytes()
	if want != 0 {
		out = stderr.Bytes()
	}
	if len(args) > 2 && !regexp.MustCompile("(?m)"+args[2]).Match(out) {
		ts.Fatalf("%s: no match for %q in\n%s", args[1], args[2], out)
	}
}

// streams runs a line until its output matches, and interrupts it: streams LINE PATTERN.
// If the line runs mcptrack, it must exit with 0.
func streams(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: streams LINE PATTERN")
	}
	line, pattern := args[0], regexp.MustCompile(args[1])
	cmd := shell(ts, "exec "+ts.Value(addressesKey{}).(addresses).replace(line))
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	over := time.AfterFunc(docsTimeout, kill)
	defer over.Stop()
	var once sync.Once
	matched := false
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if pattern.MatchString(lines.Text()) {
			matched = true
			once.Do(func() { _ = cmd.Process.Signal(syscall.SIGINT) })
		}
	}
	err = cmd.Wait()
	if !matched {
		ts.Fatalf("%s: no line matched %q: %v", line, args[1], err)
	}
	if err != nil && strings.HasPrefix(line, "mcptrack ") {
		ts.Fatalf("%s: %v", line, err)
	}
}
