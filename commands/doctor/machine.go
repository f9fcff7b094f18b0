package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/launcher"
	"github.com/mcptrack/mcptrack/core/printable"
)

// checkPrograms returns a check of each program that a server of the config starts.
func (d *doctor) checkPrograms(servers []config.Server) []check {
	type program struct {
		path  string
		found bool
		users []string
	}
	programs := map[string]*program{} // by the command as written
	var order []string
	for _, srv := range servers {
		if srv.Transport != config.TransportStdio || srv.Command == "" {
			continue
		}
		written := srv.Command
		if srv.Intent != nil {
			written, _, _ = srv.Intent.Command()
		}
		path, found := srv.Find(d.env.Getenv("PATH"))
		if written != srv.Command { // a value from the environment is not shown
			if path = ""; !found && len(srv.Missing) > 0 {
				continue // the value may be what is missing; the check of the server says so
			}
		}
		p := programs[written]
		if p == nil {
			p = &program{path, found, nil}
			programs[written] = p
			order = append(order, written)
		}
		p.found = p.found && found
		p.users = append(p.users, printable.Line(srv.ID, 64))
	}
	checks := []check{}
	for _, name := range order {
		p := programs[name]
		c := newCheck("program", printable.Line(name, 120), ok, "", "")
		switch of := "needed by " + cli.Join(p.users, 5); {
		case !p.found:
			c.Status, c.Detail, c.Fix = failed, "not found; "+of, install(name)
		case p.path == "" || p.path == name:
			c.Detail = "found; " + of
		default:
			c.Detail = p.path + "; " + of
		}
		checks = append(checks, c)
	}
	return checks
}

// install says how to install a program.
func install(name string) string {
	from := map[string]string{
		"node": "Node.js from https://nodejs.org", "npm": "Node.js from https://nodejs.org", "npx": "Node.js from https://nodejs.org",
		"uv": "uv from https://docs.astral.sh/uv", "uvx": "uv from https://docs.astral.sh/uv", "pipx": "pipx from https://pipx.pypa.io",
		"docker": "Docker from https://docs.docker.com/get-docker", "podman": "Podman from https://podman.io",
		"bun": "Bun from https://bun.sh", "bunx": "Bun from https://bun.sh", "deno": "Deno from https://deno.com",
		"python": "Python from https://www.python.org", "python3": "Python from https://www.python.org",
	}[strings.ToLower(launcher.Base(name))]
	if from == "" {
		return "install it, or set \"command\" to its absolute path"
	}
	return "install " + from + ", or set \"command\" to its absolute path"
}

// checkDaemon reports whether a daemon runs, and which version.
func (d *doctor) checkDaemon(ctx context.Context) []check {
	const kind = "daemon"
	client, err := d.env.DaemonClient()
	if err != nil {
		return []check{newCheck(kind, "", failed, printable.Reason(err, 300), "set MCPTRACK_SOCKET to the path of a socket")}
	}
	answer, err := client.Running(ctx)
	switch {
	case errors.Is(err, ipc.ErrNoDaemon):
		return []check{newCheck(kind, "", ok, "not running; mcptrack attach starts one when it is needed", "")}
	case err != nil:
		fix := "mcptrack daemon stop ends it; clients start another one"
		if hung, is := errors.AsType[*ipc.Hung](err); is && hung.PID > 0 {
			fix = fmt.Sprintf("%s %d ends it; clients start another one", ipc.KillCommand, hung.PID)
		}
		return []check{newCheck(kind, "", failed, printable.Reason(err, 300), fix)}
	}
	if answer.Build.Version != client.Build.Version {
		return []check{newCheck(kind, "", warning, fmt.Sprintf("running (pid %d) with version %s, while this is %s", answer.PID, printable.Line(answer.Build.Version, 60), client.Build.Version),
			"mcptrack daemon stop ends it; clients start this version")}
	}
	return []check{newCheck(kind, "", ok, fmt.Sprintf("running (pid %d), with this version", answer.PID), "")}
}

