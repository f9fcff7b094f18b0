package commands

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/catalog"
)

// goErrors matches errors of Go's library, cobra and pflag, which users must not see.
var goErrors = regexp.MustCompile(`strconv|parsing|ParseInt|time: |parse error|invalid syntax|invalid argument|invalid character|unexpected end of JSON|missing unit|must be formatted|shorthand|template: output|accepts \d|net/url`)

// commandLines calls visit with every command, each from a fresh tree.
func commandLines(t *testing.T, visit func(path []string, cmd *cobra.Command)) {
	t.Helper()
	var walk func(path []string, cmd *cobra.Command)
	walk = func(path []string, cmd *cobra.Command) {
		visit(path, cmd)
		for _, sub := range cmd.Commands() {
			walk(append(slices.Clip(path), sub.Name()), sub)
		}
	}
	var g cli.Globals
	walk(nil, newRoot(&cli.Env{LookupEnv: func(string) (string, bool) { return "", false }}, &g))
}

// TestInvalidFlagValues gives every flag that is not a text an invalid value, and every flag that needs a
// value none.
func TestInvalidFlagValues(t *testing.T) {
	b := clitest.New(t, Main)
	tried := 0
	wrong := func(args ...string) {
		t.Helper()
		code, out := b.Run(t, args...)
		tried++
		if text := b.Stderr.String(); code != cli.ExitUsage || out != "" || goErrors.MatchString(text) || !strings.Contains(text, "hint: ") {
			t.Errorf("%q: exit %d, stdout %q: %s", args, code, out, text)
		}
	}
	commandLines(t, func(path []string, cmd *cobra.Command) {
		path = slices.Clip(path)
		inherited := cmd.InheritedFlags() // also merges the root's flags into Flags
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if (raced || testing.Short()) && inherited.Lookup(f.Name) != nil && len(path) > 0 && path[0] != "watch" {
				return // the root's flags are the same in every command
			}
			switch f.Value.Type() {
			case "string", "stringArray":
			case "stringSlice":
				wrong(append(path, "--"+f.Name+`=a"b`)...)
			default:
				wrong(append(path, "--"+f.Name+"=abc")...)
				wrong(append(path, "--"+f.Name+"=99999999999999999999")...)
			}
			if f.NoOptDefVal == "" {
				wrong(append(path, "--"+f.Name)...)
			}
		})
		wrong(append(path, "--no-such-flag")...)
		wrong(append(path, "-X")...)
		wrong(append(path, "--=a")...)
	})
	if tried < 200 {
		t.Errorf("only %d command lines were tried", tried)
	}
}

