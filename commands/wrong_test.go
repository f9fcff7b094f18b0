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
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
)

// mistake is something that a new user does wrong, and what mcptrack says on stderr. Words that begin
// with @ stand for the addresses and the folder of the test.
type mistake struct {
	args string // separated by spaces
	exit int
	says string
}

func mistakes() []mistake {
	return []mistake{
		// The command line
		{"wach", cli.ExitUsage, "unknown command \"wach\"\nhint: did you mean watch?"},
		{"watch --confg x", cli.ExitUsage, "unknown flag --confg\nhint: did you mean --config?"},
		{"list --timeout 5", cli.ExitUsage, "invalid value \"5\" for --timeout; expected a duration such as 500ms, 30s or 1h30m\nhint: see mcptrack list --help"},
		{"list --timeout -1s", cli.ExitUsage, "--timeout must not be negative"},
		{"list --host cursor --config x", cli.ExitUsage, "--host and --config cannot be used together"},
		{"list -o jsn", cli.ExitUsage, "unknown --output \"jsn\"; choose table, wide, json, yaml, name or template=GO_TEMPLATE"},
		{"list --host cursr", cli.ExitUsage, "unknown --host \"cursr\"\nhint: did you mean cursor?"},
		{"list --log-level loud", cli.ExitUsage, "unknown --log-level \"loud\"; choose debug, info, warn or error"},
		{"help nonsense", cli.ExitUsage, "unknown help topic \"nonsense\"\nhint: mcptrack --help lists the commands and topics"},
		{"completion fsh", cli.ExitUsage, "unknown shell \"fsh\"; choose bash, zsh, fish or powershell\nhint: did you mean fish?"},
		{"top --config @DIR/c.json", cli.ExitUsage, "top needs a terminal\nhint: use mcptrack watch to print lines, or mcptrack status to print a table"},
		{"watch --count -1 --config @DIR/c.json", cli.ExitUsage, "--count must not be negative"},
		{"replay --since yesterday", cli.ExitUsage, "invalid --since \"yesterday\"; expected an id such as 3f9a1c20b7e4d581-42, a time such as 2026-11-20T08:00:00Z, or a duration such as 2h or 7d"},
		{"tail --token-file @DIR/none", cli.ExitUsage, "--token-file: @DIR/none: no such file"},
		{"list --demo -o sarif", cli.ExitUsage, "unknown --output \"sarif\"; choose table, wide, json, yaml, name or template=GO_TEMPLATE"},
		{"audit --demo -o sari", cli.ExitUsage, "unknown --output \"sari\"; choose table, wide, json, yaml, name, sarif, junit, markdown or template=GO_TEMPLATE"},
		{"audit --demo --fail-on warnings", cli.ExitUsage, "--fail-on: there is no rule \"warnings\"\nhint: did you mean warning?"},
		{"audit --demo --skip L002", cli.ExitUsage, "--skip: there is no rule \"L002\"\nhint: did you mean A002?"},
		// The lock
		{"verify --config @DIR/c.json", cli.ExitConfig, "there is no lock @DIR/mcptrack.lock\nhint: mcptrack lock writes what the servers offer now into it"},
		{"verify --config @DIR/c.json --lock @DIR/syntax.json", cli.ExitConfig, "@DIR/syntax.json: line 1, column 38: invalid character ',' at start of value at /mcpServers/a; it was edited by hand or merged incorrectly; restore it from version control, or delete it and run: mcptrack lock"},
		{"verify --fail-on words --config @DIR/c.json", cli.ExitUsage, "unknown class \"words\" in --fail-on\nhint: choose from removed, wording, title, optional, added, loosened, narrowed, annotation, suspicious, instructions, launch, output, capability, content, other, promise, policy"},
		{"verify --against @DIR/none.lock --all-variants --config @DIR/c.json", cli.ExitUsage, "--against compares two locks and lists no servers\nhint: remove --all-variants"},
		{"approve --config @DIR/c.json", cli.ExitUsage, "approve takes at least 1 argument, got 0; SERVER[:ITEM] is missing, for example mcptrack approve docs:tool/search\nhint: usage: mcptrack approve SERVER[:ITEM]... [flags]"},
		{"approve dem:tool/x --config @DIR/c.json", cli.ExitUsage, "the config has no server \"dem\"\nhint: did you mean demo?"},
		{"review demo x --config @DIR/c.json", cli.ExitUsage, "review takes at most 1 argument, got 2\nhint: usage: mcptrack review [SERVER] [flags]"},
		{"lock --class wording --config @DIR/c.json", cli.ExitUsage, "--class selects changes to take over, so it needs --update\nhint: add --update"},
		{"lock --update --import @DIR/none.lock --config @DIR/c.json", cli.ExitUsage, "--update and --import cannot be used together\nhint: run mcptrack lock --import first, and then mcptrack lock --update"},
		{"lock --import @DIR/none.lock --config @DIR/c.json", cli.ExitFailed, "--import: @DIR/none.lock: no such file or directory"},
		{"lock --import @DIR/package.json --config @DIR/c.json", cli.ExitConfig, "--import: @DIR/package.json: it is neither a mcp-pin.lock nor a warden.lock: both lockfileVersion and schema_version are missing"},
		// The config
		{"list --config @DIR/none.json", cli.ExitConfig, "@DIR/none.json:1:1: error: config file not found\nhint: check the file name; run mcptrack init FILE to create a config, or mcptrack watch FILE to wait for one"},
		{"list --config @DIR", cli.ExitConfig, "@DIR:1:1: error: is a directory, not a config file\nhint: mcptrack validate-config @DIR shows all problems"},
		{"list --config @DIR/empty.json", cli.ExitConfig, "@DIR/empty.json:1:1: error: file is empty\nhint: mcptrack validate-config @DIR/empty.json shows all problems"},
		{"list --config @DIR/syntax.json", cli.ExitConfig, "@DIR/syntax.json:1:40: error: unexpected end of file: the \"{\" at line 1, column 16 is not closed\nhint: mcptrack validate-config @DIR/syntax.json shows all problems"},
		{"list --config @DIR/package.json", cli.ExitConfig, "@DIR/package.json:1:1: error: Config at @DIR/package.json must contain a \"servers\" array or an \"mcpServers\" object\nhint: mcptrack validate-config @DIR/package.json shows all problems"},
		{"list --config @DIR/nourl.json", cli.ExitConfig, "@DIR/nourl.json:1:31: error: Server \"a\" has invalid \"url\"; it is not a URL\nhint: mcptrack validate-config @DIR/nourl.json shows all problems"},
		{"list --config @DIR/relative.json", cli.ExitConfig, "@DIR/relative.json:1:27: error: Server \"a\" has invalid \"url\"; its scheme must be http or https\nhint: mcptrack validate-config @DIR/relative.json shows all problems"},
		{"read dem x:y --config @DIR/c.json", cli.ExitUsage, "the config has no server \"dem\"\nhint: did you mean demo?"},
		{"read @DIR/c.json x:y", cli.ExitUsage, "@DIR/c.json is a file; specify the server's name\nhint: add the file with --config"},
		{"login exits --config @DIR/c.json", cli.ExitUsage, "server \"exits\" is a program on this machine; there is nothing to log in to\nhint: put its credentials into \"env\" in the config"},
		// Servers that cannot be reached
		{"read missing x:y --config @DIR/c.json", cli.ExitUnreachable, "missing: there is no program \"no-such-program\" in PATH"},
		{"read exits x:y --config @DIR/c.json", cli.ExitUnreachable, "exits: exited with status 3: fatal: no licence key"},
		{"read quits x:y --config @DIR/c.json", cli.ExitUnreachable, "quits: exited with status 0"},
		{"read banner x:y --config @DIR/c.json --log-level error", cli.ExitUnreachable, "banner: the server wrote text that is not MCP to stdout: Welcome! (did not answer within 1s)"},
		{"read silent x:y --config @DIR/c.json", cli.ExitUnreachable, "silent: did not answer within 1s"},
		{"read hangs x:y --config @DIR/c.json", cli.ExitUnreachable, "hangs: did not answer within 1s"},
		{"read notfound x:y --config @DIR/c.json", cli.ExitUnreachable, "notfound: there is no MCP server at @URL/404 (HTTP 404); the path is often /mcp or /sse"},
		{"read page x:y --config @DIR/c.json", cli.ExitUnreachable, "page: @URL/page is a web page, not an MCP server"},
		{"read text x:y --config @DIR/c.json", cli.ExitUnreachable, "text: @URL/text is not an MCP server: the response has the content type text/plain"},
		{"read garbage x:y --config @DIR/c.json", cli.ExitUnreachable, "garbage: @URL/garbage is not an MCP server: the response is not JSON"},
		{"read fails x:y --config @DIR/c.json", cli.ExitUnreachable, "fails: @URL/500 responded with an internal error (HTTP 500)"},
		{"read moved x:y --config @DIR/c.json", cli.ExitUnreachable, "moved: the server redirects to @URL/mcp; if you trust that address, use it as the URL in the config"},
		{"read loop x:y --config @DIR/c.json", cli.ExitUnreachable, "loop: @URL/loop redirects to itself (HTTP 307); check the server and the proxies in front of it"},
		{"read login x:y --config @DIR/c.json", cli.ExitUnreachable, "login: needs a login (HTTP 401): run mcptrack login login, or add an Authorization header in the server's \"headers\" in the config"},
		{"read token x:y --config @DIR/c.json", cli.ExitUnreachable, "token: the token in the header Authorization was rejected (HTTP 401): check the Authorization header in the server's \"headers\" in the config"},
		{"read denied x:y --config @DIR/c.json", cli.ExitUnreachable, "denied: access is denied (HTTP 403): run mcptrack login denied, or add an Authorization header in the server's \"headers\" in the config"},
		{"read tokendenied x:y --config @DIR/c.json", cli.ExitUnreachable, "tokendenied: access is denied (HTTP 403): check the Authorization header in the server's \"headers\" in the config"},
		{"read closed x:y --config @DIR/c.json", cli.ExitUnreachable, "closed: cannot connect to http://@CLOSED/mcp: connection refused; is the server running?"},
		{"read noname x:y --config @DIR/c.json", cli.ExitUnreachable, "noname: there is no host named \"@NAME\"; check the URL"},
		{"read plain x:y --config @DIR/c.json", cli.ExitUnreachable, "plain: https://@HOST/mcp does not use TLS; if that is intended, use http in the URL"},
		{"read tls x:y --config @DIR/c.json", cli.ExitUnreachable, "tls: http://@TLS/mcp refuses the connection (HTTP 400); if it uses TLS, use https in the URL"},
		{"read untrusted x:y --config @DIR/c.json", cli.ExitUnreachable, "untrusted: the certificate of https://@TLS/mcp is from an unknown authority; if you trust it, add the authority's certificate to those that this machine trusts, or set SSL_CERT_FILE to a file that contains it"},
		{"read expired x:y --config @DIR/c.json", cli.ExitUnreachable, "expired: the certificate of https://@EXPIRED/mcp expired on 2021-01-01; renew it on the server, or check the clock of this machine"},
		{"read early x:y --config @DIR/c.json", cli.ExitUnreachable, "early: the certificate of https://@EARLY/mcp is not valid before 2120-01-01; check the clock of this machine"},
		{"read othername x:y --config @DIR/c.json", cli.ExitUnreachable, "othername: the certificate of https://@OTHER/mcp is for docs.example, 192.0.2.1; use that name in the URL"},
		// Requests
		{"read demo --config @DIR/c.json", cli.ExitUsage, "specify a URI or --template\nhint: mcptrack list resources demo lists the URIs"},
		{"read demo --template x:{a --config @DIR/c.json", cli.ExitUsage, "--template: expand template \"x:{a\": invalid URI template (RFC 6570)\nhint: for example --template 'notes:///{year}/{name}' --param year=2026 --param name=plan"},
		{"call demo t --arg x --config @DIR/c.json", cli.ExitUsage, "invalid --arg \"x\"; expected NAME=VALUE"},
		{"call demo t --args-json {\"a\":} --config @DIR/c.json", cli.ExitUsage, "--args-json is not JSON at character 6, which is \"}\"\nhint: for example --args-json '{\"message\":\"hello\"}'"},
		{"call demo t --args-json [1] --config @DIR/c.json", cli.ExitUsage, "--args-json is not a JSON object\nhint: for example --args-json '{\"message\":\"hello\"}'"},
		{"subscribe demo [ --config @DIR/c.json", cli.ExitUsage, "invalid glob \"[\" in URI\nhint: close each [ and {, or write \\[ and \\{ for the characters themselves"},
		{"watch --type [a --config @DIR/c.json", cli.ExitUsage, "invalid glob \"[a\" in --type\nhint: close each [ and {, or write \\[ and \\{ for the characters themselves"},
		// Logs and feeds
		{"replay --data-dir @DIR/none", cli.ExitFailed, "no events are stored in @DIR/none\nhint: use the --data-dir or --nats that serve-sse was started with; a copy of a log also needs events.db-wal (mcptrack help serving)"},
		{"replay --nats nats://u:secret@@CLOSED", cli.ExitUnreachable, "cannot connect to NATS at nats://@CLOSED: no server responded\nhint: start the cluster, or correct --nats"},
		{"history demo x:y --nats nats://@CLOSED", cli.ExitUnreachable, "cannot connect to NATS at nats://@CLOSED: no server responded\nhint: start the cluster, or correct --nats"},
		{"diff demo x:y --nats nats://@CLOSED", cli.ExitUnreachable, "cannot connect to NATS at nats://@CLOSED: no server responded\nhint: start the cluster, or correct --nats"},
		{"serve-sse --demo --nats nats://token@@CLOSED --addr 127.0.0.1:0", cli.ExitUnreachable, "cannot connect to NATS at nats://@CLOSED: no server responded\nhint: start the cluster, or correct --nats"},
		{"vault @DIR/none", cli.ExitFailed, "cannot open the folder of the vault: @DIR/none: no such file or directory\nhint: check the name of the folder, or create it"},
		{"vault @DIR/c.json", cli.ExitFailed, "cannot open the folder of the vault: @DIR/c.json: not a directory"},
		{"vault @DIR --addr @HOST", cli.ExitFailed, "cannot listen on @HOST: address already in use\nhint: choose another port, or stop the program that uses this one"},
		{"inject", cli.ExitUsage, "no session given; use --call-id, --session-id, --model or --listen\nhint: to try it, use --dry-run; to join all sessions of an application, use --listen and --upstream"},
	}
}

