package webhook

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/sqlitelog"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// childVariable makes the test program run deliverAsChild.
const childVariable = "MCPTRACK_WEBHOOK_CHILD"

// childWork is the work of deliverAsChild.
type childWork struct {
	Dir, URL string
	Events   int // to append, within two seconds
	// Last makes it append only as many events as the log lacks of Events, wait until all are
	// delivered, and print the IDs in the log.
	Last bool
}

// deliverAsChild is a process that delivers a real log to one subscription and one webhook of a
// config.
func deliverAsChild(text string) error {
	var work childWork
	if err := json.Unmarshal([]byte(text), &work); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	j, err := sqlitelog.Open(ctx, sqlitelog.Options{Dir: work.Dir, Durability: journal.OS})
	if err != nil {
		return err
	}
	defer func() { _ = j.Close() }()
	reader, sender := mcpevents.NewReader(j, mcpevents.Scope{}), NewSender(local())
	allow, err := ParseURLs([]string{"http://127.0.0.1:*"})
	if err != nil {
		return err
	}
	subs, err := New(ctx, Options{Log: j, Reader: reader, Sender: sender, Allow: allow})
	if err != nil {
		return err
	}
	hooks := NewHooks(HookOptions{Log: j, Reader: reader, Sender: sender})
	hooks.Apply([]config.Webhook{{URL: config.NewSecret(work.URL + "/config"), Secret: config.NewSecret(oneSecret), AllowPrivate: true}})
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, run := range []func(context.Context) error{reader.Run, subs.Run, hooks.Run} {
		running.Go(func() { _ = run(ctx) })
	}
	// Both start before the first event: the first run from now on, and later runs at the watermark.
	_, err = subs.Handle(ctx, &mcpserver.Request{Method: mcp.MethodSubscribeEvents, Identity: "chat",
		Params: json.RawMessage(params(work.URL+"/subscription", oneSecret))})
	if err != nil {
		return err
	}
	for begun := false; !begun; time.Sleep(time.Millisecond) { // polls a file, which announces nothing
		s, _, err := hooks.checkpoint.read(ctx)
		if err != nil {
			return err
		}
		begun = len(s.Webhooks) > 0 && s.Webhooks[0].Cursor != ""
	}
	if work.Last {
		b, err := j.Bounds(ctx)
		if err != nil {
			return err
		}
		work.Events -= int(b.Last)
	}
	fmt.Println("delivering")
	for i := range work.Events {
		if err := j.Append(&event.Event{ID: event.FormatID("cd", uint64(os.Getpid())<<20+uint64(i)), ServerID: "docs", ResourceURI: fmt.Sprint("file:///", i%50), Timestamp: time.Now(),
			Cause: event.CauseNotify, Payload: event.ResourceUpdated{}}); err != nil {
			return err
		}
		if i%max(work.Events/50, 1) == 0 {
			time.Sleep(40 * time.Millisecond) // so that the parent kills this process in the middle
		}
	}
	if !work.Last {
		<-ctx.Done() // until it is killed
	}
	if err := j.Flush(ctx); err != nil {
		return err
	}
	b, err := j.Bounds(ctx)
	if err != nil {
		return err
	}
	end := event.FormatID(b.Epoch, b.Last)
	behind := func() bool {
		subs.mu.Lock()
		defer subs.mu.Unlock()
		hooks.mu.Lock()
		defer hooks.mu.Unlock()
		for _, sub := range subs.byID {
			if sub.Cursor != end {
				return true
			}
		}
		return hooks.active[0].Cursor != end
	}
	for behind() {
		time.Sleep(5 * time.Millisecond) // real time: this is a process of its own
	}
	for e, err := range j.Read(ctx, 0) {
		if err != nil || e.Gap != nil {
			return errors.Join(err, errors.New("the log has a gap"))
		}
		fmt.Println(e.ID)
	}
	return nil
}

// setting returns a number from the environment, for scripts/webhook-kills.sh.
func setting(name string, byDefault int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return byDefault
}

// A delivering process is killed repeatedly (SIGKILL) while endpoints fail occasionally, and are down
// for a while before the last round. Every event of the log is delivered to the subscription and to
// the webhook of the config, or a gap message is sent. Duplicates have the same ID and content.
func TestKilledWhileDelivering(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	rounds, total, down := setting("MCPTRACK_KILLS", 1), setting("MCPTRACK_EVENTS", 200), time.Duration(setting("MCPTRACK_DOWN_SECONDS", 0))*time.Second
	var mu sync.Mutex
	got := map[string]map[string]string{"/subscription": {}, "/config": {}} // by path: contents by id
	gaps, duplicates, failures := map[string]int{}, 0, 0
	var up time.Time
	to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		raw, _ := io.ReadAll(q.Body)
		time.Sleep(rand.N(50 * time.Millisecond)) // so that a kill finds some in progress, in another process
		var body struct {
			Type, EventID, Name, Timestamp string
			Data                           json.RawMessage
		}
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Errorf("%v: %s", err, raw)
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case time.Now().Before(up), rand.N(100) == 0:
			failures++
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case body.Type == "gap":
			gaps[q.URL.Path]++
			return
		}
		content := fmt.Sprint(body.Name, body.Timestamp, string(body.Data))
		before, again := got[q.URL.Path][body.EventID]
		if again {
			duplicates++
		}
		if again && before != content || body.EventID != q.Header.Get("webhook-id") {
			t.Errorf("%s arrived as %s and as %s", body.EventID, before, content)
		}
		got[q.URL.Path][body.EventID] = content
	}))
	defer to.Close()
	dir := t.TempDir()
	var ids []string
	for round := range rounds + 1 {
		work := childWork{Dir: dir, URL: to.URL, Events: total / (rounds + 1), Last: round == rounds}
		if work.Last {
			work.Events = total
		}
		text, _ := json.Marshal(work)
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), childVariable+"="+string(text)), os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		if !lines.Scan() || lines.Text() != "delivering" {
			t.Fatalf("%q: %v", lines.Text(), cmd.Wait())
		}
		if work.Last && down > 0 {
			mu.Lock()
			up = time.Now().Add(down)
			mu.Unlock()
		}
		if !work.Last {
			time.Sleep(20*time.Millisecond + rand.N(2*time.Second)) // a random moment in the life of a real process
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			continue
		}
		for lines.Scan() {
			ids = append(ids, lines.Text())
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%d events in %d rounds, %d failures, %d duplicates, gaps %v", len(ids), rounds, failures, duplicates, gaps)
	if len(ids) != total {
		t.Errorf("%d events in the log", len(ids))
	}
	for path, all := range got {
		missing := 0
		for _, id := range ids {
			if all[id] == "" {
				missing++
			}
			delete(all, id)
		}
		if missing > 0 && gaps[path] == 0 {
			t.Errorf("%s: %d of %d events were not delivered, and no gap was sent", path, missing, len(ids))
		}
		if len(all) > 0 {
			t.Errorf("%s: %d events are not in the log: %v", path, len(all), all)
		}
	}
}
