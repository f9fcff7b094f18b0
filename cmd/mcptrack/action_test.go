//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/mcptrack/mcptrack/core/peertest"
)

// action is a composite GitHub action.
type action struct {
	Inputs  map[string]struct{ Default string }
	Outputs map[string]struct{ Value string }
	Runs    struct{ Steps []step }
}

type step struct {
	Name, ID, If, Uses, Run, Shell string
	Env, With                      map[string]string
}

// actionRunner runs the steps of actions as a runner of GitHub does: with nothing of the environment of
// this test but PATH, and a gh that keeps its comments in a folder.
type actionRunner struct {
	*testing.T
	workspace, temp, state string
	env                    []string
	program                string            // of mcptrack, as if it were restored from the cache; empty for none
	failing                string            // an action whose use fails
	event                  map[string]string // by expression, such as github.event.pull_request.number
}

// ran is the result of an action.
type ran struct {
	code    int
	log     string
	obeyed  []string                     // commands in the log that a runner obeys
	uses    map[string]map[string]string // inputs of the actions that were used, by name without version
	outputs map[string]string
	summary string
}

func newActionRunner(t *testing.T) *actionRunner {
	t.Helper()
	dir := t.TempDir()
	r := &actionRunner{T: t, workspace: filepath.Join(dir, "work space"), temp: filepath.Join(dir, "temp"), state: filepath.Join(dir, "gh"), program: mcptrackPath(t),
		event: map[string]string{"github.event.pull_request.number": "7", "github.event.pull_request.head.repo.full_name": "we/here"}}
	bin := filepath.Join(dir, "bin")
	for _, d := range []string{filepath.Join(r.workspace, "notes"), r.temp, r.state, filepath.Join(dir, "home"), bin} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	program(t, filepath.Join(bin, "gh"), fakeGH)
	r.env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "CI=true", "GITHUB_ACTIONS=true",
		"GITHUB_REPOSITORY=we/here", "GITHUB_REPOSITORY_OWNER=we", "GITHUB_WORKSPACE=" + r.workspace, "RUNNER_TEMP=" + r.temp, "RUNNER_OS=Linux", "RUNNER_ARCH=X64", "GH_STATE=" + r.state}
	return r
}

// fakeGH knows the requests of the scripts. It reads and writes comments.json and pulls.json in
// $GH_STATE, and fails if there is a file denied.
const fakeGH = `#!/usr/bin/env bash
set -euo pipefail
cd "$GH_STATE"
[[ $GH_TOKEN == t0ken && $1 == api && ! -e denied ]] || { echo 'gh: Resource not accessible by integration (HTTP 403)' >&2; exit 1; }
shift
declare -A field
method=GET path='' filter=. text=''
while (($#)); do
	case $1 in
	--jq) filter=$2; shift ;;
	--method) method=$2; shift ;;
	--silent | --paginate) ;;
	-f | -F)
		text=${2#*=}
		if [[ $1 == -F && $text == @* ]]; then text=$(<"${text#@}"); fi
		field[${2%%=*}]=$text
		shift
		;;
	-*) echo "unknown flag $1" >&2; exit 1 ;;
	*) path=$1 ;;
	esac
	shift
done
change() { jq "${@:2}" "$1" >"$1.new" && mv "$1.new" "$1"; }
case "$method $path ${field[query]-}" in
'GET graphql query('*)
	[[ ${field[owner]} == we && ${field[name]} == here && ${field[number]} == 7 ]]
	jq -r '{data: {repository: {pullRequest: {comments: {nodes: .}}}}} | '"$filter" comments.json
	;;
'GET graphql mutation('*) change comments.json --arg id "${field[id]}" --arg body "${field[body]}" 'map(if .id == $id then .body = $body else . end)' ;;
'POST repos/we/here/issues/7/comments '*) change comments.json --arg body "${field[body]}" '. + [{id: "c\(length)", viewerDidAuthor: true, body: $body}]' ;;
'GET repos/we/here/pulls '*) jq -r --arg head "${field[head]}" --arg base "${field[base]}" 'map(select("we:" + .head == $head and .base == $base)) | '"$filter" pulls.json ;;
'POST repos/we/here/pulls '*) change pulls.json --arg title "${field[title]}" --arg head "${field[head]}" --arg base "${field[base]}" --arg body "${field[body]}" '. + [{number: (length + 20), title: $title, head: $head, base: $base, body: $body}]' ;;
'PATCH repos/we/here/pulls/20 '*) change pulls.json --arg body "${field[body]}" '.[0].body = $body' ;;
*) echo "unknown request $method $path" >&2; exit 1 ;;
esac
`

