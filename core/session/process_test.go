package session_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// child returns an entry that starts this test binary as a server.
func child(t *testing.T, kind string) config.Server {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return config.Server{Transport: config.TransportStdio, Program: config.Program{Command: exe, Env: map[string]config.Secret{
		serveKey: config.NewSecret(kind), "DB_TOKEN": config.NewSecret("tok-7f8e9d0c")}}}
}

func TestProcess(t *testing.T) {
	s := dial(t, child(t, "fake"), session.Options{OneShot: true, Grace: time.Minute})
	l, err := s.List(t.Context(), catalog.Resources)
	if err != nil || len(l) != 1 {
		t.Errorf("%v, %v", l.Keys(), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if noise := s.FirstNoise(); noise != "a banner that is no message" || s.Lingered() {
		t.Errorf("noise %q, lingered: %t", noise, s.Lingered())
	}
}

// The PATH in an entry replaces that of this process, for finding the command and for the child.
// Relative commands are found in the entry's directory. A PATH is no secret.
func TestPathOfEntry(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell script")
	}
	dir, other := t.TempDir(), t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\n[ \"$PATH\" = \"$WANT\" ] || { echo \"$PATH\" >&2; exit 3; }\nexec '%s'\n", exe)
	syscall.ForkLock.RLock() // a child that is started meanwhile would keep the file busy
	err = os.WriteFile(filepath.Join(dir, "own-server"), []byte(script), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	host := session.Options{OneShot: true, Environ: func(name string) (string, bool) { return other, name == "PATH" }}
	entry := func(command, in, path, want string) config.Server {
		e := config.Server{Transport: config.TransportStdio, Program: config.Program{Command: command, Dir: in, Env: map[string]config.Secret{
			serveKey: config.NewSecret("fake"), "WANT": config.NewSecret(want)}}}
		if path != "" {
			e.Env["PATH"] = config.NewSecret(path)
		}
		return e
	}
	for name, e := range map[string]config.Server{
		"in the entry's PATH":       entry("own-server", "", dir, dir),
		"relative to the directory": entry("./own-server", dir, "", other),
		"both":                      entry("./own-server", dir, "/no/such/place", "/no/such/place"),
	} {
		t.Run(name, func(t *testing.T) { _ = dial(t, e, host).Close() })
	}
	for name, e := range map[string]config.Server{
		"only in the directory": entry("own-server", dir, "", other),
		"a relative PATH":       entry("own-server", dir, ".", "."),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := session.Dial(t.Context(), e, host); !errors.Is(err, exec.ErrNotFound) {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := session.Dial(t.Context(), entry("own-server", "", dir, "different"), host); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("%v", err)
	}
}

// Servers on some SDKs exit if the first message is not initialize.
func TestProcessThatExitsBeforeInitialize(t *testing.T) {
	s := dial(t, child(t, "strict"), session.Options{})
	if l, err := s.List(t.Context(), catalog.Resources); err != nil || len(l) != 1 || s.Info().Era != session.EraLegacy {
		t.Errorf("%v, %v, %+v", l.Keys(), err, s.Info())
	}
}

func TestProcessThatDies(t *testing.T) {
	server := child(t, "dies")
	starts := filepath.Join(t.TempDir(), "starts")
	server.Args = []string{starts}
	_, err := session.Dial(t.Context(), server, session.Options{})
	if made, err := os.ReadFile(starts); err != nil || runtime.GOOS == "linux" && len(made) != 1 {
		t.Errorf("it was started %d times: %v", len(made), err)
	}
	if e, ok := errors.AsType[*session.EndError](err); !ok || !strings.Contains(e.Reason, "status 3") {
		t.Fatal(err)
	}
	if !strings.Contains(err.Error(), "cannot open the database") || strings.Contains(err.Error(), "tok-7f8e9d0c") {
		t.Errorf("%v", err)
	}
}

// Stderr often says why a server does not answer.
func TestTimeoutsShowStderr(t *testing.T) {
	t.Run("connect", func(t *testing.T) {
		t.Parallel()
		_, err := session.Dial(t.Context(), child(t, "hangs"), session.Options{ConnectTimeout: 3 * time.Second, OneShot: true})
		if err == nil || !strings.Contains(err.Error(), "did not answer within 3s; raise connectTimeout; stderr: open https://login.test/device") || strings.Contains(err.Error(), "tok-7f8e9d0c") {
			t.Errorf("%v", err)
		}
	})
	t.Run("connect to a program that may be downloading its server", func(t *testing.T) {
		t.Parallel()
		cold := child(t, "hangs")
		npx := filepath.Join(t.TempDir(), "npx")
		if err := os.Symlink(cold.Command, npx); err != nil {
			t.Skip(err)
		}
		cold.Command = npx
		_, err := session.Dial(t.Context(), cold, session.Options{ConnectTimeout: 3 * time.Second, OneShot: true})
		if err == nil || !strings.Contains(err.Error(), "did not answer within 3s: npx may still be downloading; raise connectTimeout; stderr: open https://login.test/device") {
			t.Errorf("%v", err)
		}
	})
	for oneShot, want := range map[bool]string{true: "no response in time (3s); stderr: waiting for the lock of another server", false: "no response in time (3s); raise requestTimeout"} {
		t.Run(fmt.Sprintf("request, one-shot %t", oneShot), func(t *testing.T) {
			t.Parallel()
			entry := child(t, "hangs-later")
			entry.RequestTimeout = 3 * time.Second
			s := dial(t, entry, session.Options{OneShot: oneShot})
			if _, err := s.CallTool(t.Context(), "x", nil); err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestProcessThatExitsDuringARequest(t *testing.T) {
	s := dial(t, child(t, "exits-later"), session.Options{})
	_, err := s.CallTool(t.Context(), "x", nil)
	e, ok := errors.AsType[*session.EndError](err)
	if !ok || !strings.Contains(e.Reason, "status 7") {
		t.Errorf("%v", err)
	}
	<-s.Done()
}

func TestProcessEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_ANOTHER_SERVER", "x")
	s := dial(t, child(t, "env"), session.Options{})
	c, err := s.Read(t.Context(), "test://env")
	if err != nil {
		t.Fatal(err)
	}
	env, _ := c.Text()
	if strings.Contains(env, "SECRET_OF_ANOTHER_SERVER") || !strings.Contains(env, "PATH=") || !strings.Contains(env, "DB_TOKEN=tok") {
		t.Errorf("environment %q", env)
	}
}

// A server that stops reading must neither hold a request beyond its deadline nor survive.
func TestProcessThatReadsNothing(t *testing.T) {
	t.Parallel()
	entry := child(t, "unresponsive")
	entry.RequestTimeout = 300 * time.Millisecond
	s := dial(t, entry, session.Options{OneShot: true})
	if _, err := s.CallTool(t.Context(), "x", map[string]any{"big": strings.Repeat("x", 1<<20)}); err == nil {
		t.Error("a server that reads nothing answered")
	}
	ends(t, s)
}

func TestProcessWithAnEndlessLine(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := session.Dial(t.Context(), child(t, "longline"), session.Options{})
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "line") {
		t.Errorf("%v", err)
	}
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 40 {
		t.Errorf("%d MiB allocated", mb)
	}
}

func TestCommandNotFound(t *testing.T) {
	entry := config.Server{Transport: config.TransportStdio, Program: config.Program{Command: "no-such-command-here", Args: []string{"--token=tok-1122334455"}}}
	_, err := session.Dial(t.Context(), entry, session.Options{})
	if err == nil || !strings.Contains(err.Error(), "no-such-command-here") || strings.Contains(err.Error(), "tok-") {
		t.Errorf("%v", err)
	}
}
