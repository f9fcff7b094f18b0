package commands

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/catalog"
)

// goErrors matches what users must not see: errors of Go's library, cobra and pflag, and the names of
// system calls.
var goErrors = regexp.MustCompile(`(?i)strconv|ParseInt|parse error|invalid syntax|invalid argument|missing unit|must be formatted|shorthand|template: output|accepts \d|net/url|` +
	`\b(dial|listen) tcp|\bbind:|\bconnect: |\b(l?stat|open|read|mkdir|lookup) (/|[a-z0-9.]+:? no such)|context (deadline|canceled)|(?-i: (time|x509|json|http|nats): )|%!|\bEOF\b|interface|failed to send`)

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

// A command line that names a command builds this one only.
func TestOneCommandIsBuilt(t *testing.T) {
	for _, group := range groups() {
		for _, e := range group.commands {
			built := newRoot(&cli.Env{}, &cli.Globals{}, "--host", "x", "--help", e.name, "list").Commands()
			if len(built) != 1 || built[0].Name() != e.name {
				t.Errorf("%d commands for %s", len(built), e.name)
			}
		}
	}
}

// TestInvalidFlagValues gives every flag that is not a text an invalid value, and every flag that needs a
// value none. With -short, a flag of several commands is tried with one of them.
func TestInvalidFlagValues(t *testing.T) {
	b := clitest.New(t, Main)
	tried, seen := 0, map[string]bool{}
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
		cmd.InheritedFlags() // merges the root's flags into Flags
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			form := fmt.Sprint(f.Name, " ", f.Value.Type())
			if testing.Short() && seen[form] {
				return
			}
			seen[form] = true
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
		if testing.Short() && len(path) > 0 && path[0] != "watch" {
			return // parsed in the same way
		}
		wrong(append(path, "--no-such-flag")...)
		wrong(append(path, "-X")...)
		wrong(append(path, "--=a")...)
	})
	if tried < 150 {
		t.Errorf("only %d command lines were tried", tried)
	}
}