// program writes a program.
func program(t *testing.T, path, text string) {
	t.Helper()
	save(t, path, text)
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

// comment is a comment on the pull request.
type comment struct {
	ID              string `json:"id"`
	ViewerDidAuthor bool   `json:"viewerDidAuthor"`
	Body            string `json:"body"`
}

// comment sets the comments on the pull request.
func (r *actionRunner) comment(all ...comment) {
	r.Helper()
	data, err := json.Marshal(all)
	if err != nil {
		r.Fatal(err)
	}
	save(r.T, filepath.Join(r.state, "comments.json"), string(data))
}

// comments returns the bodies of the comments on the pull request, by id.
func (r *actionRunner) comments() map[string]string {
	r.Helper()
	data, err := os.ReadFile(filepath.Join(r.state, "comments.json"))
	if err != nil {
		r.Fatal(err)
	}
	var all []comment
	if err := json.Unmarshal(data, &all); err != nil {
		r.Fatal(err)
	}
	byID := map[string]string{}
	for _, c := range all {
		byID[c.ID] = c.Body
	}
	return byID
}

func readAction(t *testing.T, name string) action {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", ".github", "actions", name, "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var a action
	if err := yaml.Unmarshal(data, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// run runs an action and wants an exit code.
func (r *actionRunner) run(want int, name, eventName string, with map[string]string) ran {
	r.Helper()
	a := readAction(r.T, name)
	folder, err := filepath.Abs(filepath.Join("..", "..", ".github", "actions", name))
	if err != nil {
		r.Fatal(err)
	}
	out := ran{uses: map[string]map[string]string{}, outputs: map[string]string{}}
	values := map[string]string{"github.token": "t0ken", "github.action_path": folder, "runner.temp": r.temp, "github.repository": "we/here"}
	maps.Copy(values, r.event)
	for key, in := range a.Inputs {
		values["inputs."+key] = interpolated(values, in.Default)
	}
	for key, value := range with {
		if _, known := a.Inputs[key]; !known {
			r.Fatalf("the action %s has no input %s", name, key)
		}
		values["inputs."+key] = value
	}
	bin := filepath.Join(r.temp, "mcptrack-bin")
	if err := os.RemoveAll(bin); err != nil {
		r.Fatal(err)
	}
	summary := filepath.Join(r.temp, "summary")
	save(r.T, summary, "")
	for _, s := range a.Runs.Steps {
		if !applies(r.T, values, s.If, out.code == 0) {
			continue
		}
		if s.Uses != "" {
			inputs := map[string]string{}
			for key, value := range s.With {
				inputs[key] = interpolated(values, value)
			}
			uses, _, _ := strings.Cut(s.Uses, "@")
			out.uses[uses] = inputs
			if uses == r.failing {
				out.code = 1
			}
			if uses == "actions/cache/restore" && r.program != "" {
				if err := os.Mkdir(bin, 0o700); err != nil {
					r.Fatal(err)
				}
				if err := os.Symlink(r.program, filepath.Join(bin, "mcptrack")); err != nil {
					r.Fatal(err)
				}
				values["steps."+s.ID+".outputs.cache-hit"] = "true"
			}
			continue
		}
		output := filepath.Join(r.temp, "output")
		save(r.T, output, "")
		cmd := exec.CommandContext(r.Context(), "bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", s.Run)
		cmd.Dir = r.workspace
		cmd.Env = append(slices.Clone(r.env), "GITHUB_ACTION_PATH="+folder, "GITHUB_EVENT_NAME="+eventName, "GITHUB_OUTPUT="+output, "GITHUB_STEP_SUMMARY="+summary)
		for key, value := range s.Env {
			cmd.Env = append(cmd.Env, key+"="+interpolated(values, value))
		}
		log, err := cmd.CombinedOutput()
		out.log += string(log)
		if err != nil && out.code == 0 {
			if out.code = cmd.ProcessState.ExitCode(); out.code < 1 {
				r.Fatalf("step %q: %v", s.Name, err)
			}
		}
		data, err := os.ReadFile(output)
		if err != nil {
			r.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			if !ok {
				r.Fatalf("step %q: wrong output %q", s.Name, line)
			}
			values["steps."+s.ID+".outputs."+key] = value
		}
	}
	if out.code != want {
		r.Fatalf("the action ended with %d, want %d:\n%s", out.code, want, out.log)
	}
	for key, o := range a.Outputs {
		out.outputs[key] = interpolated(values, o.Value)
	}
	out.obeyed = obeyed(out.log)
	data, err := os.ReadFile(summary)
	if err != nil {
		r.Fatal(err)
	}
	out.summary = string(data)
	return out
}

// interpolated replaces the expressions in a text. What is not known is empty, as on GitHub.
func interpolated(values map[string]string, text string) string {
	return regexp.MustCompile(`\$\{\{ (.*?) \}\}`).ReplaceAllStringFunc(text, func(expr string) string {
		return values[expr[len("${{ "):len(expr)-len(" }}")]]
	})
}

// applies evaluates the condition of a step.
func applies(t *testing.T, values map[string]string, condition string, ok bool) bool {
	t.Helper()
	if strings.Contains(condition, "!cancelled()") {
		ok = true
	}
	for term := range strings.SplitSeq(condition, " && ") {
		parts := regexp.MustCompile(`^(\S+) (==|!=) '(.*)'$`).FindStringSubmatch(term)
		switch {
		case term == "" || term == "!cancelled()":
		case parts == nil:
			t.Fatalf("cannot evaluate %q", term)
		default:
			ok = ok && (values[parts[1]] == parts[3]) == (parts[2] == "==")
		}
	}
	return ok
}

// obeyed returns the lines of a log that a runner takes for commands.
func obeyed(log string) (all []string) {
	stopped := ""
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		token, stops := strings.CutPrefix(line, "::stop-commands::")
		switch {
		case stopped != "":
			if line == "::"+stopped+"::" {
				stopped = ""
			}
		case stops:
			stopped = token
		case strings.HasPrefix(line, "::"):
			all = append(all, line)
		}
	}
	return all
}

func (r ran) obeys(t *testing.T, parts ...string) {
	t.Helper()
	if len(r.obeyed) != len(parts) {
		t.Fatalf("%d commands to the runner, want %d:\n%s", len(r.obeyed), len(parts), r.log)
	}
	for i, part := range parts {
		if !strings.Contains(r.obeyed[i], part) {
			t.Errorf("the runner is told %q, which lacks %q", r.obeyed[i], part)
		}
	}
}

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", what, part, text)
		}
	}
}

