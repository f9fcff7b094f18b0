//go:build unix

package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/gateway"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/journal/sqlitelog"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/reload"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/feed"
	"github.com/mcptrack/mcptrack/output/webhook"
)

// These variables make the test program another one.
const (
	relayVariable = "MCPTRACK_CHAOS_RELAY" // relay, of this address
	trackVariable = "MCPTRACK_CHAOS_TRACK" // track, at this place
)

func TestMain(m *testing.M) {
	var err error
	if addr := os.Getenv(relayVariable); addr != "" {
		err = relay(addr)
	} else if text := os.Getenv(trackVariable); text != "" {
		var p place
		if err = json.Unmarshal([]byte(text), &p); err == nil {
			err = track(p)
		}
	} else {
		goleak.VerifyTestMain(m)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// place is what a process follows, and where it stores events.
type place struct {
	Config    string // its file
	Dir       string // of the log
	NATS      string // the log is stored here instead, and the servers are shared
	Keys      string // the file of keys for subscriptions on NATS
	Subscribe string // the URL of the webhook of a client
}

func (p place) open(ctx context.Context, logger *slog.Logger) (journal.Log, error) {
	if p.NATS != "" {
		return natslog.Open(ctx, natslog.Options{URL: p.NATS, Drain: time.Second, Logger: logger})
	}
	return sqlitelog.Open(ctx, sqlitelog.Options{Dir: p.Dir, Logger: logger})
}

// hurried are the options of a tracker that does not wait long, and compares nothing routinely: what it
// misses stays missed.
func hurried() tracker.Options {
	return tracker.Options{Window: 200 * time.Millisecond, Patience: 50 * time.Millisecond, Resync: time.Hour, Liveness: time.Second,
		Backoff: 20 * time.Millisecond, MaxBackoff: 500 * time.Millisecond, Drain: time.Second, AllLists: true,
		Session: session.Options{ConnectTimeout: 3 * time.Second}}
}

// hurry sets the times of the servers in a config.
func hurry(cfg *config.Config) *config.Config {
	out := cfg.Only(func(config.Server) bool { return true })
	for i := range out.Servers {
		s := &out.Servers[i]
		s.RequestTimeout, s.SafetyInterval = 2*time.Second, -1
		if s.ID == quiet {
			s.PollInterval, s.SafetyInterval = 300*time.Millisecond, 500*time.Millisecond
		}
	}
	return out
}

// track follows the servers of a config until SIGTERM, like serve-sse and gateway together: it serves the
// feed, MCP, and what it knows, and delivers webhooks. It fails if it leaks goroutines or descriptors.
func track(p place) (err error) {
	go func() { // until the parent ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	before := goleak.IgnoreCurrent()
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := p.track(ctx, logger); err != nil {
		return err
	}
	http.DefaultClient.CloseIdleConnections()
	return goleak.Find(before)
}

func (p place) track(ctx context.Context, logger *slog.Logger) error {
	log, err := p.open(ctx, logger)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cfg, problems := config.Load(p.Config, config.Options{})
	if cfg == nil {
		return fmt.Errorf("%s: %v", p.Config, problems)
	}
	reader := mcpevents.NewReader(log, mcpevents.Scope{})
	allow, err := webhook.ParseURLs([]string{"http://127.0.0.1:*"})
	if err != nil {
		return err
	}
	sender := webhook.NewSender(allow.Local())
	defer sender.Close()
	stored, err := webhook.OpenRecords(log)
	if err != nil {
		return err
	}
	subs := webhook.Options{Log: log, Records: stored, Reader: reader, Sender: sender, Allow: allow, Logger: logger}
	if p.Keys != "" {
		if subs.Keys, err = webhook.ReadKeys(p.Keys); err != nil {
			return err
		}
	}
	subscriptions, err := webhook.New(ctx, subs)
	if err != nil {
		return err
	}
	hooks := webhook.NewWebhooks(webhook.WebhookOptions{Log: log, Records: stored, Reader: reader, Sender: sender, Logger: logger})
	var gw *gateway.Gateway
	options := hurried()
	options.Logger = logger
	role := engine.Alone
	if p.NATS != "" {
		role = engine.Shares
	}
	e, err := engine.New(ctx, engine.Desired{Config: cfg, Select: hurry, Follow: &reload.Options{Path: p.Config}}, log, engine.Options{
		Tracker: options, Role: role, Logger: logger,
		Applied: func(cfg *config.Config) {
			hooks.Apply(cfg.Webhooks)
			gw.Apply(hurry(cfg))
		},
	})
	if err != nil {
		return err
	}
	if gw, err = gateway.New(gateway.Options{Tracker: e.Tracker(), Session: options.Session, Logger: logger}); err != nil {
		return err
	}
	defer gw.Close()
	hub := feed.New(feed.Options{Log: log, Logger: logger})
	routes := http.NewServeMux()
	routes.Handle("/events", hub.Events())
	routes.Handle("/mcp", gw.Server())
	routes.HandleFunc("/known", func(w http.ResponseWriter, _ *http.Request) {
		_, last := hub.Last()
		_ = json.NewEncoder(w).Encode(report{last, knowledge(e.Tracker().Snapshot())})
	})
	return e.Run(ctx, engine.Reader(hub.Run), engine.Reader(reader.Run), engine.Reader(hooks.Run), engine.Reader(subscriptions.Run), engine.Source(gw.Run),
		engine.Source(func(ctx context.Context) error { return subscribe(ctx, subscriptions, p.Subscribe) }),
		engine.Reader(func(ctx context.Context) error { return serve(ctx, routes, hub, gw) }))
}

// report is what a process says at /known.
type report struct {
	Last  uint64 // the number of the newest event
	Known []known
}

// subscribe subscribes a client's webhook, again after each start.
func subscribe(ctx context.Context, to *webhook.Subscriptions, url string) error {
	for ctx.Err() == nil {
		_, err := to.Handle(ctx, &mcpserver.Request{Method: mcp.MethodSubscribeEvents, Identity: "chat",
			Params: fmt.Appendf(nil, `{"name":"resource.updated","arguments":{},"delivery":{"mode":"webhook","url":%q,"secret":%q},"cursor":null}`, url, secret)})
		if err == nil {
			return nil
		}
		pause(50 * time.Millisecond) // the cluster may have no leader
	}
	return nil
}

func serve(ctx context.Context, routes http.Handler, hub *feed.Hub, gw *gateway.Gateway) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{Handler: routes, ReadHeaderTimeout: 10 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) })
	fmt.Println(l.Addr())
	<-ctx.Done()
	err = hub.Shutdown(context.WithoutCancel(ctx))
	gw.Close()
	_ = s.Close()
	serving.Wait()
	return err
}

