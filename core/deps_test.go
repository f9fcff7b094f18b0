package core_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/mcptrack/mcptrack/"

// rule keeps an import to the packages that may have it.
type rule struct {
	imports string   // the path, and all below it
	only    []string // of our packages, relative to the module, and all below them
	why     string
}

func rules() []rule {
	return []rule{
		{module + "cmd", nil, "a main package is the end of the chain"},
		{module + "commands", []string{"cmd", "commands"}, "core and output serve embedders, who have no command line"},
		{module + "output", []string{"commands", "output"}, "what is tracked does not depend on how it is shown"},
		{module + "core/engine", []string{"commands", "core/daemon"}, "it joins config, tracker and log for those who run it; views take values, see core/status"},
		{module + "core/tracker", []string{"core/tracker", "core/gateway", "core/engine", "commands"}, "below the tracker nobody may know of it: data flows one way"},
		{module + "core/journal/natslog", []string{"core/engine", "commands", "output/webhook"}, "a cluster is known to those who share servers or deliveries; all others read a log"},
		{module + "core/journal/sqlitelog", []string{"commands"}, "which log there is, is decided once"},
		{module + "core/journal/internal", []string{"core/journal"}, "what waits to be stored is the business of logs"},
		{module + "core/standardwebhooks", []string{"core/tracker", "core/hook", "commands", "output/webhook"}, "webhooks are received for the events of servers and for hooks, and sent in one place"},
		{module + "core/hook", []string{"core/engine", "commands", "output/dashboard", "output/metrics"}, "messages to hooks are verified once, and shown as counts"},
		{module + "core/session", []string{"core/session", "core/tracker", "core/status", "core/gateway", "core/lock/observe", "core/lock/locktest", "commands", "output"}, "sessions belong to the tracker; the others see events, the gateway passes requests on, and the lock lists what is served"},
		{module + "core/cache", []string{"core/event", "core/tracker", "commands", "output"}, "what clients read is written by the tracker and shown by the others"},
		{module + "core/process", []string{"core/session", "cmd"}, "whoever starts children must stop them: one owner"},
		{module + "core/filewatch", []string{"core/reload", "core/vault", "core/lock/guard"}, "watching files is asked for, not done on the side"},
		{module + "core/demo", []string{"commands"}, "the demo is a server like any other"},
		{"github.com/spf13", []string{"commands"}, "flags end in the options structs of commands"},
		{"github.com/olekukonko/tablewriter", []string{"output/table"}, "tables for people are one package"},
		{"github.com/fsnotify", []string{"core/filewatch"}, "its traps are dealt with once"},
		{"github.com/mark3labs/mcp-go", []string{"core/session/internal/wire"}, "what the library does differently from what we need is dealt with in one place"},
		{"github.com/mark3labs/mcp-go/client", nil, "it links its server, which compiles JSON Schemas when a program starts"},
		{"zombiezen.com/go/sqlite", []string{"core/journal/sqlitelog"}, "the file of events is read and written in one place"},
		{"modernc.org/sqlite", nil, "it is used through zombiezen.com/go/sqlite"},
		{module + "core/login", []string{"core/login", "core/session", "core/tracker", "commands"}, "tokens are for sessions, and the commands that log in"},
		{"golang.org/x/oauth2", []string{"core/login"}, "tokens are obtained in one place"},
		{"github.com/modelcontextprotocol/go-sdk", nil, "it links a JSON library of its own; only tests connect with it"},
		{"github.com/golang-jwt", []string{"core/login"}, "one place proves who a client is"},
		{"github.com/gofrs/flock", []string{"core/login", "core/daemon/ipc", "core/lock", "output/agent", "commands/connect"}, "one renewal at a time, of all processes, locks that several of them change, one daemon, one run of connect, and one reader of a log for each"},
		{"github.com/go-json-experiment/json", []string{"core/lock"}, "canonical JSON and strict parsing are for what users approve; all else uses encoding/json"},
		{"go.mau.fi/util", nil, "its table of confusable characters is a function of 210 KB; core/lock has the same table, which a test compares"},
		{"golang.org/x/mod", []string{"core/daemon/ipc"}, "versions are compared to decide which daemon is newer"},
		{"github.com/cli/browser", []string{"cmd"}, "the browser belongs to the process's user"},
		{module + "core/session/internal/wire", []string{"core/session"}, "transports are chosen and closed by a session"},
		{"github.com/nats-io", []string{"core/journal/natslog", "core/journal/journaltest"}, "what is shared is decided in one place"},
		{"zombiezen.com", []string{"core/journal/sqlitelog"}, "one package knows the file of the log"},
		{"github.com/bmatcuk/doublestar", []string{"core/glob"}, "it takes exponential time for some globs"},
		{"github.com/yosida95/uritemplate", []string{"core/uritemplate"}, "it panics on some templates, and escapes code points instead of octets"},
		{"github.com/yuin/goldmark", []string{"core/vault", "output/markdown"}, "notes are parsed in one place, and the manual is rendered in one"},
		{"github.com/blevesearch", []string{"core/internal/textindex"}, "there is one text index, and its stemmer is part of it"},
		{"github.com/standard-webhooks", []string{"core/standardwebhooks"}, "secrets of endpoints are in one place"},
		{"github.com/cloudevents", nil, "its SDK links an archived JSON library for an envelope of nine members; only tests read with it"},
		{"github.com/coder/websocket", []string{"output/realtime"}, "its traps are dealt with once"},
		{"github.com/prometheus", nil, "every start would pay for it; only tests read metrics with its parser"},
		{module + "output/web", []string{"commands"}, "who may ask is decided in one place, for all that is served"},
		{module + "output/markdown", []string{"commands", "output/dashboard"}, "the manual is the help of commands, and the page shows notes"},
		{"go.opentelemetry.io", []string{"core/tracing", "output/otlp"}, "spans are described in one place and sent in one"},
		{"go.opentelemetry.io/otel/sdk", []string{"output/otlp"}, "core uses the API only, so that embedders choose their SDK"},
		{"google.golang.org/protobuf", nil, "every start would pay for it; only tests decode spans with it"},
		{module + "output/otlp", []string{"commands"}, "whether traces are sent is decided by commands"},
		{"github.com/DataDog", []string{"output/document"}, "users write templates for documents only"},
		{"github.com/tailscale/hujson", []string{"core/config/tree"}, "one reader of JSON with places"},
		{"github.com/pelletier/go-toml", []string{"core/config/tree", "core/vault"}, "configs and notes are written in it"},
		{"go.yaml.in/yaml/v4", []string{"core/config/tree", "core/vault", "output/document"}, "configs and notes are written in it, and documents"},
		{"github.com/zalando/go-keyring", []string{"core/keyring"}, "a keyring may wait for its user, which is bounded once"},
		{"github.com/santhosh-tekuri/jsonschema", nil, "it compiles the schemas of all dialects when a program starts; only tests use it"},
		{"github.com/cenkalti/backoff", []string{"core/backoff"}, "there is one way to wait before another attempt"},
		{"golang.org/x/time", []string{"core/gateway", "core/hook", "output/realtime", "output/web"}, "it limits probes, wrong tokens, messages to hooks and items of conversations; retries use core/backoff"},
		{module + "core/internal/proctable", []string{"core/machine", "core/process"}, "processes are found by those who list or end them"},
		{module + "core/machine", []string{"commands"}, "what runs on the machine is asked for, not watched"},
		{"github.com/chromedp", []string{"output/internal/browsertest", "scripts/pictures"}, "a browser is for tests and pictures"},
		{"charm.land", []string{"output/tui"}, "the full screen is one package"},
		{"github.com/charmbracelet", []string{"output/tui"}, "the full screen is one package"},
		{"golang.org/x/term", []string{"cmd"}, "main tells the commands what the terminal is"},
	}
}