// TestRealActionVerifies runs the steps of the action verify on a config whose name is hostile to shells,
// and whose server prints commands to the runner.
func TestRealActionVerifies(t *testing.T) {
	t.Parallel()
	peertest.Program(t, "jq")
	r := newActionRunner(t)
	const name = "my $(touch pwned); `touch pwned` '\"config.json"
	server := filepath.Join(r.workspace, "server")
	program(t, server, "#!/bin/sh\necho '::error::pwned' >&2\nexec "+r.program+" vault --stdio notes\n")
	note := func(name, text string) { save(t, filepath.Join(r.workspace, "notes", name), text) }
	file := filepath.Join(r.workspace, name)
	const entry = `"notes": {"command": "./server", "cwd": "."}`
	save(t, file, `{"mcpServers": {`+entry+`}}`)
	note("one.md", "# One\n")
	lock := exec.CommandContext(t.Context(), r.program, "lock", "--config", name)
	lock.Dir, lock.Env = r.workspace, r.env
	if out, err := lock.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r.comment(comment{ID: "c0", Body: "a question"})
	with := map[string]string{"config": name, "sarif": "true", "servers": " notes\n"}
	upload := "github/codeql-action/upload-sarif"

	out := r.run(0, "verify", "pull_request", with)
	out.obeys(t)
	if got := r.comments(); len(got) != 1 || out.outputs["changed"] != "false" {
		t.Fatalf("no changes: comments %q, outputs %q", got, out.outputs)
	}
	if out.uses[upload]["sarif_file"] != out.outputs["sarif"] || out.outputs["sarif"] == "" || out.uses["actions/setup-go"] != nil {
		t.Fatalf("used %q", out.uses)
	}

	note("two.md", "# Two\n")
	out = r.run(7, "verify", "pull_request", with)
	out.obeys(t, "mcptrack lock --update")
	contains(t, "the summary", out.summary, "vault://note/two.md")
	got := r.comments()
	contains(t, "the comment", got["c1"], "<!-- mcptrack verify ", "1 finding", "+uri: \"vault://note/two.md\"")
	if len(got) != 2 || got["c0"] != "a question" || out.outputs["changed"] != "true" || out.outputs["exit-code"] != "7" {
		t.Fatalf("comments %q, outputs %q", got, out.outputs)
	}
	var sarif struct {
		Runs []struct{ Results []struct{ RuleID string } }
	}
	if data, err := os.ReadFile(out.uses[upload]["sarif_file"]); err != nil {
		t.Fatal(err)
	} else if err := json.Unmarshal(data, &sarif); err != nil || len(sarif.Runs) != 1 || len(sarif.Runs[0].Results) != 1 || sarif.Runs[0].Results[0].RuleID != "L005" {
		t.Fatalf("%v: %s", err, data)
	}

	// Somebody copies the mark into a comment.
	mark, _, _ := strings.Cut(got["c1"], "\n")
	foreign := mark + " by somebody else"
	r.comment(comment{ID: "c0", Body: foreign}, comment{ID: "c1", ViewerDidAuthor: true, Body: got["c1"]})
	note("three.md", "# Three\n")
	r.run(7, "verify", "pull_request", with)
	got = r.comments()
	contains(t, "the updated comment", got["c1"], "2 findings", "vault://note/three.md")
	if len(got) != 2 || got["c0"] != foreign {
		t.Fatalf("comments %q", got)
	}

	// Another use of the action on the same pull request has a comment of its own.
	r.run(7, "verify", "pull_request", map[string]string{"config": name})
	if got := r.comments(); len(got) != 3 {
		t.Fatalf("comments %q", got)
	}

	out = r.run(0, "verify", "pull_request", map[string]string{"config": name, "servers": " notes\n", "fail-on": "suspicious,wording"})
	contains(t, "the comment", r.comments()["c1"], "accepted")
	if len(out.uses) != 1 {
		t.Fatalf("without sarif: used %q", out.uses)
	}

	// What a fork proposes changes nothing here.
	save(t, filepath.Join(r.state, "denied"), "")
	r.event["github.event.pull_request.head.repo.full_name"] = "fork/here"
	out = r.run(7, "verify", "pull_request", with)
	out.obeys(t, "notice", "notice", "mcptrack lock --update")
	contains(t, "the summary", out.summary, "2 findings")
	if len(out.uses) != 1 || strings.Contains(out.log, "HTTP 403") {
		t.Fatalf("for a fork: used %q, log %s", out.uses, out.log)
	}
	r.event["github.event.pull_request.head.repo.full_name"] = "we/here"
	for _, event := range []string{"pull_request_target", "workflow_run", "issue_comment"} {
		out = r.run(2, "verify", event, with)
		out.obeys(t, event)
		if len(out.uses) > 0 || out.summary != "" {
			t.Fatalf("%s: used %q, summary %s", event, out.uses, out.summary)
		}
	}
	out = r.run(7, "verify", "pull_request", with) // the token must not comment
	out.obeys(t, "warning", "mcptrack lock --update")
	r.event = map[string]string{}
	out = r.run(7, "verify", "push", with)
	out.obeys(t, "mcptrack lock --update")
	if out.uses[upload] == nil || strings.Contains(out.log, "HTTP 403") {
		t.Fatalf("for a push: used %q, log %s", out.uses, out.log)
	}

	// The result is told although the upload failed.
	r.failing = upload
	r.run(1, "verify", "push", with).obeys(t, "mcptrack lock --update")
	r.failing = ""

	save(t, file, `{"mcpServers": {`+entry+`, "gone": {"command": "./gone", "cwd": "."}}}`)
	out = r.run(4, "verify", "push", map[string]string{"config": name, "servers": "gone"})
	out.obeys(t, "could not be reached")
	r.run(7, "verify", "push", map[string]string{"config": name})
	out = r.run(2, "verify", "push", map[string]string{"config": name, "sarif": "yes"})
	out.obeys(t, "true or false")
	out = r.run(3, "verify", "push", map[string]string{"config": "no.json"})
	out.obeys(t, "exit code 3")
	if _, err := os.Lstat(filepath.Join(r.workspace, "pwned")); err == nil {
		t.Fatal("the name of the config was run")
	}
}