// process is a process of track, which can be killed and started again behind the same addresses.
type process struct {
	*testing.T
	place
	proxies []*proxy // of its readers and clients
	errors  written

	cmd   *exec.Cmd
	ended chan struct{} // closed when it has exited
}

// launch starts the program, and returns a channel that is closed when it serves.
func (p *process) launch() (serves chan struct{}) {
	p.Helper()
	text, err := json.Marshal(p.place)
	if err != nil {
		p.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), trackVariable+"="+string(text))
	cmd.Stderr = &p.errors
	out, err := cmd.StdoutPipe()
	if err == nil {
		_, err = cmd.StdinPipe() // ends when this process does
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.Fatal(err)
	}
	serves, ended := make(chan struct{}), make(chan struct{})
	p.cmd, p.ended = cmd, ended
	go func() {
		defer close(ended)
		if lines := bufio.NewScanner(out); lines.Scan() {
			for _, x := range p.proxies {
				x.moveTo(lines.Text())
			}
			close(serves)
		}
		_ = cmd.Wait()
	}()
	return serves
}

func (p *process) start() {
	p.Helper()
	select {
	case <-p.launch():
	case <-p.ended:
		p.Fatalf("it ended: %s\n%s", p.cmd.ProcessState, &p.errors)
	case <-time.After(patience):
		p.Fatalf("it does not serve\n%s", &p.errors)
	}
}

func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// stop ends the process in order.
func (p *process) stop() {
	p.Helper()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.signal(syscall.SIGABRT) // shows the goroutines
		<-p.ended
		p.Fatalf("it hangs\n%s", &p.errors)
	}
	if !p.cmd.ProcessState.Success() {
		p.Errorf("it ended: %s\n%s", p.cmd.ProcessState, &p.errors)
	}
}

// report asks a process what it knows.
func (p *process) report() (r report, err error) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	got, err := client.Get(p.proxies[0].url() + "/known")
	if err != nil {
		return r, err
	}
	defer func() { _ = got.Body.Close() }()
	return r, json.NewDecoder(got.Body).Decode(&r)
}

// written keeps the end of what a process writes. The zero value is empty.
type written struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all.Len() > 1<<20 {
		w.all.Reset()
	}
	return w.all.Write(b)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.TrimSpace(w.all.String())
	return text[max(0, len(text)-16<<10):]
}