// apart keeps a package from another, also where packages in between lead to it.
type apart struct {
	pkg, from string // relative to the module; from is the path, and all below it
	why       string
}

func aparts() []apart {
	return []apart{
		{"core/event", "core/config", "an event is a value for readers who have no config: a browser, a log, another process"},
		{"cmd/mcptrack-attach", "core/config", "every session has one, so it is small"},
	}
}

// packages are those of the module, each with its imports, tests left out.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	found := map[string][]string{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimPrefix(p.ImportPath, module)] = p.Imports
	}
	return found
}

func below(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	found := packages(t)
	if len(found) < 15 {
		t.Fatalf("only %d packages were found", len(found))
	}
	used := map[string]bool{}
	for pkg, imports := range found {
		for _, path := range imports {
			for _, r := range rules() {
				if !below(path, r.imports) {
					continue
				}
				used[r.imports] = true
				if !slices.ContainsFunc(r.only, func(only string) bool { return below(pkg, only) }) {
					t.Errorf("%s imports %s, which only %q may: %s", pkg, path, r.only, r.why)
				}
			}
		}
	}
	for _, r := range rules() {
		if !used[r.imports] && r.only != nil {
			t.Errorf("no package imports %s: the rule is stale", r.imports)
		}
	}
}

// chain returns the packages through which pkg reaches one that is from or below it, both ends
// included; nil if it does not.
func chain(found map[string][]string, pkg, from string) []string {
	seen := map[string]bool{}
	var reach func(pkg string) []string
	reach = func(pkg string) []string {
		if seen[pkg] {
			return nil
		}
		seen[pkg] = true
		if below(pkg, from) {
			return []string{pkg}
		}
		for _, path := range found[pkg] {
			if rest := reach(strings.TrimPrefix(path, module)); rest != nil {
				return append([]string{pkg}, rest...)
			}
		}
		return nil
	}
	return reach(pkg)
}