// TestRealActionProposes runs the action verify with update, and then propose in a clone.
func TestRealActionProposes(t *testing.T) {
	t.Parallel()
	peertest.Program(t, "jq")
	r := newActionRunner(t)
	r.event = nil
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"}, args...)...)
		cmd.Dir, cmd.Env = r.workspace, r.env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
		return string(out)
	}
	save(t, filepath.Join(r.workspace, ".mcp.json"), fmt.Sprintf(`{"mcpServers": {"notes": {"command": %q, "args": ["vault", "--stdio", "notes"]}}}`, r.program))
	save(t, filepath.Join(r.workspace, "notes", "one.md"), "# One\n")
	save(t, filepath.Join(r.state, "pulls.json"), "[]")
	update := map[string]string{"config": ".mcp.json", "update": "true"}
	r.run(2, "verify", "schedule", update).obeys(t, "run mcptrack lock")
	cmd := exec.CommandContext(t.Context(), r.program, "lock")
	cmd.Dir, cmd.Env = r.workspace, r.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	origin := filepath.Join(r.temp, "origin")
	git("init", "--quiet", "--bare", origin)
	git("init", "--quiet")
	git("remote", "add", "origin", origin)
	git("add", ".")
	git("commit", "--quiet", "-m", "first")
	git("push", "--quiet", "origin", "main")

	out := r.run(0, "verify", "schedule", update)
	out.obeys(t)
	if out.outputs["changed"] != "false" || len(out.uses) != 1 {
		t.Fatalf("outputs %q, used %q", out.outputs, out.uses)
	}
	r.run(2, "verify", "schedule", map[string]string{"update": "true"}).obeys(t, "config or lock is needed")

	for i, name := range []string{"two.md", "three.md"} {
		save(t, filepath.Join(r.workspace, "notes", name), "# More\n")
		out := r.run(0, "verify", "schedule", update)
		out.obeys(t)
		folder := out.outputs["folder"]
		if out.outputs["changed"] != "true" || folder == "" {
			t.Fatalf("outputs %q", out.outputs)
		}
		git("checkout", "--quiet", "-f", "main") // the second job has a checkout of its own
		with := map[string]string{"from": folder}
		out = r.run(0, "propose", "schedule", with)
		out.obeys(t)
		contains(t, "the log", out.log, []string{"was opened", "20 was updated"}[i])
		contains(t, "the commit", git("--git-dir", origin, "show", "--stat", "mcptrack/lock"), "github-actions[bot]", "mcptrack.lock", "1 file changed")
		contains(t, "the lock", git("--git-dir", origin, "show", "mcptrack/lock:mcptrack.lock"), "vault://note/"+name)
		data, err := os.ReadFile(filepath.Join(r.state, "pulls.json"))
		if err != nil {
			t.Fatal(err)
		}
		contains(t, "the pull requests", string(data), `"head": "mcptrack/lock"`, `"base": "main"`, "vault://note/"+name)
		if n := bytes.Count(data, []byte(`"number"`)); n != 1 {
			t.Fatalf("%d pull requests, want 1", n)
		}
		r.run(0, "propose", "schedule", with) // on the branch, nothing is left to do
		git("checkout", "--quiet", "-f", "main")
	}

	folder := t.TempDir()
	save(t, filepath.Join(folder, "changes.md"), "text")
	if err := os.Symlink("/etc/passwd", filepath.Join(folder, "mcptrack.lock")); err != nil {
		t.Fatal(err)
	}
	r.run(1, "propose", "schedule", map[string]string{"from": folder}).obeys(t, "not a regular file")
}