// usage are command lines that are refused, each with a part of what mcptrack says. Words that begin with
// @ stand for the addresses and the folder of the test.
func usage() [][2]string {
	return [][2]string{
		// Commands, flags and arguments
		{"wach --demo", "unknown command \"wach\"\nhint: did you mean watch?"},
		{"-x wach", "unknown flag -x\nhint: see mcptrack --help"},
		{"serve", "did you mean serve-sse?"},
		{"nonsense", "see mcptrack --help"},
		{"--demo", "--demo is a flag of "},
		{"watch --dmeo", "unknown flag --dmeo\nhint: did you mean --demo?"},
		{"watch --timeout", "--timeout needs a value: --timeout DURATION"},
		{"watch --timeout 5", "expected a duration such as 500ms, 30s or 1h30m"},
		{"list --timeout -1s", "--timeout must not be negative"},
		{"watch --count -1", "--count must not be negative"},
		{"watch -n demo", "to select a server use --server demo"},
		{"watch --json=maybe", "expected true or false"},
		{"call notes", "call takes 2 arguments, got 1; TOOL is missing"},
		{"call notes t x", "call takes 2 arguments, got 3\nhint: usage: mcptrack call SERVER TOOL"},
		{"subscribe", "SERVER is missing, for example mcptrack subscribe docs"},
		{"history docs", "mcptrack history SERVER"},
		{"version now", "version takes no arguments"},
		{"doctor demo", "doctor takes no arguments"},
		{"vault", "DIR is missing"},
		{"ps --yes", "--kill-orphans"},
		{"trust --config x", "--config"},
		{"trust --list --revoke", "--revoke"},
		{"help enviroment", "did you mean environment?"},
		{"completion", "choose bash, zsh, fish or powershell"},
		{"completion fsh", "did you mean fish?"},
		{"top", "top needs a terminal\nhint: use mcptrack watch"},
		{"list -o jsn", "choose table, wide, json, yaml, name or template=GO_TEMPLATE"},
		{"list -o sarif", "unknown --output"},
		{"audit --demo -o sari", "sarif, markdown"},
		{"list -o template={{", "invalid output template, line 1: unclosed action"},
		{"list --log-level loud", "choose debug, info, warn or error"},
		{"watch --type resource.updatd", "did you mean resource.updated?"},
		{"watch --type [a", "invalid glob \"[a\" in --type\nhint: close each [ and {"},
		{"subscribe notes note:///[a", "invalid glob"},
		{"watch --limit page=5", "did you mean pages?"},
		{"watch --limit items=many", "expected a positive number such as 500, 64KiB or 16MiB"},
		{"audit --demo --fail-on warnings", "there is no rule \"warnings\"\nhint: did you mean warning?"},
		{"audit --demo --skip error", "there is no rule"},
		// Servers and configs
		{"list note", "the config has no server \"note\"\nhint: did you mean notes?"},
		{"watch a b", "the config has: notes"},
		{"watch a.json b.json", "one config file"},
		{"watch notes --server notes", "remove --server"},
		{"read @DIR/c.json x:y", "is a file; specify the server's name\nhint: add the file with --config"},
		{"login exits --config @DIR/c.json", "there is nothing to log in to"},
		{"login --demo demo", "the demo server needs no login"},
		{"list --host cursr", "did you mean cursor?"},
		{"list --host cursor --config x", "--host and --config cannot be used together"},
		{"list --demo --config x", "remove --config or --demo"},
		{"watch --demo x.json", "remove x.json or --demo"},
		{"validate --demo x.json", "remove x.json or --demo"},
		{"gateway --demo --config x.json", "cannot be used with --config"},
		{"connect --config x.json", "connect does not use --config"},
		{"connect codx", "did you mean codex"},
		{"init --from curser --yes", "did you mean cursor"},
		{"init --yes new.toml", "init writes JSON"},
		{"init --yes -", "--dry-run prints"},
		{"init --yes --config new.json", "init does not use --config"},
		{"list https://me:secret@127.0.0.1", ""},
		// Requests
		{"read notes", "specify a URI or --template"},
		{"read notes x:y --template x:{a}", "--template"},
		{"read notes x:y --param a=b", "--param requires --template"},
		{"read notes --template x:{a} --param b=c", "unknown variable \"b\"; the template has a"},
		{"read notes --template x:{a", "invalid URI template"},
		{"call notes t --arg x", "expected NAME=VALUE"},
		{"call notes t --arg a=b --args-json {}", "--arg and --args-json cannot be used together"},
		{"call notes t --args-json {", "--args-json is not JSON: it ends too early"},
		{"call notes t --args-json {\"a\":}", "--args-json is not JSON at character 6"},
		{"call notes t --args-json [1]", "--args-json is not a JSON object"},
		{"subscribe notes --call t={", "not a JSON object"},
		// The lock
		{"verify --fail-on words", "unknown class \"words\" in --fail-on"},
		{"lock --class wording", "add --update"},
		// Logs and feeds
		{"watch --url :", "invalid URL"},
		{"status nonsense", "URL"},
		{"tail http://user:secret@127.0.0.1:1", ""},
		{"watch --url 1 --demo", "use mcptrack watch without --url"},
		{"watch --url 1 --lock x.lock", "--lock"},
		{"watch --url 1 a.json", "remove a.json"},
		{"watch --url 1 --since 1h --nats nats://127.0.0.1:1", "--nats cannot be used with --url"},
		{"watch --data-dir d", "--data-dir needs --since"},
		{"watch --since 1h --demo", "--demo cannot be used with --since"},
		{"watch --since 1h --no-follow --all", "use mcptrack watch without --no-follow"},
		{"watch --token-file f", "--token-file needs --url"},
		{"tail --token-file @DIR/none", "--token-file: @DIR/none: no such file"},
		{"tail 1 --url 2", "--url and the URL 1 cannot be used together"},
		{"tail --data-dir d", "use mcptrack watch"},
		{"replay --all", "use mcptrack watch"},
		{"replay --data-dir d --nats nats://127.0.0.1:1", "--nats"},
		{"history notes x:y --url 1 --nats nats://127.0.0.1:1", "--nats"},
		{"replay --since yesterday", "expected an id such as 3f9a1c20b7e4d581-42, a time such as"},
		{"watch --since= --no-follow", "invalid --since \"\""},
		{"tail --since 0001-01-01T00:00:00Z", "is before 1970"},
		{"replay --since 2999-01-01T00:00:00Z", "is in the future"},
		{"replay --since=-2h", "invalid --since"},
		{"watch --demo --once", "--once needs --agent"},
		{"watch --agent --once --count 1", "--count"},
		{"watch --agent --diff", "--agent cannot be used with --diff"},
		{"tail --agent -o yaml", "--agent cannot be used with"},
		{"watch --agent --lock x.lock", "--lock"},
		// What listens
		{"serve-sse --demo --addr 0.0.0.0:0", "token"},
		{"serve-sse --demo --addr 0.0.0.0:0 --token-file @DIR/weak", "easy to guess"},
		{"serve-sse --demo --token-file @DIR/open", "chmod 600"},
		{"serve-sse --demo --addr nonsense", "--addr"},
		{"serve-sse --demo --durability sometimes", "choose always or interval"},
		{"serve-sse --demo --retain soon", "invalid --retain"},
		{"serve-sse --demo --retain-bytes many", "invalid --retain-bytes"},
		{"serve-sse --demo --retain-bytes 0", "--retain-bytes"},
		{"serve-sse --demo --keep-content much", "--keep-content"},
		{"serve-sse --demo --allow-origin nonsense", "--allow-origin"},
		{"serve-sse --demo --public-url http://hooks.example", "does not use https"},
		{"serve-sse --demo --public-url https://hooks.example/path", "specify only the scheme, host and port"},
		{"serve-sse --demo --public-url https://hooks.example", "requires --token-file"},
		{"serve-sse --demo --dashboard-url https://user:secret@mcptrack.example", "an origin has no user name and no password"},
		{"serve-sse --demo --dashboard-url mcptrack.example", "is not an origin"},
		{"serve-sse --nats nats://127.0.0.1:1 --follow --dashboard-url http://mcptrack.example", "follows no server"},
		{"serve-sse --nats nats://127.0.0.1:1 --follow --lock x.lock", "--lock"},
		{"serve-sse --demo --tls-cert @DIR/open", "must be used together"},
		{"serve-sse --demo --tls-cert @DIR/none --tls-key @DIR/open", "@DIR/none: no such file"},
		{"serve-sse --demo --tls-cert @DIR/open --tls-key @DIR/open", "mode 0644 lets other users read it"},
		{"daemon --token-file x", "need --http"},
		{"daemon --http nowhere", "--http: invalid address"},
		{"daemon --idle -1s", "--idle must not be negative"},
		{"vault @DIR --stdio --addr 127.0.0.1:0", "--addr"},
		{"vault @DIR --ignore [a", "invalid glob"},
		{"gateway --stdio --addr 127.0.0.1:0", "cannot be used with --addr"},
		{"gateway --stdio --trust-proxy", "--stdio cannot be used with"},
		{"gateway --on-down away", "choose keep or drop"},
		{"gateway --deny [a", "invalid glob \"[a\" in --deny"},
		{"gateway --allow=", "--allow is empty"},
		{"gateway --wait -1s", "--wait"},
		{"gateway --catalog-url ftp://x", "--catalog-url"},
		{"gateway --demo --retain 1h", "--retain needs --data-dir, --nats, --events or --change-tools"},
		{"gateway --events --events-allow **.host/**", "it must start with https://"},
		{"gateway --demo --events --events-key-file key", "--events-key-file requires --nats"},
		// inject
		{"inject", "no session given; use --call-id, --session-id, --model or --listen"},
		{"inject --demo --model m", "no key for wss://api.openai.com/v1/realtime"},
		{"inject --demo --model m --call-id rtc_1", "--call-id"},
		{"inject --demo --session-id sess_1 --respond", "the model itself decides when to speak"},
		{"inject --demo --session-id ../x", "invalid session id"},
		{"inject --demo --model m --refresh-tools", "--refresh-tools requires --listen"},
		{"inject --demo --dialect klingon --url ws://127.0.0.1:1", "choose openai, gpt-live or elevenlabs"},
		{"inject --demo --dialect elevenlabs --model m", "--model"},
		{"inject --demo --dialect elevenlabs --url ws://127.0.0.1:1", "--session-id"},
		{"inject --demo --dialect elevenlabs --session-id conv_1", "set ELEVENLABS_API_KEY"},
		{"inject --demo --listen 127.0.0.1:0", "must be used together"},
		{"inject --demo --listen 0.0.0.0:0 --upstream wss://api.openai.com/v1/realtime", "add --token-file"},
		{"inject --demo --listen 127.0.0.1:0 --upstream ws://elsewhere.example/v1", "not encrypted"},
		{"inject --demo --model m --url ws://elsewhere.example/v1", "use wss"},
		{"inject --demo --model m --url wss://user:secret@elsewhere.example", ""},
		{"inject --demo --model m --header Authorization=secret", "OPENAI_API_KEY or --api-key-file"},
		{"inject --demo --model m --header Connection=close", "Connection"},
		{"inject --demo --model m --api-key-file @DIR/open", "chmod 600"},
		{"inject --demo --dry-run --role developer", "choose user or system"},
		{"inject --demo --dry-run --stdin", "--stdin"},
		{"inject --dry-run --from nonsense", "invalid --from"},
		{"inject --dry-run --from http://127.0.0.1:1 --content", "--content"},
		{"inject --demo --dry-run --listen 127.0.0.1:0 --upstream wss://x.example", "--dry-run"},
	}
}