// Free space below which the data directory has a warning, or an error.
const (
	fewBytes = 1 << 30 // the default of --retain-bytes
	noBytes  = 64 << 20
)

// checkData returns a check of the directory in which events are stored, and one of each log in it.
func (d *doctor) checkData(ctx context.Context) []check {
	dir := d.dataDir
	if dir == "" {
		dir = d.env.StateDir()
	}
	if dir == "" {
		return []check{newCheck("data", "", warning, "there is no home folder to store events in", "set HOME or XDG_STATE_HOME, or use --data-dir")}
	}
	checks := []check{checkDir(dir), d.checkLog(ctx, "", dir)}
	if d.dataDir == "" {
		checks = append(checks, d.checkLog(ctx, "daemon", d.env.DaemonDir()))
	}
	return checks
}

// checkDir checks whether files can be written to a directory, or to the one in which it would be created.
func checkDir(dir string) check {
	const kind = "data"
	existing := dir
	for {
		if _, err := os.Stat(existing); !errors.Is(err, fs.ErrNotExist) || filepath.Dir(existing) == existing {
			break
		}
		existing = filepath.Dir(existing)
	}
	f, err := os.CreateTemp(existing, ".mcptrack-doctor-*")
	if err == nil {
		_, err = f.WriteString("x") // fails if the disk is full
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return newCheck(kind, "", failed, fmt.Sprintf("cannot write to %s: %s", existing, printable.Reason(printable.Unnamed(err), 200)), "make it writable for you, or use --data-dir")
	}
	detail := dir
	if existing != dir {
		detail += " (created when needed)"
	}
	free, err := freeSpace(existing)
	switch {
	case err != nil:
		return newCheck(kind, "", ok, detail+": writable", "")
	case free < noBytes:
		return newCheck(kind, "", failed, fmt.Sprintf("%s: only %s are free", detail, printable.Size(int64(free))), "free some space, or use --data-dir on another disk")
	case free < fewBytes:
		return newCheck(kind, "", warning, fmt.Sprintf("%s: only %s are free", detail, printable.Size(int64(free))), "free some space, or lower --retain-bytes")
	}
	return newCheck(kind, "", ok, fmt.Sprintf("%s: writable, %s free", detail, printable.Size(int64(min(free, 1<<62)))), "")
}

// checkLog opens a log for reading, which verifies its format, and reads its newest event.
func (d *doctor) checkLog(ctx context.Context, what, dir string) check {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	const kind = "log"
	stored := cli.JournalFlags{Dir: dir}
	l, err := stored.Stored(ctx, d.env, d.log)
	if f, is := errors.AsType[*cli.Failure](err); is && f.Code == "nothing_stored" {
		return newCheck(kind, what, skipped, "no events are stored", "")
	}
	const fix = "keep a copy of the files; what writes the log (serve-sse, daemon) repairs it when it starts"
	if err != nil {
		return newCheck(kind, what, failed, printable.Reason(err, 400), fix)
	}
	defer func() { _ = l.Close() }()
	b, err := l.Bounds(ctx)
	if err == nil {
		for _, readErr := range l.Read(ctx, b.Last) {
			err = readErr
		}
	}
	if err != nil {
		return newCheck(kind, what, failed, printable.Reason(err, 400), fix)
	}
	return newCheck(kind, what, ok, fmt.Sprintf("%s, %s", cli.Plural(int(b.Last+1-b.First), "event"), printable.Size(int64(b.Bytes))), "")
}

// Differences of the clock for which there is a warning, or an error: tokens and signatures of webhooks
// are valid for minutes.
const (
	skewed      = 30 * time.Second
	veryMuch    = 4 * time.Minute
	clockTime   = 5 * time.Second // for an answer
	clockProbes = 3               // servers that are asked
)