// TestActionBuilds runs the steps as they run when the cache has no mcptrack. Its go only checks what it
// is asked to build: check.sh builds mcptrack already, and linking it takes seconds.
func TestActionBuilds(t *testing.T) {
	t.Parallel()
	r := newActionRunner(t)
	r.env = append(r.env, "PROGRAM="+r.program)
	r.program = ""
	program(t, filepath.Join(filepath.Dir(r.temp), "bin", "go"), `#!/bin/sh
[ "$*" = 'install ./cmd/mcptrack' ] && [ -f cmd/mcptrack/main.go ] && mkdir "$GOBIN" && ln -s "$PROGRAM" "$GOBIN/mcptrack"
`)
	ran := r.run(3, "verify", "push", map[string]string{"config": "no.json"})
	contains(t, "the log", ran.log, "no.json")
	key := ran.uses["actions/cache/save"]["key"]
	if !regexp.MustCompile(`^mcptrack-Linux-X64-[0-9a-f]{64}$`).MatchString(key) || key != ran.uses["actions/cache/restore"]["key"] {
		t.Errorf("key %q, used %q", key, ran.uses)
	}
	if file := ran.uses["actions/setup-go"]["go-version-file"]; filepath.Base(file) != "go.mod" {
		t.Errorf("used %q", ran.uses)
	} else if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// TestActionInstalls runs the action setup with a curl that has one release. The action installs it, and
// refuses a file with another checksum, a file without one, and a version that is none.
func TestActionInstalls(t *testing.T) {
	t.Parallel()
	r := newActionRunner(t)
	path := filepath.Join(r.temp, "path")
	r.env = append(r.env, "GITHUB_PATH="+path, "RELEASE="+r.state)
	program(t, filepath.Join(filepath.Dir(r.temp), "bin", "curl"), `#!/usr/bin/env bash
[[ $* == *'--proto =https '* ]] || exit 2
while (($#)); do
	if [[ $1 == -o ]]; then to=$2; fi
	url=$1
	shift
done
case $url in
https://github.com/mcptrack/mcptrack/releases/latest/download/* | https://github.com/mcptrack/mcptrack/releases/download/v1.2.3/*) cp "$RELEASE/${url##*/}" "$to" ;;
*) exit 22 ;;
esac
`)
	const name = "mcptrack_linux_amd64"
	if err := os.Mkdir(filepath.Join(r.state, "mcptrack-release"), 0o700); err != nil {
		t.Fatal(err)
	}
	program(t, filepath.Join(r.state, "mcptrack-release", "mcptrack"), "#!/bin/sh\n[ \"$*\" = 'version -o name' ] && echo v1.2.3\n")
	pack := exec.CommandContext(t.Context(), "sh", "-c", "tar -czf "+name+".tar.gz mcptrack-release && sha256sum "+name+".tar.gz >checksums.txt")
	pack.Dir = r.state
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, version := range []string{"latest", "v1.2.3"} {
		save(t, path, "")
		if got := r.run(0, "setup", "push", map[string]string{"version": version}).outputs["version"]; got != "v1.2.3" {
			t.Errorf("version %s: installed %q", version, got)
		}
		folder, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(strings.TrimSpace(string(folder)), "mcptrack")); err != nil {
			t.Error(err)
		}
	}
	save(t, path, "")
	r.run(1, "setup", "push", map[string]string{"version": "v1.2.4"}).obeys(t, "is there such a release?")
	for _, version := range []string{"1.2.3", "v1.2.3/../../..", "main", "v1.2.3 --output x", ""} {
		r.run(2, "setup", "push", map[string]string{"version": version}).obeys(t, "The input version")
	}
	r.env = append(r.env, "RUNNER_ARCH=X86")
	r.run(1, "setup", "push", nil).obeys(t, "no mcptrack for X86")
	r.env = r.env[:len(r.env)-1]

	sums := filepath.Join(r.state, "checksums.txt")
	save(t, sums, strings.Repeat("0", 64)+"  "+name+".tar.gz\n")
	r.run(1, "setup", "push", nil).obeys(t, "its checksum differs")
	save(t, sums, strings.Repeat("0", 64)+"  other_"+name+".tar.gz\n")
	r.run(1, "setup", "push", nil).obeys(t, "does not contain "+name)
	if folder, err := os.ReadFile(path); err != nil || len(folder) > 0 {
		t.Errorf("PATH got %q, %v", folder, err)
	}
}