// TestWrongUsage: each message says what is wrong, and what is right.
func TestWrongUsage(t *testing.T) {
	b := clitest.New(t, Main)
	for _, c := range []struct{ args, want, hint string }{
		{"wach", `unknown command "wach"`, "did you mean watch?"},
		{"wach --demo", `unknown command "wach"`, "did you mean watch?"},
		{"-x wach", "unknown flag -x", "see mcptrack --help"},
		{"exit-code", `unknown command "exit-code"`, "did you mean exit-codes?"},
		{"serve", `unknown command "serve"`, "did you mean serve-sse?"},
		{"nonsense", `unknown command "nonsense"`, "see mcptrack --help"},
		{"--demo", "unknown flag --demo", "--demo is a flag of "},
		{"watch --dmeo", "unknown flag --dmeo", "did you mean --demo?"},
		{"watch --timeout", "--timeout needs a value: --timeout DURATION", "see mcptrack watch --help"},
		{"watch --timeout 5", `invalid value "5" for --timeout; expected a duration such as 500ms, 30s or 1h30m`, ""},
		{"watch --count abc", `invalid value "abc" for --count; expected an integer`, ""},
		{"watch -n demo", `invalid value "demo" for --count; expected an integer`, "to select a server use --server demo"},
		{"watch --url :", `invalid URL ":"`, ""},
		{"watch --url 1 --demo", "--demo cannot be used with --url", "use mcptrack watch without --url"},
		{"watch --url 1 --all", "--all cannot be used with --url", "use mcptrack watch without --url"},
		{"watch --url 1 a.json", "--url cannot be used with a config", "remove a.json"},
		{"watch --url 1 --since 1h --nats nats://127.0.0.1:1", "--nats cannot be used with the URL of a serve-sse", "use mcptrack replay without --url"},
		{"watch --no-follow", "--no-follow needs --since or --url", "mcptrack replay"},
		{"watch --data-dir d", "--data-dir needs --since", "--since 1h"},
		{"watch --since 1h --demo", "--demo cannot be used with --since", "remove one of them"},
		{"watch --since 1h --no-follow --all", "--all cannot be used with --no-follow", "use mcptrack watch without --no-follow"},
		{"watch --since 1h --agent", "--agent cannot be used with --since", "add --url"},
		{"watch --token-file f", "--token-file needs --url", "--url selects"},
		{"tail 1 --url 2", "--url and the URL 1 cannot be used together", "remove one of them"},
		{"tail --demo", "--demo cannot be used with tail", "use mcptrack watch"},
		{"tail --data-dir d", "--data-dir cannot be used with the URL", "use mcptrack replay"},
		{"tail --agent --no-follow", "--agent cannot be used with --no-follow", "remove one of them"},
		{"replay --all", "--all cannot be used with replay", "use mcptrack watch"},
		{"replay --agent", "--agent cannot be used with", "add --url"},
		{"status 1 --url 2", "--url and the URL 1 cannot be used together", "remove one of them"},
		{"watch --json=maybe", `invalid value "maybe" for --json; expected true or false`, ""},
		{"watch a b", `the config has no server "a"`, "the config has: notes"},
		{"watch a.json b.json", "watch takes one config file, not both a.json and b.json", ""},
		{"call notes", "call takes 2 arguments, got 1; TOOL is missing, for example mcptrack call everything echo", "usage: mcptrack call SERVER TOOL"},
		{"call notes t x", "call takes 2 arguments, got 3\n", "usage: mcptrack call SERVER TOOL"},
		{"prompt", "prompt takes 2 arguments, got 0; SERVER is missing, for example mcptrack prompt docs summarize", "usage:"},
		{"subscribe", "subscribe takes at least 1 argument, got 0; SERVER is missing, for example mcptrack subscribe docs", "usage: mcptrack subscribe SERVER"},
		{"list --demo --config x", "--demo uses a built-in server and no config; it cannot be used with --config", "hint: remove --config or --demo"},
		{"watch --demo --host cursor", "--demo uses a built-in server and no config; it cannot be used with --host", "hint: remove --host or --demo"},
		{"watch --demo x.json", "--demo uses a built-in server and no config; it cannot be used with x.json", "hint: remove x.json or --demo"},
		{"validate --demo x.json", "--demo uses a built-in server and no config; it cannot be used with a config file", "hint: remove x.json or --demo"},
		{"login --demo demo", "the demo server needs no login", "hint: mcptrack list --demo"},
		{"version now", `version takes no arguments, got "now"`, ""},
		{"help enviroment", `unknown help topic "enviroment"`, "did you mean environment?"},
		{"completion", "no shell given; choose bash, zsh, fish or powershell", ""},
		{"completion fsh", `unknown shell "fsh"`, "did you mean fish?"},
		{"watch --type resource.updatd", `unknown event type "resource.updatd"`, "did you mean resource.updated?"},
		{"watch --type [a", `invalid glob "[a"`, ""},
		{"watch --limit page=5", `unknown limit "page" in --limit`, "did you mean pages?"},
		{"watch --limit items=many", "invalid --limit items=many; expected a positive number such as 500, 64KiB or 16MiB", ""},
		{"list note", `the config has no server "note"`, "did you mean notes?"},
		{"list resorces", `the config has no server "resorces"`, "did you mean resources?"},
		{"subscribe note", `the config has no server "note"`, "did you mean notes?"},
		{"call notes t --arg a=b --args-json {}", "--arg and --args-json cannot be used together", ""},
		{"call notes t --args-json {", "--args-json is not JSON: it ends too early", ""},
		{"subscribe notes --call t={", "the arguments of --call t are not a JSON object", ""},
		{"list -o template={{", "invalid output template, line 1: unclosed action", ""},
		{"list -o xml", `unknown --output "xml"`, ""},
		{"read notes --template a{", "--template: ", ""},
		{"status :", `invalid URL ":"`, ""},
		{"serve-sse --retain soon", "invalid --retain", ""},
		{"serve-sse --retain-bytes many", "invalid --retain-bytes", ""},
		{"replay --since soon", "invalid --since", ""},
		{"replay --since=", `invalid --since ""`, ""},
		{"watch --since=", `invalid --since ""`, ""},
		{"watch --since= --no-follow", `invalid --since ""`, ""},
		{"tail --since=", `invalid --since ""`, ""},
		{"tail --since 0001-01-01", `invalid --since "0001-01-01"`, ""},
		{"tail --since 0001-01-01T00:00:00Z", "--since 0001-01-01T00:00:00Z is before 1970", "1970-01-01T00:00:00Z is before every event"},
		{"replay --since 0001-01-01T00:00:00Z", "--since 0001-01-01T00:00:00Z is before 1970", ""},
		{"replay --since 2999-01-01T00:00:00Z", "--since 2999-01-01T00:00:00Z is in the future", ""},
		{"watch --since 2999-01-01T00:00:00+02:00", "--since 2999-01-01T00:00:00+02:00 is in the future", ""},
		{"replay --since=-2h", `invalid --since "-2h"`, ""},
		{"gateway --index-ttl soon", "invalid --index-ttl", ""},
		{"gateway --catalog-url :", "--catalog-url", ""},
		{"gateway --events --events-allow **.host/**", `--events-allow: invalid glob "**.host/**": it must start with https://`, "for example --events-allow 'https://*.example.com/hooks/**'"},
		{"gateway --events --events-dialect sep", `unknown --events-dialect "sep"; choose sketch or sep-3415`, ""},
		{"gateway --events --events-dialect=", `unknown --events-dialect ""; choose sketch or sep-3415`, ""},
		{"gateway --events-dialect sketch", "--events-dialect needs --events", ""},
		{"gateway --deny [a", `invalid glob "[a" in --deny`, ""},
		{"gateway --deny=", "--deny is empty", ""},
		{"gateway --allow=", "--allow is empty", ""},
		{"subscribe notes note:///[a", `invalid glob "note:///[a"`, ""},
		{"vault . --ignore [a", "--ignore", ""},
		{"inject --model m --url :", "--url", ""},
		{"inject --model m --from :", "invalid --from", ""},
	} {
		code, _ := b.Run(t, strings.Fields(c.args)...)
		if text := b.Stderr.String(); code != cli.ExitUsage || !strings.Contains(text, "mcptrack: "+c.want) || !strings.Contains(text, c.hint) || goErrors.MatchString(text) {
			t.Errorf("%s: exit %d: %swant %s\n%s", c.args, code, text, c.want, c.hint)
		}
	}
}

// TestSuggestItems: the hint for a refused name comes from the server's last list.
func TestSuggestItems(t *testing.T) {
	b := clitest.New(t, Main)
	b.Server.SetList(catalog.Tools, map[string]any{"name": "convert", "inputSchema": map[string]any{"type": "object"}})
	b.Server.SetQuietly("note:///guide", "text")
	for _, kind := range []string{"tools", "resources"} {
		if code, _ := b.Run(t, "list", kind); code != 0 {
			t.Fatalf("list: exit %d: %s", code, &b.Stderr)
		}
	}
	for args, want := range map[string]string{
		"call notes convrt --arg a=b": "did you mean convert?",
		"read notes note:///giude":    "did you mean note:///guide?",
	} {
		if code, _ := b.Run(t, strings.Fields(args)...); code != cli.ExitRefused || !strings.Contains(b.Stderr.String(), want) {
			t.Errorf("%s: exit %d: %s", args, code, &b.Stderr)
		}
	}
}