// checkClock compares the clock with the clocks of HTTP servers in the config. Without any, it only checks that
// the time can be right.
func (d *doctor) checkClock(ctx context.Context, servers []config.Server) check {
	const kind, fix = "clock", "set the clock, or enable its synchronization (NTP)"
	now := time.Now()
	built, err := time.Parse(time.RFC3339, ipc.ThisBuild(d.env.Version).Time)
	if err != nil {
		built = time.Date(2026, time.July, 28, 0, 0, 0, 0, time.UTC) // of the newest protocol version
	}
	if now.Before(built.Add(-24*time.Hour)) || now.After(built.AddDate(50, 0, 0)) {
		return newCheck(kind, "", failed, fmt.Sprintf("it is %s, and this program was made at %s", cli.Stamp(now), cli.Stamp(built)), fix)
	}
	var origins []string
	for _, srv := range servers {
		u, err := url.Parse(srv.URL.Reveal())
		if err != nil || u.Host == "" || srv.Unusable() != nil || d.offline {
			continue
		}
		if origin := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}).String(); !slices.Contains(origins, origin) && len(origins) < clockProbes {
			origins = append(origins, origin)
		}
	}
	differences := make([]*time.Duration, len(origins))
	var asking sync.WaitGroup
	for i, origin := range origins {
		asking.Go(func() { differences[i] = ahead(ctx, origin) })
	}
	asking.Wait()
	var best *time.Duration // the smallest, because the clock of a server may be wrong
	for _, diff := range differences {
		if diff != nil && (best == nil || diff.Abs() < best.Abs()) {
			best = diff
		}
	}
	if best == nil {
		return newCheck(kind, "", ok, cli.Stamp(now)+"; not compared, because no HTTP server told the time", "")
	}
	detail := fmt.Sprintf("%s is %s ahead of the HTTP servers", cli.Stamp(now), best.Round(time.Second))
	if *best < 0 {
		detail = fmt.Sprintf("%s is %s behind the HTTP servers", cli.Stamp(now), (-*best).Round(time.Second))
	}
	switch {
	case best.Abs() > veryMuch:
		return newCheck(kind, "", failed, detail, fix)
	case best.Abs() > skewed:
		return newCheck(kind, "", warning, detail, fix)
	}
	return newCheck(kind, "", ok, cli.Stamp(now)+", as the HTTP servers say", "")
}

// ahead returns by how much the clock of this machine is ahead of a server's, or nil if the server does not
// tell. The request has no credentials.
func ahead(ctx context.Context, origin string) *time.Duration {
	ctx, cancel := context.WithTimeout(ctx, clockTime)
	defer cancel()
	began := time.Now()
	res, err := request(ctx, http.MethodHead, origin)
	if err != nil {
		return nil
	}
	defer func() { _ = res.Body.Close() }()
	theirs, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		return nil
	}
	took := time.Since(began)
	diff := began.Add(took / 2).Sub(theirs.Add(500 * time.Millisecond)) // the header has whole seconds
	return &diff
}

// request sends a request without a body on a connection of its own, and follows no redirect.
func request(ctx context.Context, method, address string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	q.Close = true
	client := http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return client.Do(q)
}

// portTime limits how long a program at a port of this machine may take to answer.
const portTime = 2 * time.Second

// checkPorts checks whether the default ports are free, or used by a mcptrack.
func (d *doctor) checkPorts(ctx context.Context) []check {
	var checks []check
	for _, p := range []struct{ address, command string }{
		{strings.TrimPrefix(cli.DefaultServeURL, "http://"), "serve-sse"},
		{cli.DefaultGatewayAddress, "gateway"},
	} {
		_, port, _ := net.SplitHostPort(p.address)
		c := newCheck("port", port, ok, "free for "+p.command, "")
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.address)
		switch {
		case err == nil:
			_ = ln.Close()
		case healthy(ctx, p.address):
			c.Detail = "a mcptrack uses it"
		default:
			c.Status, c.Detail, c.Fix = warning, "cannot be used by "+p.command+": "+printable.Reason(printable.Unnamed(err), 200), "stop the program that uses it, or use --addr with another port"
		}
		checks = append(checks, c)
	}
	return checks
}

// healthy reports whether the program at an address answers /healthz as the servers of mcptrack do.
func healthy(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, portTime)
	defer cancel()
	res, err := request(ctx, http.MethodGet, "http://"+address+"/healthz")
	if err != nil {
		return false
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 64))
	return err == nil && res.StatusCode == http.StatusOK && string(body) == "ok\n" && res.Header.Get("Cache-Control") == "no-store"
}

