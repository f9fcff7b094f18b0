package demo_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/demo"
)

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// Whoever pipes requests in and closes must get all answers, in order.
func TestAnswersBeforeTheEnd(t *testing.T) {
	var in strings.Builder
	in.WriteString(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n\n")
	in.WriteString(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
	for i := 1; i <= 100; i++ {
		fmt.Fprintf(&in, `{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`+"\n", i)
	}
	var out strings.Builder
	if err := demo.Serve(t.Context(), strings.NewReader(in.String()), &out, demo.Options{}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(out.String()) {
		var msg struct {
			ID     int             `json:"id"`
			Result json.RawMessage `json:"result"`
		}
		if err := json.Unmarshal([]byte(line), &msg); err != nil || msg.ID != n || msg.Result == nil {
			t.Fatalf("answer %d: %s", n, line)
		}
		n++
	}
	if n != 101 {
		t.Fatalf("%d answers", n)
	}
}

func TestHostileInput(t *testing.T) {
	in := strings.Join([]string{
		`not json`, `[]`, `{}`, `{"jsonrpc":"2.0","id":{"a":1},"method":"subscriptions/listen"}`,
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + modernMeta + `}}`,
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + modernMeta + `}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`,
		`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"demo://nope"}}`,
	}, "\n") + "\n"
	var out strings.Builder
	if err := demo.Serve(t.Context(), strings.NewReader(in), &out, demo.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"has an open listen stream", `"id":2`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in:\n%s", want, out.String())
		}
	}
	long := io.MultiReader(strings.NewReader(strings.Repeat("x", 5<<20)))
	if err := demo.Serve(t.Context(), long, io.Discard, demo.Options{}); !errors.Is(err, bufio.ErrTooLong) {
		t.Errorf("a line of 5 MiB: %v", err)
	}
}

// Two streams on one connection are apart: each has its id and its filter, and a
// cancelled one gets no answer while the other goes on.
func TestTwoListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		ended := make(chan error, 1) // Serve's goroutine sends once
		go func() {
			err := demo.Serve(t.Context(), inR, outW, demo.Options{})
			outW.Close()
			ended <- err
		}()
		lines := make(chan string, 100) // the reader sends and closes; enough for the test
		go func() {
			defer close(lines)
			for scan := bufio.NewScanner(outR); scan.Scan(); {
				lines <- scan.Text()
			}
		}()
		fmt.Fprintf(inW, `{"jsonrpc":"2.0","id":"a","method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["demo://docs/guide.md"]},%s}}`+"\n", modernMeta)
		fmt.Fprintf(inW, `{"jsonrpc":"2.0","id":"b","method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["demo://status/clock"]},%s}}`+"\n", modernMeta)
		synctest.Wait()
		acks := <-lines + <-lines
		if strings.Count(acks, "acknowledged") != 2 {
			t.Fatalf("got %s", acks)
		}
		time.Sleep(2*time.Second + time.Millisecond)
		both := <-lines + <-lines
		for _, pair := range [][2]string{{`"a"`, "guide.md"}, {`"b"`, "clock"}} {
			ok := false
			for l := range strings.SplitSeq(both, `{"jsonrpc"`) {
				ok = ok || strings.Contains(l, `subscriptionId":`+pair[0]) && strings.Contains(l, pair[1])
			}
			if !ok {
				t.Errorf("%v not in %s", pair, both)
			}
		}
		io.WriteString(inW, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"b"}}`+"\n")
		time.Sleep(10 * time.Second) // ticks 2 to 6, the guide changes in the sixth
		if l := <-lines; !strings.Contains(l, "guide.md") {
			t.Errorf("got %s", l)
		}
		synctest.Wait()
		select {
		case l := <-lines:
			t.Errorf("after the cancel: %s", l)
		default:
		}
		inW.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		// The stream that we end is answered.
		if l := <-lines; !strings.Contains(l, `"id":"a"`) {
			t.Errorf("got %q", l)
		}
	})
}

func TestCancel(t *testing.T) {
	why := errors.New("enough")
	for name, reads := range map[string]bool{"a reading client": true, "a client that does not read": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inR, inW := io.Pipe()
				outR, outW := io.Pipe()
				ctx, cancel := context.WithCancelCause(t.Context())
				ended := make(chan error, 1) // Serve's goroutine sends once
				go func() { ended <- demo.Serve(ctx, inR, outW, demo.Options{}) }()
				if reads {
					go io.Copy(io.Discard, outR)
				}
				fed := make(chan struct{}) // closed by the writer below
				go func() {
					defer close(fed)
					for {
						if _, err := io.WriteString(inW, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil || reads {
							return
						}
					}
				}()
				time.Sleep(time.Second)
				cancel(why)
				if err := <-ended; !errors.Is(err, why) && reads {
					t.Errorf("got %v", err)
				} else if err == nil {
					t.Error("no error")
				}
				outR.Close()
				outW.Close()
				<-fed
			})
		})
	}
}

func TestClientStopsReading(t *testing.T) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	outR.Close()
	ended := make(chan error, 1) // Serve's goroutine sends once
	go func() { ended <- demo.Serve(t.Context(), inR, outW, demo.Options{}) }()
	io.WriteString(inW, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n")
	if err := <-ended; !errors.Is(err, io.ErrClosedPipe) {
		t.Fatalf("got %v", err)
	}
	inW.Close()
}