// TestMistakes: the first line says what is wrong in the user's words, and the hint what to do.
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
	mux.Handle("/text", answer(200, "text/plain", "hello\nworld"))
	mux.Handle("/garbage", answer(200, "application/json", "{oops"))
	mux.HandleFunc("/hangs", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client is gone
		<-r.Context().Done()
	})
	mux.Handle("/401", answer(401, "text/plain", "no"))
	mux.Handle("/500", answer(500, "text/plain", "no"))
	mux.Handle("/403", answer(403, "text/plain", "no"))
	mux.Handle("/moved", http.RedirectHandler("/mcp?key=secret", http.StatusTemporaryRedirect))
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
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := ln.Addr().String()
	_ = ln.Close()
	dir := t.TempDir()
	places := strings.NewReplacer("@URL", plain.URL, "@HOST", plain.Listener.Addr().String(), "@CLOSED", closed, "@DIR", dir,
		"@TLS", secure(), "@EXPIRED", secure(certificate(t, 2020, 127, 0, 0, 1)), "@EARLY", secure(certificate(t, 2120, 127, 0, 0, 1)), "@OTHER", secure(certificate(t, time.Now().Year(), 192, 0, 2, 1)),
		"@NAME", strings.Repeat("a", 64)) // no name is that long, so that no name server is asked
	for name, text := range map[string]string{
		"empty.json": "", "package.json": `{"name": "x", "version": "1.0.0"}`, "syntax.json": `{"mcpServers": {"a": {"command": "sh",}`,
		"relative.json": `{"mcpServers":{"a":{"url":"/mcp"}}}`, "untracked.json": `{"servers":[{"id":"a","url":"@URL/mcp"}]}`,
		"nourl.json": `{"mcpServers":{"a":{ "url"  : "127.0.0.1:80/mcp"}}}`,
		"c.json": `{"mcpServers": {
			"demo": {"url": "@URL/mcp"}, "missing": {"command": "no-such-program"},
			"exits": {"command": "sh", "args": ["-c", "echo 'fatal: no licence key' >&2; exit 3"]}, "quits": {"command": "true"},
			"banner": {"command": "sh", "args": ["-c", "echo Welcome!; exec sleep 60"], "connectTimeout": "1s"},
			"silent": {"command": "sleep", "args": ["60"], "connectTimeout": "1s"},
			"hangs": {"url": "@URL/hangs", "connectTimeout": "1s"}, "notfound": {"url": "@URL/404"}, "page": {"url": "@URL/page"}, "text": {"url": "@URL/text"}, "garbage": {"url": "@URL/garbage"},
			"fails": {"url": "@URL/500"}, "moved": {"url": "@URL/moved"}, "login": {"url": "@URL/401"},
			"token": {"url": "@URL/401", "headers": {"Authorization": "Bearer wrong-token"}},
			"denied": {"url": "@URL/403"}, "tokendenied": {"url": "@URL/403", "headers": {"Authorization": "Bearer wrong-token"}},
			"loop": {"url": "@URL/loop"}, "noname": {"url": "http://@NAME/mcp"}, "expired": {"url": "https://@EXPIRED/mcp"},
			"early": {"url": "https://@EARLY/mcp"}, "othername": {"url": "https://@OTHER/mcp"},
			"closed": {"url": "http://user:secret@@CLOSED/mcp?key=secret"}, "plain": {"url": "https://@HOST/mcp"},
			"tls": {"url": "http://@TLS/mcp"}, "untrusted": {"url": "https://@TLS/mcp"}}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(places.Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("gateway without tracked servers, on a terminal", func(t *testing.T) {
		t.Parallel()
		b := clitest.New(t, Main, "NO_COLOR=1")
		b.ErrTTY, b.In = true, strings.NewReader("")
		code, out := b.Run(t, "gateway", "--stdio", "--config", dir+"/untracked.json")
		want := places.Replace("mcptrack: warning: there is no server to serve yet (file @DIR/untracked.json)\nhint: set \"trackResources\": true in @DIR/untracked.json on the servers to follow (a), or use --all\n")
		if got := b.Stderr.String(); code != cli.ExitOK || out != "" || got != want {
			t.Errorf("exit %d, stdout %s\n got %q\nwant %q", code, out, got, want)
		}
	})
	t.Run("unreadable config", func(t *testing.T) {
		t.Parallel()
		if os.Geteuid() == 0 {
			t.Skip("root can read every file")
		}
		file := filepath.Join(dir, "secret.json")
		if err := os.WriteFile(file, []byte("{}"), 0); err != nil {
			t.Fatal(err)
		}
		b := clitest.New(t, Main)
		code, _ := b.Run(t, "list", "--config", file)
		if got := b.Stderr.String(); code != cli.ExitConfig || !strings.HasPrefix(got, "mcptrack: "+file+":1:1: error: ") || !strings.Contains(got, "permission denied") {
			t.Errorf("exit %d: %s", code, got)
		}
	})
	for _, m := range mistakes() {
		t.Run(m.args, func(t *testing.T) {
			t.Parallel()
			b := clitest.New(t, Main, "PATH="+os.Getenv("PATH"))
			b.Env.Dial = nil
			code, out := b.Run(t, strings.Fields(places.Replace(m.args))...)
			want := "mcptrack: " + places.Replace(m.says) + "\n"
			if got := b.Stderr.String(); code != m.exit || out != "" || got != want {
				t.Errorf("exit %d, want %d\nstdout %s\n got %q\nwant %q", code, m.exit, out, got, want)
			}
		})
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