// TestActionsAreSafe checks what everybody should check before they use an action: foreign actions are
// pinned by hash, text of events reaches no shell, and only the steps that write have a token.
func TestActionsAreSafe(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", ".github")
	var files []string
	for _, pattern := range []string{"actions/*/action.yml", "examples/*.yml", "workflows/*.yml"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 4 {
		t.Fatalf("only %q", files)
	}
	uses := regexp.MustCompile(`^\s*(- )?uses: `)
	pinned := regexp.MustCompile(`uses: (mcptrack/mcptrack/\.github/actions/\w+@main # pin the hash of a commit|[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$`)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if uses.MatchString(line) && !pinned.MatchString(strings.TrimSpace(line)) {
				t.Errorf("%s: not pinned: %s", file, line)
			}
		}
	}
	script := regexp.MustCompile(`^bash "\$GITHUB_ACTION_PATH/(\w+\.sh)"$`)
	for _, name := range []string{"verify", "propose", "setup"} {
		for _, s := range readAction(t, name).Runs.Steps {
			if s.Uses != "" {
				continue
			}
			m := script.FindStringSubmatch(s.Run)
			if m == nil || s.Shell != "bash" {
				t.Errorf("%s: %q is not a script of the action", name, s.Run)
				continue
			}
			if _, has := s.Env["GH_TOKEN"]; has != slices.Contains([]string{"comment.sh", "propose.sh"}, m[1]) {
				t.Errorf("%s has a token: %t", m[1], has)
			}
		}
	}
}

