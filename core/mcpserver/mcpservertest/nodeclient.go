// Package mcpservertest runs real legacy MCP clients for tests.
package mcpservertest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// NodeClient is a client built on a TypeScript SDK that executes a test's commands; see
// testdata/peers/driven.mjs.
type NodeClient struct {
	t  testing.TB
	in io.Writer
	// output receives the lines that the client prints. The goroutine that reads them closes the
	// channel at the end. The channel is buffered so that the client can continue while the test is
	// busy.
	output chan line

	// Session is the client's MCP session id.
	Session string
	// Notifications contains the notifications received so far, such as "tools/list_changed" or
	// "resources/updated URI".
	Notifications []string
}

type line struct {
	Answer, Error json.RawMessage
	News, URI     string
	Trouble       string
}

// patience limits every step of a client. It is long because starting Node takes a while on a busy
// machine.
const patience = time.Minute

// Drive starts a client command, waits until the client has connected, and stops it at the end of
// the test.
func Drive(t testing.TB, cmd *exec.Cmd) *NodeClient {
	t.Helper()
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d := &NodeClient{t: t, in: in, output: make(chan line, 10_000)}
	go func() {
		defer close(d.output)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var l line
			if json.Unmarshal(lines.Bytes(), &l) == nil {
				d.output <- l
			}
		}
	}()
	t.Cleanup(func() {
		_ = in.Close() // makes the client close its session and exit
		late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		for range d.output { // wait until the client has exited
			continue
		}
		_ = cmd.Wait() // the exit status is not tested
	})
	var connected struct{ Session string }
	if answer, failed := d.Answer(); failed != "" || json.Unmarshal(answer, &connected) != nil || connected.Session == "" {
		t.Fatalf("connect: %s %s", answer, failed)
	}
	d.Session = connected.Session
	return d
}

// Send makes the client send a request. Answer returns its response.
func (d *NodeClient) Send(method, params string) {
	d.t.Helper()
	if _, err := fmt.Fprintf(d.in, `{"do":%q,"with":%s}`+"\n", method, params); err != nil {
		d.t.Fatal(err)
	}
}

// Do makes the client send a request and returns its result or error.
func (d *NodeClient) Do(method, params string) (result json.RawMessage, failed string) {
	d.t.Helper()
	d.Send(method, params)
	return d.Answer()
}

// Answer returns the oldest unread response: a result or an error.
func (d *NodeClient) Answer() (result json.RawMessage, failed string) {
	d.t.Helper()
	for {
		l := d.next()
		if l.News == "" && l.Trouble == "" {
			return l.Answer, string(l.Error)
		}
	}
}

// Await waits for a notification and adds it to Notifications, unless it is already there.
func (d *NodeClient) Await(news string) {
	d.t.Helper()
	for n := len(d.Notifications); ; {
		for ; n < len(d.Notifications); n++ {
			if d.Notifications[n] == news {
				return
			}
		}
		d.next()
	}
}

func (d *NodeClient) next() line {
	d.t.Helper()
	select {
	case l, ok := <-d.output:
		if !ok {
			d.t.Fatal("the client has ended")
		}
		if l.News != "" {
			d.Notifications = append(d.Notifications, strings.TrimSpace(strings.TrimPrefix(l.News, "notifications/")+" "+l.URI))
		}
		return l
	case <-time.After(patience):
		d.t.Fatalf("the client prints nothing; its notifications are %q", d.Notifications)
	}
	return line{}
}

// Counter counts the requests to a handler.
type Counter struct {
	http.Handler

	mu   sync.Mutex
	all  int
	gets []string
}

func (c *Counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.all++
	if r.Method == http.MethodGet {
		c.gets = append(c.gets, r.Header.Get("Last-Event-ID"))
	}
	c.mu.Unlock()
	c.Handler.ServeHTTP(w, r)
}

// Count returns the number of requests so far, and the Last-Event-ID of each GET.
func (c *Counter) Count() (all int, gets []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all, slices.Clip(c.gets)
}
