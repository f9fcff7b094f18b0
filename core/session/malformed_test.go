package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// Data that begins like a message but is not JSON may have been a notification: it is counted and
// raises a gap, at most once in 5 s, and once after the last such line.
func TestUndecodableLinesAreGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const note = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a.md"}}`
		docs := sessiontest.New()
		docs.SetQuietly("file:///a.md", "one")
		extra := make(chan string, 100)
		tap := &sessiontest.Tap{Server: docs, Change: func(line string) string {
			for {
				select {
				case more := <-extra:
					line += "\n" + more
				default:
					return line
				}
			}
		}}
		s, err := tap.Dial(t.Context(), sessiontest.Entry("docs"), session.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Close(); tap.Wait() }()
		gaps, dropped := 0, 0
		take := func(lines ...string) {
			for _, line := range lines {
				extra <- line
			}
			if err := s.Ping(t.Context()); err != nil { // the response carries the lines
				t.Fatal(err)
			}
			synctest.Wait()
			b := s.Signals().Take()
			if b.Gap != "" {
				gaps++
			}
			dropped += b.Dropped[session.DroppedUndecodable]
		}
		take("[INFO] a log line with brackets", "{ not: json }", `{"level":"info","msg":"a log line"}`, "[2026-11-22] method", `{"jsonrpc":"2.0"}`)
		if gaps != 0 || dropped != 0 {
			t.Errorf("logs: %d gaps, %d counted", gaps, dropped)
		}
		take(note[:40]) // without its method and its end
		if gaps != 1 || dropped != 1 {
			t.Errorf("a torn line: %d gaps, %d counted", gaps, dropped)
		}
		for range 10 {
			take(note[:60], note[:50]+note, note+note)
			time.Sleep(100 * time.Millisecond)
		}
		if gaps != 1 || dropped != 31 {
			t.Errorf("more within 5 s: %d gaps, %d counted", gaps, dropped)
		}
		time.Sleep(5 * time.Second)
		take()
		if gaps != 2 {
			t.Errorf("5 s later: %d gaps, want one for the lines since", gaps)
		}
		time.Sleep(time.Minute)
		take(strings.Repeat(" ", 10) + "[{" + note[1:30])
		if gaps != 3 {
			t.Errorf("a torn batch: %d gaps", gaps)
		}
	})
}

// An overlong line fails the request that it answers, wherever its id is; any other overlong line
// is a gap. The session continues.
func TestLongLineFailsOneRequest(t *testing.T) {
	for name, change := range map[string]func(line string) string{
		"id first": func(line string) string { return line },
		"id last": func(line string) string {
			id := regexp.MustCompile(`"id":\d+`).FindString(line)
			return strings.TrimSuffix(strings.Replace(line, id+",", "", 1), "}") + `,` + id + `,"jsonrpc":"2.0"}`
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				docs := sessiontest.New()
				docs.SetQuietly("test://small", "one")
				docs.SetQuietly("test://large", strings.Repeat(`"id":9}`, 20_000))
				extra := make(chan string, 1)
				tap := &sessiontest.Tap{Server: docs, Change: func(line string) string {
					if len(line) > 100_000 {
						line = change(line)
					}
					select {
					case more := <-extra:
						line = more + "\n" + line
					default:
					}
					return line
				}}
				s, err := tap.Dial(t.Context(), sessiontest.Entry("docs"), session.Options{Limits: session.Limits{MaxLine: 100_000}})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { s.Close(); tap.Wait() }()
				began := time.Now()
				for range 2 {
					_, err = s.Read(t.Context(), "test://large")
					if tooLarge, ok := errors.AsType[*session.TooLargeError](err); !ok || tooLarge.Limit != 100_000 || !strings.Contains(err.Error(), "--limit line=") {
						t.Errorf("%v", err)
					}
					if _, err := s.Read(t.Context(), "test://small"); err != nil {
						t.Error(err)
					}
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("a request waited for %v", took)
				}
				extra <- `{"jsonrpc":"2.0","method":"notifications/x","params":{"x":"` + strings.Repeat("x", 200_000) + `"}}`
				if err := s.Ping(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if b := s.Signals().Take(); b.Gap == "" || b.Dropped[session.DroppedUndecodable] != 1 {
					t.Errorf("%+v", b)
				}
				if n := docs.Count("notifications/cancelled"); n > 0 {
					t.Errorf("%d answered requests were cancelled", n)
				}
			})
		})
	}
}

// malformed are errors that the transports cannot decode.
func malformed() []string {
	return []string{`{"code":1.5,"message":"x"}`, `{"code":"E1","message":"x"}`, `{"code":-1,"message":{"a":1}}`, `7`,
		fmt.Sprintf(`{"code":"E1","message":%q}`, strings.Repeat("long ", 2000))}
}