// TestPreCommitHook runs the hook's entry as pre-commit does.
func TestPreCommitHook(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("..", "..", ".pre-commit-hooks.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var hooks []struct{ ID, Entry, Files string }
	if err := yaml.Unmarshal(data, &hooks); err != nil || len(hooks) != 1 {
		t.Fatalf("%v: %+v", err, hooks)
	}
	files := regexp.MustCompile(hooks[0].Files)
	for name, want := range map[string]bool{"mcptrack.lock": true, "a/b/mcptrack.lock": true, ".mcp.json": true, "config/mcp-servers.json": true, "x/.vscode/mcp.json": true, "package.json": false, "amcptrack.lock": false} {
		if files.MatchString(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
	r := newActionRunner(t)
	save(t, filepath.Join(r.workspace, ".mcp.json"), fmt.Sprintf(`{"mcpServers": {"notes": {"command": %q, "args": ["vault", "--stdio", "notes"]}}}`, r.program))
	save(t, filepath.Join(r.workspace, "notes", "one.md"), "# One\n")
	args := strings.Fields(hooks[0].Entry)
	run := func(want int, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), r.program, args...)
		cmd.Dir, cmd.Env = r.workspace, r.env
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != want {
			t.Fatalf("%q: exit code %d, want %d: %s", args, cmd.ProcessState.ExitCode(), want, out)
		}
	}
	run(3, args[1:]...)
	run(0, "lock")
	run(0, args[1:]...)
	save(t, filepath.Join(r.workspace, "notes", "two.md"), "# Two\n")
	run(7, args[1:]...)
}
