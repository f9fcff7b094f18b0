package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// write makes a file that only the user can change, and so is its folder, whatever the umask is.
func write(t testing.TB, path, text string) string {
	t.Helper()
	must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Chmod(filepath.Dir(path), 0o755)))
	must(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func TestLoadRefusesFiles(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct {
		path string
		code Code
	}{
		"missing":   {filepath.Join(dir, "missing.json"), CodeNotFound},
		"directory": {dir, CodeNotRegular},
		"large":     {write(t, filepath.Join(dir, "large.json"), strings.Repeat(" ", MaxFileSize+1)), CodeTooLarge},
	} {
		c, problems := Load(test.path, Options{})
		if c != nil || len(problems) != 1 || problems[0].Code != test.code || problems[0].Severity != SeverityError ||
			problems[0].File != test.path || problems[0].Line != 1 || problems[0].Column != 1 {
			t.Errorf("%s: %v, %+v", name, c, problems)
		}
	}
	if _, problems := Parse([]byte(strings.Repeat(" ", MaxFileSize+1)), "f", Options{}); !problems.Has(CodeTooLarge) {
		t.Errorf("Parse: %v", problems)
	}
}

// TestLoadDoesNotWaitForFIFO: opening one would block until somebody writes.
func TestLoadDoesNotWaitForFIFO(t *testing.T) {
	mkfifo, err := exec.LookPath("mkfifo")
	if err != nil {
		t.Skip("no mkfifo")
	}
	path := filepath.Join(t.TempDir(), "fifo")
	must(t, exec.CommandContext(t.Context(), mkfifo, path).Run())
	if _, problems := Load(path, Options{}); !problems.Has(CodeNotRegular) {
		t.Errorf("%v", problems)
	}
}

// A config is refused if others can change it or its folder.
func TestLoadRefusesFilesOthersCanChange(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits")
	}
	dir := t.TempDir()
	workspace := filepath.Join(dir, "work")
	must(t, os.MkdirAll(filepath.Join(workspace, ".cursor"), 0o755))
	path := write(t, filepath.Join(workspace, ".cursor", "mcp.json"), `{"mcpServers":{}, "servers": 1}`)
	for _, test := range []struct {
		path string
		mode os.FileMode
	}{{path, 0o664}, {path, 0o646}, {filepath.Dir(path), 0o775}, {filepath.Dir(path), 0o777 | os.ModeSticky}, {workspace, 0o777}, {workspace, 0o775}} {
		info, err := os.Stat(test.path)
		must(t, err)
		must(t, os.Chmod(test.path, test.mode))
		opts := Options{Workspace: workspace}
		c, problems := Load(path, opts)
		if c != nil || !problems.Has(CodeInsecure) || problems.Errors() < 2 || !strings.Contains(problems[0].Message, test.path) || problems[0].Hint == "" {
			t.Errorf("%s %v: %+v", test.path, test.mode, problems)
		}
		opts.Insecure = true
		if _, problems := Load(path, opts); !problems.Has(CodeInsecure) || problems[0].Severity != SeverityWarning {
			t.Errorf("%s %v, insecure: %+v", test.path, test.mode, problems)
		}
		if _, problems := Import(path, Options{Workspace: workspace}, new(Names)); !problems.Has(CodeInsecure) {
			t.Errorf("%s %v, import: %+v", test.path, test.mode, problems)
		}
		must(t, os.Chmod(test.path, info.Mode()))
	}
	if _, problems := Load(path, Options{Workspace: workspace}); problems.Has(CodeInsecure) {
		t.Errorf("0644 in 0755: %v", problems)
	}
}

func TestManyProblemsAreBounded(t *testing.T) {
	_, problems := Parse([]byte(`{"servers":[`+strings.Repeat("1,", 2*maxProblems)+`]}`), "f", Options{})
	if len(problems) != maxProblems || !problems.Has(CodeTooManyProblems) {
		t.Errorf("%d problems", len(problems))
	}
}

