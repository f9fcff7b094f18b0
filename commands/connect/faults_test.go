package connect_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/commands"
)

// copies returns the files in the home folder that contain the secret.
func (m *machine) copies(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(m.home, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(text(t, path), secret) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Runs of connect and disconnect at the same time follow one another: each undoes what was done, and nothing
// is lost or left.
func TestRunsAtTheSameTime(t *testing.T) {
	m := newMachine(t)
	files := hostFiles()
	hosts := []string{"cursor", "codex", "zed", "gemini"}
	for _, host := range hosts {
		m.put(t, m.file(files[host].file), files[host].text)
	}
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			host := hosts[i%len(hosts)]
			for range 2 {
				for _, line := range []string{"connect --yes", "connect --undo " + host, "connect " + host + " --yes", "connect --undo"} {
					var out bytes.Buffer
					env := m.env
					env.Out, env.Err = &out, &out
					// A host that another run has connected or restored has nothing to change.
					if code := commands.Main(context.Background(), &env, strings.Fields(line)); code != 0 {
						t.Errorf("%s: exit code %d: %s", line, code, &out)
					}
				}
			}
		})
	}
	running.Wait()
	m.run(t, 0, "connect --undo")
	var originals []string
	for _, host := range hosts {
		path := m.file(files[host].file)
		originals = append(originals, path)
		if got := text(t, path); got != files[host].text {
			t.Errorf("%s:\n%s", host, got)
		}
	}
	slices.Sort(originals)
	if got := m.copies(t); !slices.Equal(got, originals) {
		t.Errorf("copies of the secret: %q", got)
	}
}

// A run that fails leaves everything as it was, and no copy of a secret.
func TestFailedRunLeavesNothing(t *testing.T) {
	files := hostFiles()
	for name, spoil := range map[string]func(t *testing.T, m *machine){
		"mcptrack's config cannot be written": func(t *testing.T, m *machine) {
			t.Helper()
			if err := os.MkdirAll(filepath.Dir(filepath.Dir(m.own())), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("/nowhere/at/all", filepath.Dir(m.own())); err != nil {
				t.Fatal(err)
			}
		},
		"the file of the last host cannot be written": func(t *testing.T, m *machine) {
			t.Helper()
			if runtime.GOOS != "linux" {
				t.Skip("the length of a path is limited elsewhere, too, but differently")
			}
			dir := m.home // so long that a longer name in it is impossible
			for len(dir) < 4060 {
				dir += "/" + strings.Repeat("d", min(200, 4060-len(dir)))
			}
			t.Setenv("CLAUDE_CONFIG_DIR", dir)
			m.put(t, dir+"/.claude.json", files["claude-code"].text)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.put(t, m.file(files["cursor"].file), files["cursor"].text)
			spoil(t, m)
			before := m.copies(t)
			m.run(t, 1, "connect --yes")
			if got := m.copies(t); !slices.Equal(got, before) {
				t.Errorf("copies of the secret: %q, before %q", got, before)
			}
			if text(t, m.file(files["cursor"].file)) != files["cursor"].text {
				t.Error("a host was changed")
			}
		})
	}
}

// A program under another name would not recognise its own entries, and lose their originals.
func TestNameOfTheProgram(t *testing.T) {
	m := newMachine(t)
	path, text := m.file(hostFiles()["cursor"].file), hostFiles()["cursor"].text
	m.put(t, path, text)
	m.env.Executable = filepath.Join(m.home, "mcptrack-linux-amd64")
	if out := m.run(t, 1, "connect --yes"); !strings.Contains(out, "rename") {
		t.Error(out)
	}
	if got := m.copies(t); !slices.Equal(got, []string{path}) {
		t.Errorf("copies of the secret: %q", got)
	}
}

// A read-only file is left alone.
func TestReadOnly(t *testing.T) {
	m := newMachine(t)
	path := m.file(".cursor/mcp.json")
	const before = `{"mcpServers": {"a": {"command": "sh"}}}`
	m.put(t, path, before)
	protect := func(mode os.FileMode) {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	protect(0o444)
	if out := m.run(t, 3, "connect cursor --yes"); !strings.Contains(out, "read-only") {
		t.Error(out)
	}
	m.run(t, 0, "connect --yes")
	if text(t, path) != before {
		t.Fatal("--yes changes a read-only file")
	}
	protect(0o644)
	m.run(t, 0, "connect --yes")
	connected := text(t, path)
	protect(0o444)
	if out := m.run(t, 1, "connect --undo"); !strings.Contains(out, "chmod u+w") || text(t, path) != connected {
		t.Errorf("%s\n%s", out, text(t, path))
	}
	protect(0o644)
	m.run(t, 0, "connect --undo")
	if text(t, path) != before {
		t.Error(text(t, path))
	}
}