// checkCompletion checks whether the shell of the user can complete mcptrack's command lines.
func (d *doctor) checkCompletion() check {
	const kind = "completion"
	shell := strings.TrimSuffix(strings.ToLower(filepath.Base(d.env.Getenv("SHELL"))), ".exe")
	if shell == "pwsh" || d.env.Getenv("SHELL") == "" && runtime.GOOS == "windows" {
		shell = "powershell"
	}
	home := d.env.Getenv("HOME")
	under := func(variable, inHome string) string {
		if dir := d.env.Getenv(variable); filepath.IsAbs(dir) {
			return dir
		}
		return filepath.Join(home, inHome)
	}
	// Files that packages and users install, and files that may load the completion.
	var files, loaded []string
	var fix string
	switch shell {
	case "bash":
		files = []string{filepath.Join(under("XDG_DATA_HOME", ".local/share"), "bash-completion/completions/mcptrack"), "/usr/share/bash-completion/completions/mcptrack",
			"/usr/local/share/bash-completion/completions/mcptrack", "/etc/bash_completion.d/mcptrack", "/usr/local/etc/bash_completion.d/mcptrack", "/opt/homebrew/etc/bash_completion.d/mcptrack"}
		loaded = []string{filepath.Join(home, ".bashrc"), filepath.Join(home, ".bash_profile"), filepath.Join(home, ".bash_completion"), filepath.Join(home, ".profile")}
		fix = "echo 'source <(mcptrack completion bash)' >>~/.bashrc"
	case "zsh":
		for _, dir := range append([]string{"/usr/share/zsh/vendor-completions", "/usr/share/zsh/site-functions", "/usr/local/share/zsh/site-functions", "/opt/homebrew/share/zsh/site-functions"}, filepath.SplitList(d.env.Getenv("FPATH"))...) {
			files = append(files, filepath.Join(dir, "_mcptrack"))
		}
		loaded = []string{filepath.Join(under("ZDOTDIR", ""), ".zshrc")}
		fix = "echo 'source <(mcptrack completion zsh)' >>~/.zshrc, after compinit"
	case "fish":
		dir := filepath.Join(under("XDG_CONFIG_HOME", ".config"), "fish")
		files = []string{filepath.Join(dir, "completions/mcptrack.fish"), "/usr/share/fish/vendor_completions.d/mcptrack.fish",
			"/usr/local/share/fish/vendor_completions.d/mcptrack.fish", "/opt/homebrew/share/fish/vendor_completions.d/mcptrack.fish"}
		loaded = []string{filepath.Join(dir, "config.fish")}
		fix = "mcptrack completion fish >~/.config/fish/completions/mcptrack.fish"
	case "powershell":
		for _, dir := range []string{"Documents/PowerShell", "Documents/WindowsPowerShell", ".config/powershell"} {
			loaded = append(loaded, filepath.Join(home, dir, "Microsoft.PowerShell_profile.ps1"), filepath.Join(home, dir, "profile.ps1"))
		}
		fix = "add to $PROFILE: mcptrack completion powershell | Out-String | Invoke-Expression"
	default:
		return newCheck(kind, "", skipped, "SHELL names no shell that mcptrack can complete in (bash, zsh, fish, powershell)", "")
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return newCheck(kind, "", ok, shell+": "+file, "")
		}
	}
	for _, file := range loaded {
		if mentions(file, "mcptrack completion") {
			return newCheck(kind, "", ok, shell+": "+file+" loads it", "")
		}
	}
	return newCheck(kind, "", warning, "not installed for "+shell, fix)
}

// maxProfile limits how much of a shell's profile is read.
const maxProfile = 1 << 20

// mentions reports whether the beginning of a file contains a text.
func mentions(file, text string) bool {
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	data, _ := io.ReadAll(io.LimitReader(f, maxProfile))
	return bytes.Contains(data, []byte(text))
}