// failure is a command line that fails because of a file, a server or the network.
type failure struct {
	args string
	exit int
	says string
}

func failures() []failure {
	return []failure{
		// Files
		{"verify", cli.ExitConfig, "there is no lock "},
		{"verify --config @DIR/c.json --lock @DIR/syntax.json", cli.ExitConfig, "@DIR/syntax.json: line 1, column 38: "},
		{"list --config @DIR/none.json", cli.ExitConfig, "config file not found\nhint: check the file name; run mcptrack init FILE"},
		{"list --config @DIR", cli.ExitConfig, "is not a regular file"},
		{"list --config @DIR/syntax.json", cli.ExitConfig, "@DIR/syntax.json:1:40: error: unexpected end of file"},
		{"list --config @DIR/package.json", cli.ExitConfig, "must contain a \"servers\" array or an \"mcpServers\" object\nhint: mcptrack validate @DIR/package.json shows all problems"},
		{"replay --data-dir @DIR/none", cli.ExitFailed, "no events are stored in @DIR/none\nhint: use the --data-dir or --nats that serve-sse was started with"},
		{"diff notes x:y --data-dir @DIR/none", cli.ExitFailed, "no events are stored"},
		{"watch --since 1h --no-follow --data-dir @DIR/none", cli.ExitFailed, "no events are stored"},
		{"serve-sse --demo --addr 127.0.0.1:0 --data-dir @DIR/c.json/data", cli.ExitFailed, "@DIR/c.json"},
		{"vault @DIR/none", cli.ExitFailed, "@DIR/none: no such file or directory\nhint: check the name of the folder, or create it"},
		{"vault @DIR/c.json", cli.ExitFailed, "not a directory"},
		// Addresses
		{"vault @DIR --addr @HOST", cli.ExitFailed, "cannot listen on @HOST: address already in use\nhint: choose another port"},
		{"serve-sse --demo --addr 127.0.0.1:99999", cli.ExitUsage, "99999"},
		{"status http://@CLOSED", cli.ExitUnreachable, "is mcptrack serve-sse running there"},
		{"tail http://@CLOSED", cli.ExitUnreachable, "is mcptrack serve-sse running there"},
		{"diff notes x:y --url http://@CLOSED", cli.ExitUnreachable, "@CLOSED"},
		{"status http://@NAME:1", cli.ExitUnreachable, "@NAME"},
		{"replay --nats nats://u:secret@@CLOSED", cli.ExitUnreachable, "cannot connect to NATS at nats://@CLOSED: no server responded\nhint: start the cluster, or correct --nats"},
		{"serve-sse --demo --nats nats://secret@@CLOSED --addr 127.0.0.1:0", cli.ExitUnreachable, "cannot connect to NATS"},
		{"inject --dry-run --from http://@CLOSED --timeout 1s --log-level error", cli.ExitUnreachable, "the feed could not be reached"},
		// Servers
		{"read missing x:y --config @DIR/c.json", cli.ExitUnreachable, "missing: there is no program \"no-such-program\" in PATH"},
		{"read exits x:y --config @DIR/c.json", cli.ExitUnreachable, "exits: exited with status 3: fatal: no licence key"},
		{"read quits x:y --config @DIR/c.json", cli.ExitUnreachable, "quits: exited with status 0"},
		{"read banner x:y --config @DIR/c.json --log-level error", cli.ExitUnreachable, "banner: the server wrote text that is not MCP to stdout: Welcome!"},
		{"read silent x:y --config @DIR/c.json", cli.ExitUnreachable, "silent: did not answer within 1s"},
		{"read hangs x:y --config @DIR/c.json", cli.ExitUnreachable, "hangs: did not answer within 1s"},
		{"read notfound x:y --config @DIR/c.json", cli.ExitUnreachable, "there is no MCP server at @URL/404 (HTTP 404); the path is often /mcp or /sse"},
		{"read page x:y --config @DIR/c.json", cli.ExitUnreachable, "@URL/page is a web page, not an MCP server"},
		{"read ssepage x:y --config @DIR/c.json", cli.ExitUnreachable, "@URL/page is a web page, not an MCP server"},
		{"read api x:y --config @DIR/c.json", cli.ExitUnreachable, "@URL/api is not an MCP server: the response has no id"},
		{"read getonly x:y --config @DIR/c.json", cli.ExitUnreachable, "there is no MCP server at @URL/501 (HTTP 501)"},
		{"read text x:y --config @DIR/c.json", cli.ExitUnreachable, "the response has the content type text/plain"},
		{"read garbage x:y --config @DIR/c.json", cli.ExitUnreachable, "the response is not JSON"},
		{"read fails x:y --config @DIR/c.json", cli.ExitUnreachable, "responded with an internal error (HTTP 500)"},
		{"read moved x:y --config @DIR/c.json", cli.ExitUnreachable, "the server redirects to @URL/mcp; if you trust that address"},
		{"read loop x:y --config @DIR/c.json", cli.ExitUnreachable, "redirects to itself"},
		{"read login x:y --config @DIR/c.json", cli.ExitUnreachable, "login: needs a login (HTTP 401): run mcptrack login login"},
		{"read token x:y --config @DIR/c.json", cli.ExitUnreachable, "the token in the header Authorization was rejected (HTTP 401)"},
		{"read denied x:y --config @DIR/c.json", cli.ExitUnreachable, "access is denied (HTTP 403): run mcptrack login denied"},
		{"read tokendenied x:y --config @DIR/c.json", cli.ExitUnreachable, "access is denied (HTTP 403): check the Authorization header"},
		{"read closed x:y --config @DIR/c.json", cli.ExitUnreachable, "cannot connect to http://@CLOSED/mcp: connection refused; is the server running?"},
		{"read noname x:y --config @DIR/c.json", cli.ExitUnreachable, "there is no host named \"@NAME\"; check the URL"},
		{"read plain x:y --config @DIR/c.json", cli.ExitUnreachable, "does not use TLS; if that is intended, use http in the URL"},
		{"read tls x:y --config @DIR/c.json", cli.ExitUnreachable, "if it uses TLS, use https in the URL"},
		{"read untrusted x:y --config @DIR/c.json", cli.ExitUnreachable, "is from an unknown authority; if you trust it"},
		{"read expired x:y --config @DIR/c.json", cli.ExitUnreachable, "expired on 2021-01-01"},
		{"read early x:y --config @DIR/c.json", cli.ExitUnreachable, "is not valid before 2120-01-01; check the clock of this machine"},
		{"read othername x:y --config @DIR/c.json", cli.ExitUnreachable, "is for docs.example, 192.0.2.1; use that name in the URL"},
	}
}

