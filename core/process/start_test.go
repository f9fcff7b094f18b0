//go:build unix

package process_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mcptrack/mcptrack/core/process"
)

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	plain := write("plain", "x", 0o644)
	orphan := write("orphan", "#!/no/such/interpreter\n", 0o755)
	junk := write("junk", "\x00\x01\x02", 0o755)
	for name, tc := range map[string]struct {
		spec process.Spec
		is   error
		text string
	}{
		"no command":      {process.Spec{}, exec.ErrNotFound, "no command given"},
		"not in PATH":     {process.Spec{Command: "plain-not-there", Env: []string{"PATH=" + dir}}, exec.ErrNotFound, `there is no program "plain-not-there" in PATH`},
		"PATH empty":      {process.Spec{Command: "sh"}, exec.ErrNotFound, "PATH, which is empty"},
		"not executable":  {process.Spec{Command: plain}, fs.ErrPermission, "not executable"},
		"in PATH, no x":   {process.Spec{Command: "plain", Env: []string{"PATH=" + dir}}, fs.ErrPermission, "not executable"},
		"no file":         {process.Spec{Command: dir + "/nope"}, fs.ErrNotExist, "does not exist"},
		"a directory":     {process.Spec{Command: dir}, syscall.EISDIR, "is a directory"},
		"no dir":          {process.Spec{Command: "sh", Dir: dir + "/nope"}, fs.ErrNotExist, "working directory"},
		"dir is a file":   {process.Spec{Command: "sh", Dir: plain}, syscall.ENOTDIR, "not a directory"},
		"no interpreter":  {process.Spec{Command: orphan}, fs.ErrNotExist, "interpreter"},
		"not a program":   {process.Spec{Command: junk}, syscall.ENOEXEC, "neither a program"},
		"relative in dir": {process.Spec{Command: "./plain", Dir: dir}, fs.ErrPermission, "not executable"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.spec.Args = []string{"--token=hunter2"}
			tc.spec.Env = append(tc.spec.Env, "KEY=hunter2")
			before := openFiles(t)
			p, err := process.Start(tc.spec)
			if err == nil {
				p.Stop(process.Grace{})
				t.Fatal("started")
			}
			se, ok := errors.AsType[*process.StartError](err)
			if !ok || se.Command != tc.spec.Command {
				t.Fatalf("got %#v", err)
			}
			if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %v", err)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("a secret in %v", err)
			}
			if after := openFiles(t); after != before {
				t.Errorf("%d files open before, %d after", before, after)
			}
		})
	}
}

func TestRelativeCommandAndChildPath(t *testing.T) {
	dir := t.TempDir()
	syscall.ForkLock.RLock() // a child that is started meanwhile would keep the file busy
	err := os.WriteFile(filepath.Join(dir, "srv"), []byte("#!/bin/sh\nexit 7\n"), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(dir))
	for _, s := range []process.Spec{
		{Command: "./srv", Dir: dir},
		{Command: "./srv", Dir: filepath.Base(dir)},
		{Command: "srv", Env: []string{"PATH=/no/such/place:" + dir}},
	} {
		p, err := process.Start(s)
		if err != nil {
			t.Fatal(err)
		}
		wait(t, p)
		if e := p.Stop(process.Grace{}); e.Code != 7 {
			t.Errorf("%q: %v", s.Command, e)
		}
	}
}

func TestEnviron(t *testing.T) {
	host := map[string]string{
		"PATH": "/bin", "HOME": "/home/u", "OPENAI_API_KEY": "sk", "MCPTRACK_TOKEN": "t",
		"AWS_SECRET_ACCESS_KEY": "a", "LANG": "() { :; }", "NO_PROXY": "localhost",
	}
	lookup := func(k string) (string, bool) { v, ok := host[k]; return v, ok }
	got := process.Environ(lookup, map[string]string{"HOME": "/srv", "OPENAI_API_KEY": "own"})
	want := []string{"HOME=/srv", "NO_PROXY=localhost", "OPENAI_API_KEY=own", "PATH=/bin"}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("got  %q\nwant %q", got, want)
	}
	if got := process.Environ(func(string) (string, bool) { return "", false }, nil); len(got) != 0 {
		t.Fatalf("got %q", got)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc")
	}
	return len(entries)
}