func isMalformed(err error) bool {
	e, ok := errors.AsType[*session.RPCError](err)
	return ok && e.Code == -32603 && strings.HasPrefix(e.Message, "malformed error response: ") && len(e.Message) < 1100
}

// A malformed response is a response: its request must not hang.
func TestMalformedErrorOverStdio(t *testing.T) {
	eachEra(t, func(t *testing.T, srv *sessiontest.Fake, s *session.Session) {
		for _, raw := range malformed() {
			srv.Fail(sessiontest.Fault{Method: "tools/call", Error: json.RawMessage(raw), Times: 1})
			start := time.Now()
			_, err := s.CallTool(t.Context(), "x", nil)
			if !isMalformed(err) || time.Since(start) > 0 {
				t.Errorf("%.40s: %v after %v", raw, err, time.Since(start))
			}
		}
		if _, err := s.CallTool(t.Context(), "x", nil); err != nil {
			t.Errorf("the next call: %v", err)
		}
		synctest.Wait()
		if n := srv.Count("notifications/cancelled"); n != 0 {
			t.Errorf("%d answered requests were cancelled", n)
		}
	})
}

func TestMalformedErrorOverSSE(t *testing.T) {
	srv := newServer(true, false)
	entry := config.Server{Transport: config.TransportSSE, URL: config.NewSecret(listenOn(t, srv.SSE()).URL), RequestTimeout: 5 * time.Second}
	s := dial(t, entry, session.Options{})
	for _, raw := range malformed() {
		srv.Fail(sessiontest.Fault{Method: "tools/call", Error: json.RawMessage(raw), Times: 1})
		if _, err := s.CallTool(t.Context(), "x", nil); !isMalformed(err) {
			t.Errorf("%.40s: %v", raw, err)
		}
	}
}

// Streamable HTTP may answer in an event stream and leave it open.
func TestMalformedErrorInAnEventStream(t *testing.T) {
	srv := newServer(true, false)
	next := make(chan string, 1) // the error of the next call; never closed
	ts := listenOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if _ = json.Unmarshal(body, &m); m.Method != "tools/call" {
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			srv.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":%s}\n\n", m.ID, <-next)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	entry := httpEntry(ts.URL)
	entry.RequestTimeout = 5 * time.Second
	s := dial(t, entry, session.Options{})
	for _, raw := range malformed() {
		next <- raw
		if _, err := s.CallTool(t.Context(), "x", nil); !isMalformed(err) {
			t.Errorf("%.40s: %v", raw, err)
		}
	}
}

// An answer is the answer of its request however its id is spelled and whatever the HTTP status is, and an
// error without an id is the answer of the request whose response has it. The session continues.
func TestOddAnswersOverHTTP(t *testing.T) {
	t.Parallel()
	var status int
	var body string // of the response to tools/call, with %s for the id
	srv := newServer(true, false)
	ts := listenOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if _ = json.Unmarshal(sent, &m); m.Method != "tools/call" {
			r.Body = io.NopCloser(strings.NewReader(string(sent)))
			srv.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, strings.ReplaceAll(body, "%s", string(m.ID)))
	}))
	s := dial(t, httpEntry(ts.URL), session.Options{Era: session.EraLegacy})
	for _, c := range []struct {
		status     int
		body, want string // want is empty for a result
	}{
		{200, `{"jsonrpc":"2.0","id":"%s","result":{"content":[]}}`, ""},
		{200, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"busy"}}`, "server error -32000: busy"},
		{200, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"busy"}}`, "server error -32000: busy"},
		{200, `{"jsonrpc":"2.0","id":%s,"error":{"code":"E1"}}`, `server error -32603: malformed error response: {"code":"E1"}`},
		{404, `{"jsonrpc":"2.0","id":"%s","error":{"code":-32602,"message":"no"}}`, "server error -32602: no"},
		{404, `{"jsonrpc":"2.0","id":%s,"error":{"code":"E1"}}`, `server error -32603: malformed error response: {"code":"E1"}`},
		{200, `{"jsonrpc":"2.0","result":{"content":[]}}`, "the response has no id"},
		{200, `{"jsonrpc":"2.0","id":%s,"result":[]}`, "malformed result: not an object"},
	} {
		status, body = c.status, c.body
		_, err := s.CallTool(t.Context(), "echo", nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasSuffix(err.Error(), ": "+c.want) {
			t.Errorf("%s: %v", c.body, err)
		}
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("the session has ended: %v", err)
	}
}
