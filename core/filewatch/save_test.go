package filewatch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/peertest"
)

// A save is one way in which people and programs replace a file.
type save struct {
	name  string
	setUp func(t *testing.T, dir string) (path string) // nil: dir/conf/c.json with content "0"
	save  func(t *testing.T, dir, content string)
}

func shell(script string) func(*testing.T, string, string) {
	return func(t *testing.T, dir, content string) {
		command(t, filepath.Join(dir, "conf"), content, "sh", "-ec", script)
	}
}

// editors lists the ways of programs that a machine may lack.
func editors(t *testing.T) []save {
	peertest.Program(t, "vim")
	peertest.Program(t, "python3")
	return []save{
		{name: "python os.replace", save: shell(
			`python3 -c 'import os; open("t","w").write(os.environ["CONTENT"]+"\n"); os.replace("t","c.json")'`)},
		{name: "vim, default", save: vim("", true)},
		{name: "vim, backupcopy=yes", save: vim("backupcopy=yes", false)},
		{name: "vim, backupcopy=no", save: vim("backupcopy=no", true)},
	}
}

// saves lists the other known ways. Contents are one line; setUp leaves the content "0\n" at path.
func saves() []save {
	conf := func(dir string) string { return filepath.Join(dir, "conf", "c.json") }
	return []save{
		{name: "write in place", save: func(t *testing.T, dir, content string) { put(t, conf(dir), content) }},
		{name: "shell redirection", save: shell(`printf '%s\n' "$CONTENT" > c.json`)},
		{name: "cp over", save: shell(`printf '%s\n' "$CONTENT" > new; cp new c.json; rm new`)},
		{name: "temporary file and mv", save: shell(`printf '%s\n' "$CONTENT" > c.json.tmp; mv c.json.tmp c.json`)},
		{name: "sed -i", save: shell(`sed -i "s/.*/$CONTENT/" c.json`)},
		{name: "rm and create", save: shell(`rm c.json; sleep 0.1; printf '%s\n' "$CONTENT" > c.json`)},
		{name: "mv away and back", save: shell(`mv c.json d; printf '%s\n' "$CONTENT" > d; mv d c.json`)},
		{name: "git checkout", setUp: gitRepository, save: gitCheckout},
		{name: "kubernetes ..data swap", setUp: kubernetesMount, save: kubernetesSwap},
		{
			name: "symlink target in another directory written in place",
			setUp: func(t *testing.T, dir string) string {
				put(t, filepath.Join(dir, "real", "deep", "target.json"), "0\n")
				must(t, os.Mkdir(filepath.Join(dir, "conf"), 0o755))
				must(t, os.Symlink("../real/deep/target.json", conf(dir)))
				return conf(dir)
			},
			save: func(t *testing.T, dir, content string) {
				put(t, filepath.Join(dir, "real", "deep", "target.json"), content)
			},
		},
		{
			name: "directory symlink retargeted",
			setUp: func(t *testing.T, dir string) string {
				put(t, filepath.Join(dir, "v0", "c.json"), "0\n")
				must(t, os.Symlink("v0", filepath.Join(dir, "conf")))
				return conf(dir)
			},
			save: func(t *testing.T, dir, content string) {
				target := "v" + strings.TrimSpace(content)
				put(t, filepath.Join(dir, target, "c.json"), content)
				must(t, os.Remove(filepath.Join(dir, "conf")))
				must(t, os.Symlink(filepath.Join(dir, target), filepath.Join(dir, "conf")))
			},
		},
		{name: "parent directory replaced", save: func(t *testing.T, dir, content string) {
			put(t, filepath.Join(dir, "conf.new", "c.json"), content)
			must(t, os.Rename(filepath.Join(dir, "conf"), filepath.Join(dir, "conf.old")))
			must(t, os.Rename(filepath.Join(dir, "conf.new"), filepath.Join(dir, "conf")))
			must(t, os.RemoveAll(filepath.Join(dir, "conf.old")))
		}},
		{
			name: "grandparent replaced, the old one not removed",
			setUp: func(t *testing.T, dir string) string {
				path := filepath.Join(dir, "a", "b", "c", "c.json")
				put(t, path, "0\n")
				return path
			},
			save: func(t *testing.T, dir, content string) {
				must(t, os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "old"+strings.TrimSpace(content))))
				put(t, filepath.Join(dir, "a", "b", "c", "c.json"), content)
			},
		},
		{
			name: "link, dot-dot and a long way round",
			setUp: func(t *testing.T, dir string) string {
				put(t, filepath.Join(dir, "x", "y", "c.json"), "0\n")
				must(t, os.MkdirAll(filepath.Join(dir, "x", "z"), 0o755))
				must(t, os.Symlink("x/z", filepath.Join(dir, "in")))
				return dir + "/./in//../y/c.json" // lexically dir/y/c.json, which does not exist
			},
			save: func(t *testing.T, dir, content string) { put(t, filepath.Join(dir, "x", "y", "c.json"), content) },
		},
	}
}

