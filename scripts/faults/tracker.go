//go:build linux

package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// tracker is the program that is tested: one serve-sse or gateway, which may be ended and
// started again at the same address.
type tracker struct {
	bin, dir, addr string
	command        string   // "": serve-sse
	args           []string // besides config and address
	env            []string
	disk           string // a folder that is a disk of 8 MiB as the program sees it, empty at every start; "": none
	fixtures       []*fixture
	entries        []string // of the config, for servers that are no fixtures

	mu   sync.Mutex // guards what follows
	cmd  *exec.Cmd
	done chan struct{} // closed when it has exited
}

func (t *tracker) url() string { return "http://" + t.addr }

func (t *tracker) config() string { return filepath.Join(t.dir, "mcp-servers.json") }

// data is the data directory, unless args name another one.
func (t *tracker) data() string { return filepath.Join(t.dir, "data") }

// configure writes the config.
func (t *tracker) configure() error {
	entries := slices.Clone(t.entries)
	for _, s := range t.fixtures {
		entries = append(entries, s.entry())
	}
	file := t.config()
	if err := os.WriteFile(file+".new", []byte(`{"mcpServers": {`+strings.Join(entries, ",\n")+`}}`), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// each calls f for all servers in parallel.
func (t *tracker) each(f func(*fixture)) {
	var calls sync.WaitGroup
	for _, st := range t.fixtures {
		calls.Go(func() { f(st) })
	}
	calls.Wait()
}

// start starts the program and waits until it listens.
func (t *tracker) start() error {
	listening, done, err := t.launch()
	if err != nil {
		return err
	}
	select {
	case <-listening:
		return nil
	case <-done:
		return fmt.Errorf("%s ended: see %s", t.bin, filepath.Join(t.dir, "log"))
	case <-time.After(time.Minute):
		return fmt.Errorf("%s does not listen within a minute", t.bin)
	}
}

// launch starts the program. The first channel is closed when it listens, the second one when it
// has exited.
func (t *tracker) launch() (listening, done chan struct{}, err error) {
	log, err := os.OpenFile(filepath.Join(t.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(t.bin, append([]string{cmp.Or(t.command, "serve-sse"), "--config", t.config(), "--addr", t.addr}, t.args...)...)
	attr := endsWithThis()
	if t.disk != "" {
		cmd = exec.Command("sh", append([]string{"-c", `mount -t tmpfs -o size=8m,mode=700 none "$0" && exec "$@"`, t.disk}, cmd.Args...)...)
		attr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	cmd.SysProcAttr = attr
	cmd.Env = append(os.Environ(), t.env...)
	errs, err := cmd.StderrPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	listening, done = make(chan struct{}), make(chan struct{})
	go func() {
		lines := bufio.NewScanner(errs)
		for announced := false; lines.Scan(); {
			_, _ = fmt.Fprintln(log, lines.Text())
			if !announced && strings.HasPrefix(lines.Text(), "listening on ") {
				announced = true
				close(listening)
			}
		}
		_ = cmd.Wait()
		_ = log.Close()
		close(done)
	}()
	t.mu.Lock()
	t.cmd, t.done = cmd, done
	t.mu.Unlock()
	return listening, done, nil
}

// dataLines yields the data of each event of an event stream, until the stream ends or breaks.
func dataLines(body io.Reader) iter.Seq[string] {
	return func(yield func(string) bool) {
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, 8<<20)
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data:")
			if ok && !yield(strings.TrimPrefix(data, " ")) {
				return
			}
		}
	}
}

// events requests the feed of the program after an event; "": from the earliest one.
func (t *tracker) events(ctx context.Context, after string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url()+"/events?since=earliest", nil)
	if err != nil {
		return nil, err
	}
	if after != "" {
		q.Header.Set("Last-Event-ID", after)
	}
	return http.DefaultClient.Do(q)
}

// endsWithThis makes a process end when this one does, however that happens.
func endsWithThis() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

func (t *tracker) signal(sig syscall.Signal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cmd != nil {
		_ = t.cmd.Process.Signal(sig)
	}
}

func (t *tracker) pid() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cmd.Process.Pid
}

// end sends a signal and waits for the exit. It reports false if the exit takes more than 20 s, and
// kills the program then.
func (t *tracker) end(sig syscall.Signal) bool {
	t.signal(sig)
	select {
	case <-t.done:
		return true
	case <-time.After(20 * time.Second):
		t.signal(syscall.SIGKILL)
		<-t.done
		return false
	}
}

// get asks the program for JSON.
func (t *tracker) get(path string, v any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url()+path, nil)
	if err != nil {
		return err
	}
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer func() { _ = p.Body.Close() }()
	body, err := io.ReadAll(p.Body)
	if err != nil {
		return err
	}
	if p.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: HTTP status %d: %.200s", path, p.StatusCode, body)
	}
	if text, ok := v.(*string); ok {
		*text = string(body)
		return nil
	}
	return json.Unmarshal(body, v)
}

// contents returns the versions that the program knows of a server's resources.
func (t *tracker) contents(id string, o *oracle) (map[at]int64, error) {
	var listed []struct{ URI, Digest string }
	if err := t.get("/api/servers/"+id+"/resources", &listed); err != nil {
		return nil, err
	}
	out := map[at]int64{}
	for _, r := range listed {
		out[at{server: id, uri: r.URI}] = o.version(r.Digest)
	}
	return out, nil
}

// state returns the state of a server.
func (t *tracker) state(id string) string {
	var servers []struct{ ID, State string }
	if err := t.get("/api/servers", &servers); err != nil {
		return err.Error()
	}
	for _, s := range servers {
		if s.ID == id {
			return s.State
		}
	}
	return ""
}

// usage is what the program holds.
type usage struct{ goroutines, files int }

func (t *tracker) usage() (u usage, err error) {
	var text string
	if err := t.get("/metrics", &text); err != nil {
		return u, err
	}
	for line := range strings.Lines(text) {
		_, _ = fmt.Sscanf(line, "go_goroutines %d", &u.goroutines)
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", t.pid()))
	u.files = len(files)
	return u, err
}