func TestPackagesStayApart(t *testing.T) {
	t.Parallel()
	found := packages(t)
	for _, a := range aparts() {
		if found[a.pkg] == nil || found[a.from] == nil {
			t.Errorf("the rule for %s and %s is stale", a.pkg, a.from)
		}
		if through := chain(found, a.pkg, a.from); through != nil {
			t.Errorf("%s: %s", strings.Join(through, " imports "), a.why)
		}
	}
	if through := chain(found, "core/reload", "core/config/tree"); len(through) < 3 {
		t.Errorf("core/reload reaches core/config/tree only through others, not through %q", through)
	}
}

// TestHelpersAreForTests: what helps tests is not part of a program.
func TestHelpersAreForTests(t *testing.T) {
	t.Parallel()
	helpers := 0
	for pkg, imports := range packages(t) {
		if strings.HasSuffix(pkg, "test") {
			helpers++
			continue
		}
		for _, path := range imports {
			if strings.HasPrefix(path, module) && strings.HasSuffix(path, "test") {
				t.Errorf("%s imports %s, which is for tests", pkg, path)
			}
		}
	}
	if helpers < 8 {
		t.Errorf("only %d packages are for tests", helpers)
	}
}

// TestCoreKeepsQuiet: standard streams, exits and flags belong to cmd.
func TestCoreKeepsQuiet(t *testing.T) {
	t.Parallel()
	for pkg, imports := range packages(t) {
		if below(pkg, "core") && slices.Contains(imports, "flag") {
			t.Errorf("%s imports flag", pkg)
		}
	}
	cmd := exec.CommandContext(t.Context(), "grep", "-rnE", "--include=*.go", "--exclude=*_test.go",
		`^[^/]*(fmt\.Print|os\.Stdout|os\.Exit\(|log\.Fatal)|^func init\(\)`, ".", "../output")
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Errorf("core or output use what belongs to cmd (%v):\n%s", err, out)
	}
}

// TestAddressesAreJudgedInOnePlace: lists of private networks that differ leave holes.
func TestAddressesAreJudgedInOnePlace(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "grep", "-rlE", "--include=*.go", "--exclude=*_test.go",
		`\.IsPrivate\(\)|\.IsLoopback\(\)|\.IsGlobalUnicast\(\)|\.IsLinkLocalUnicast\(\)|"localhost\."|"\.localhost"`, ".", "../output", "../commands", "../cmd").Output()
	if got := strings.TrimSpace(string(out)); err != nil || got != "./ipscope/ipscope.go" {
		t.Errorf("core/ipscope judges addresses, not also (%v):\n%s", err, got)
	}
}

// TestUnusedMethodsAreLeftOut: one call of a method whose name is known only when the program runs, as text/template
// makes it, keeps all exported methods of all types in the program, which are 5 MB.
func TestUnusedMethodsAreLeftOut(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("links the program, nightly")
	}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-dumpdep", "-o", filepath.Join(t.TempDir(), "mcptrack"), module+"cmd/mcptrack").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\nmain.main -> ") {
		t.Fatalf("go build: %v\n%.1000s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if from, method, _ := strings.Cut(line, " -> "); strings.Contains(method, "<ReflectMethod>") {
			t.Errorf("%s reaches %s", from, method)
		}
	}
}