// TestSaves saves three times in every way: a lost watch shows at the second save.
func TestSaves(t *testing.T) { testSaves(t, saves()) }

func TestRealSaves(t *testing.T) { testSaves(t, editors(t)) }

func testSaves(t *testing.T, saves []save) {
	for _, tt := range saves {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "conf", "c.json")
			if tt.setUp != nil {
				path = tt.setUp(t, dir)
			} else {
				put(t, path, "0\n")
			}
			f := start(t, path, onlyEvents())
			wantContent(t, f, "0\n")
			for i := 1; i <= 3; i++ {
				content := fmt.Sprintf("%d\n", i)
				tt.save(t, dir, content)
				c := wantContent(t, f, content) // so nothing came in between
				t.Logf("delivered %v after the first event", time.Since(c.SeenAt).Round(time.Millisecond))
			}
		})
	}
}

// command executes a program in dir with CONTENT set to the line of content.
func command(t *testing.T, dir, content, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CONTENT="+strings.TrimSpace(content),
		"GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com")
	cmd.Stdin = strings.NewReader(content)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// vim saves with the real editor and checks that it did so in the way meant.
func vim(option string, replaces bool) func(*testing.T, string, string) {
	return func(t *testing.T, dir, content string) {
		path := filepath.Join(dir, "conf", "c.json")
		before, err := os.Stat(path)
		must(t, err)
		// In the system's temporary folder vim makes no backups, and so does not
		// save as it does elsewhere, unless backupskip is empty.
		args := []string{"-es", "-N", "-u", "NONE", "-i", "NONE", "--cmd", "set backupskip="}
		if option != "" {
			args = append(args, "--cmd", "set "+option)
		}
		command(t, filepath.Dir(path), content, "vim", append(args, "-c", "call setline(1, $CONTENT)", "-c", "wq", "c.json")...)
		after, err := os.Stat(path)
		must(t, err)
		if os.SameFile(before, after) == replaces {
			t.Fatalf("vim %s replaced the file: %v, want %v", option, !replaces, replaces)
		}
	}
}

func gitRepository(t *testing.T, dir string) string {
	command(t, dir, "", "git", "init", "-q")
	gitCheckout(t, dir, "0\n")
	return filepath.Join(dir, "c.json")
}

// gitCheckout makes a commit without touching the work tree, then checks it out.
func gitCheckout(t *testing.T, dir, content string) {
	blob := command(t, dir, content, "git", "hash-object", "-w", "--stdin")
	tree := command(t, dir, "100644 blob "+blob+"\tc.json\n", "git", "mktree")
	commit := command(t, dir, content, "git", "commit-tree", tree)
	command(t, dir, "", "git", "checkout", "-q", commit)
}

// kubernetesMount lays files out as the kubelet does for a ConfigMap.
func kubernetesMount(t *testing.T, dir string) string {
	put(t, filepath.Join(dir, "..v0", "c.json"), "0\n")
	must(t, os.Symlink("..v0", filepath.Join(dir, "..data")))
	path := filepath.Join(dir, "c.json")
	must(t, os.Symlink("..data/c.json", path))
	return path
}

func kubernetesSwap(t *testing.T, dir, content string) {
	data := filepath.Join(dir, "..data")
	old, err := os.Readlink(data)
	must(t, err)
	version := "..v" + strings.TrimSpace(content)
	put(t, filepath.Join(dir, version, "c.json"), content)
	must(t, os.Symlink(version, data+"_tmp"))
	must(t, os.Rename(data+"_tmp", data))
	must(t, os.RemoveAll(filepath.Join(dir, old)))
}
