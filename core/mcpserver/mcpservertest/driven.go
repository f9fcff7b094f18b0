// Package mcpservertest drives real clients of the legacy era, for tests.
package mcpservertest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// Driven is a client on a TypeScript SDK that does what a test tells it; see
// testdata/peers/driven.mjs.
type Driven struct {
	t  testing.TB
	in io.Writer
	// said is sent to by the goroutine that reads what the client prints, which closes it at the
	// end. Its capacity lets the client continue while the test does something else.
	said chan line

	// Session is the id of its session, when it has connected.
	Session string
	// News are the notifications that it got so far, such as "tools/list_changed" or
	// "resources/updated URI".
	News []string
}

type line struct {
	Answer, Error json.RawMessage
	News, URI     string
	Trouble       string
}

// patience is how long a client may take for anything: it starts Node, on a busy machine.
const patience = time.Minute

// Drive starts the command of a client, which is ended at the end of the test, and waits until it
// has connected.
func Drive(t testing.TB, cmd *exec.Cmd) *Driven {
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
	d := &Driven{t: t, in: in, said: make(chan line, 10_000)}
	go func() {
		defer close(d.said)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var l line
			if json.Unmarshal(lines.Bytes(), &l) == nil {
				d.said <- l
			}
		}
	}()
	t.Cleanup(func() {
		_ = in.Close() // then it closes its session and ends
		late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		for range d.said { // until it has ended
			continue
		}
		_ = cmd.Wait() // how it ends is not tested
	})
	var connected struct{ Session string }
	if answer, failed := d.Answer(); failed != "" || json.Unmarshal(answer, &connected) != nil || connected.Session == "" {
		t.Fatalf("connect: %s %s", answer, failed)
	}
	d.Session = connected.Session
	return d
}

// Send makes the client send a request, whose answer Answer returns.
func (d *Driven) Send(method, params string) {
	d.t.Helper()
	if _, err := fmt.Fprintf(d.in, `{"do":%q,"with":%s}`+"\n", method, params); err != nil {
		d.t.Fatal(err)
	}
}

// Do makes the client send a request and returns its result, or its error.
func (d *Driven) Do(method, params string) (result json.RawMessage, failed string) {
	d.t.Helper()
	d.Send(method, params)
	return d.Answer()
}

// Answer returns the oldest answer that was not returned yet: a result, or an error.
func (d *Driven) Answer() (result json.RawMessage, failed string) {
	d.t.Helper()
	for {
		l := d.next()
		if l.News == "" && l.Trouble == "" {
			return l.Answer, string(l.Error)
		}
	}
}

// Hear waits until the client has got a notification after those that News had.
func (d *Driven) Hear(news string) {
	d.t.Helper()
	for n := len(d.News); ; {
		for ; n < len(d.News); n++ {
			if d.News[n] == news {
				return
			}
		}
		d.next()
	}
}

func (d *Driven) next() line {
	d.t.Helper()
	select {
	case l, ok := <-d.said:
		if !ok {
			d.t.Fatal("the client has ended")
		}
		if l.News != "" {
			d.News = append(d.News, strings.TrimSpace(strings.TrimPrefix(l.News, "notifications/")+" "+l.URI))
		}
		return l
	case <-time.After(patience):
		d.t.Fatalf("the client says nothing; it has heard of %q", d.News)
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
	return c.all, c.gets[:len(c.gets):len(c.gets)]
}