func TestProblems(t *testing.T) {
	var none Problems
	if none.Err() != nil || none.Errors() != 0 {
		t.Error("no problems are no error")
	}
	_, problems := Parse([]byte("{\"servers\": [\n {\"id\": \"docs\", \"command\": \"go\", \"trackResources\": \"yes\", \"args\": 1}]}"), "f.json", Options{
		Getenv: func(string) (string, bool) { return "", false }})
	if problems.Errors() != 2 || problems.Warnings() != 1 {
		t.Fatalf("%+v", problems)
	}
	if want := `f.json:2:52: error: Server "docs" has invalid "trackResources"; expected boolean (and 1 more error)`; problems.Error() != want {
		t.Errorf("%s", problems)
	}
	data, err := json.Marshal(problems[1])
	want := `{"severity":"error","file":"f.json","line":2,"column":52,"path":"/servers/0/trackResources","code":"invalid_type",` +
		`"message":"Server \"docs\" has invalid \"trackResources\"; expected boolean","hint":"write true or false, without quotes"}`
	if err != nil || string(data) != want {
		t.Errorf("%s, %v", data, err)
	}
	for _, nothing := range []string{`null`, `""`} {
		if _, problems = Parse([]byte(`{"servers":[{"id":"a","command":"go","mode":`+nothing+`}]}`), "f", surroundings(t, nil)); len(problems) != 0 {
			t.Errorf("%s counts as absent: %v", nothing, problems)
		}
		for _, key := range []string{"enabled", "disabled"} {
			c, problems := Parse([]byte(`{"servers":[{"id":"a","command":"go","`+key+`":`+nothing+`}]}`), "f", surroundings(t, nil))
			if len(problems) != 0 || !c.Servers[0].Enabled {
				t.Errorf("%s: %s counts as absent: %v", key, nothing, problems)
			}
		}
		for _, key := range []string{"trackResources", "trackTools", "trackPrompts", "trackSkills", "shared"} {
			_, problems = Parse([]byte(`{"servers":[{"id":"a","command":"go","`+key+`":`+nothing+`}]}`), "f.json", surroundings(t, nil))
			if want := `f.json:1:`; len(problems) != 1 || !strings.HasPrefix(problems.Error(), want) ||
				!strings.HasSuffix(problems.Error(), `: error: Server "a" has invalid "`+key+`"; expected boolean`) {
				t.Errorf("%s: %s: %v", key, nothing, problems)
			}
		}
	}
}

func TestSummaries(t *testing.T) {
	var none *Config
	if data, _ := json.Marshal(none.Summaries()); string(data) != "[]" {
		t.Errorf("%s", data)
	}
	c, _ := Parse([]byte(`{"servers":[{"id":"a","command":"go","trackTools":true},{"id":"b","url":"https://h/","disabled":true,"trackResources":true}]}`),
		"f", surroundings(t, nil))
	data, _ := json.Marshal(c.Summaries())
	if want := `[{"id":"a","transport":"stdio","enabled":true,"trackResources":false},{"id":"b","transport":"http","enabled":false,"trackResources":true}]`; string(data) != want {
		t.Errorf("%s", data)
	}
	if c.Tracked() != 1 {
		t.Errorf("%d tracked", c.Tracked())
	}
	if s, ok := c.Server("b"); !ok || s.ID != "b" {
		t.Error("Server")
	}
	if _, ok := c.Server("c"); ok {
		t.Error("Server that is not there")
	}
}

// Warnings beyond the limit do not refuse the file or hide an error.
func TestManyWarningsHideNoError(t *testing.T) {
	var keys strings.Builder
	for i := range 2 * maxProblems {
		fmt.Fprintf(&keys, `"key%d":1,`, i)
	}
	c, problems := Parse([]byte(`{"mcpServers":{"a":{`+keys.String()+`"command":"go"},"b":{"command":"go"}}}`), "f", surroundings(t, nil))
	if c == nil || len(c.Servers) != 2 || len(problems) != maxProblems || problems[maxProblems-1].Code != CodeTooManyProblems {
		t.Errorf("%d problems, %d errors", len(problems), problems.Errors())
	}
	_, problems = Parse([]byte(`{"mcpServers":{"a":{`+keys.String()+`"command":"go"},"b":{"command":1}}}`), "f", surroundings(t, nil))
	if problems.Errors() != 1 || problems[len(problems)-1].Path != "/mcpServers/b/command" {
		t.Errorf("%d errors, last %v", problems.Errors(), problems[len(problems)-1])
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