// TestMistakes: what mcptrack says about a mistake begins with what is wrong in the user's words. It names
// no functions of Go, repeats no secrets, and prints nothing on stdout.
func TestMistakes(t *testing.T) {
	answer := func(status int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = fmt.Fprint(w, body)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/page", answer(200, "text/html; charset=utf-8", "<html>"))
	mux.Handle("/api", answer(200, "application/json", `{"status":"ok"}`))
	mux.Handle("/501", answer(501, "text/html", "<html>"))
	mux.Handle("/text", answer(200, "text/plain", "hello\nworld"))
	mux.Handle("/garbage", answer(200, "application/json", "{oops"))
	mux.HandleFunc("/hangs", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client is gone
		<-r.Context().Done()
	})
	for _, status := range []int{401, 403, 500} {
		mux.Handle(fmt.Sprint("/", status), answer(status, "text/plain", "no"))
	}
	mux.Handle("/moved", http.RedirectHandler("/mcp?key=secret", http.StatusFound))
	mux.Handle("/loop", http.RedirectHandler("/loop", http.StatusTemporaryRedirect))
	plain := httptest.NewServer(mux)
	t.Cleanup(plain.Close)
	secure := func(certificates ...tls.Certificate) string {
		s := httptest.NewUnstartedServer(mux)
		s.Config.ErrorLog = log.New(io.Discard, "", 0) // it would report the certificate that clients refuse
		s.TLS = &tls.Config{Certificates: certificates, MinVersion: tls.VersionTLS12}
		s.StartTLS()
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	dir := t.TempDir()
	places := strings.NewReplacer("@URL", plain.URL, "@HOST", plain.Listener.Addr().String(), "@CLOSED", closedAddress(t), "@DIR", dir,
		"@TLS", secure(), "@EXPIRED", secure(certificate(t, 2020, 127, 0, 0, 1)), "@EARLY", secure(certificate(t, 2120, 127, 0, 0, 1)), "@OTHER", secure(certificate(t, time.Now().Year(), 192, 0, 2, 1)),
		"@NAME", strings.Repeat("a", 64)) // no name is that long, so that no name server is asked
	for name, text := range map[string]string{
		"package.json": `{"name": "x", "version": "1.0.0"}`, "syntax.json": `{"mcpServers": {"a": {"command": "sh",}`, "weak": "correcthorsebattery", "open": "a-token-that-everybody-can-read",
		"c.json": `{"mcpServers": {
			"missing": {"command": "no-such-program"},
			"exits": {"command": "sh", "args": ["-c", "echo 'fatal: no licence key' >&2; exit 3"], "trackTools": true}, "quits": {"command": "true"},
			"banner": {"command": "sh", "args": ["-c", "echo Welcome!; exec sleep 60"], "connectTimeout": "1s"},
			"silent": {"command": "sleep", "args": ["60"], "connectTimeout": "1s"},
			"hangs": {"url": "@URL/hangs", "connectTimeout": "1s"}, "notfound": {"url": "@URL/404"}, "page": {"url": "@URL/page"}, "ssepage": {"type": "sse", "url": "@URL/page"}, "api": {"url": "@URL/api"}, "getonly": {"url": "@URL/501"}, "text": {"url": "@URL/text"}, "garbage": {"url": "@URL/garbage"},
			"fails": {"url": "@URL/500"}, "moved": {"url": "@URL/moved"}, "login": {"url": "@URL/401"},
			"token": {"url": "@URL/401", "headers": {"Authorization": "Bearer wrong-secret"}},
			"denied": {"url": "@URL/403"}, "tokendenied": {"url": "@URL/403", "headers": {"Authorization": "Bearer wrong-secret"}},
			"loop": {"url": "@URL/loop"}, "noname": {"url": "http://@NAME/mcp"}, "expired": {"url": "https://@EXPIRED/mcp"},
			"early": {"url": "https://@EARLY/mcp"}, "othername": {"url": "https://@OTHER/mcp"},
			"closed": {"url": "http://user:secret@@CLOSED/mcp?key=secret"}, "plain": {"url": "https://@HOST/mcp"},
			"tls": {"url": "http://@TLS/mcp"}, "untrusted": {"url": "https://@TLS/mcp"}}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(places.Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "open"), 0o644); err != nil {
		t.Fatal(err)
	}
	all := failures()
	for _, u := range usage() {
		all = append(all, failure{u[0], cli.ExitUsage, u[1]})
	}
	for _, f := range all {
		t.Run(f.args, func(t *testing.T) {
			t.Parallel()
			b := clitest.New(t, Main, "PATH="+os.Getenv("PATH"), "HOME="+t.TempDir())
			b.In = strings.NewReader("")
			if strings.Contains(f.args, "--config") {
				b.Env.Dial = nil
			}
			code, out := b.Run(t, strings.Fields(places.Replace(f.args))...)
			text := b.Stderr.String()
			if code != f.exit || out != "" || !strings.HasPrefix(text, "mcptrack: ") || !strings.Contains(text, places.Replace(f.says)) {
				t.Errorf("exit %d, want %d; stdout %q\n%s\nwant %q", code, f.exit, out, text, places.Replace(f.says))
			}
			if goErrors.MatchString(text) || strings.Contains(text, "secret") {
				t.Errorf("it says %s", text)
			}
		})
	}
}

// closedAddress returns an address on which nobody listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

// An empty argument or flag names itself.
func TestEmptyArguments(t *testing.T) {
	b := clitest.New(t, Main)
	for want, args := range map[string][]string{
		"argument 1 of mcptrack watch is empty": {"watch", ""}, "argument 2 of mcptrack read is empty": {"read", "notes", ""},
		"--config is empty": {"list", "--config", ""}, "--host is empty": {"list", "--host", ""},
	} {
		if code, _ := b.Run(t, args...); code != cli.ExitUsage || !strings.Contains(b.Stderr.String(), want) {
			t.Errorf("%q: exit %d: %s", args, code, &b.Stderr)
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

// certificate returns a self-signed certificate for docs.example and an IP address, which is valid for
// one year.
func certificate(t *testing.T, year int, ip ...byte) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: from.AddDate(1, 0, 0), DNSNames: []string{"docs.example"}, IPAddresses: []net.IP{ip}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
