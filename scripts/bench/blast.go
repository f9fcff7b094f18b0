//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	blastURI  = "blast://r/" // followed by six digits
	blastDone = blastURI + "999999"

	// blastPause lets the client become idle between the tool call and the first notification.
	blastPause = 300 * time.Millisecond
)

// blast is the server that is measured with: raw JSON-RPC over stdio, protocol 2025-11-25, so that it costs
// little compared with a client. It offers resources, the tools t000, t001, … that return their
// text, and prompts. Its tool "blast" makes it send count notifications at a rate per second (0: as
// fast as the pipe takes them), round robin over its resources, and then one for blastDone. The
// times at which they were sent go to a file, in nanoseconds of the wall clock: client and server run
// on one machine and so read one clock.
type blast struct {
	resources int
	times     string

	mu         sync.Mutex // guards what follows, and is held while writing a message
	out        *bufio.Writer
	subscribed map[string]bool

	sending sync.WaitGroup
}

func runBlast(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("blast", flag.ContinueOnError)
	b := &blast{out: bufio.NewWriterSize(out, 64<<10), subscribed: map[string]bool{}}
	flags.IntVar(&b.resources, "resources", 100, "how many resources to offer")
	flags.StringVar(&b.times, "times", "", "file for the times of sending")
	if err := flags.Parse(args); err != nil {
		return err
	}
	err := b.serve(newLines(in, 64<<10))
	b.sending.Wait()
	return err
}

// serve answers until stdin ends. Answers are flushed when no more requests
// are waiting, so that a pipelining client is answered in few writes.
func (b *blast) serve(in *lines) error {
	for {
		line, err := in.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		answer := b.answer(line)
		if answer == nil {
			continue
		}
		b.mu.Lock()
		_, err = b.out.Write(append(answer, '\n'))
		if err == nil && in.Buffered() == 0 {
			err = b.out.Flush()
		}
		b.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

type blastOptions struct {
	Count int    `json:"count"`
	Rate  int    `json:"rate"`
	After string `json:"after,omitempty"` // a file to wait for
	Text  string `json:"text,omitempty"`  // of the other tools
}

// answer returns the answer to a message, nil to a notification.
func (b *blast) answer(message []byte) []byte {
	var q struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Name      string       `json:"name"`
			URI       string       `json:"uri"`
			Arguments blastOptions `json:"arguments"`
		} `json:"params"`
	}
	if err := json.Unmarshal(message, &q); err != nil || q.ID == nil {
		return nil
	}
	var result string
	switch q.Method {
	case "initialize":
		result = `{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true},"tools":{"listChanged":true},"prompts":{}},"serverInfo":{"name":"blast","version":"1"}}`
	case "ping":
		result = `{}`
	case "tools/list":
		result = list("tools", 10, `{"name":"t%03d","description":"A tool","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}},`,
			`{"name":"blast","inputSchema":{"type":"object"}}`)
	case "prompts/list":
		result = list("prompts", 5, `{"name":"prompt%d"},`, `{"name":"last"}`)
	case "resources/list":
		result = list("resources", b.resources, `{"uri":"`+blastURI+`%06[1]d","name":"r%[1]d","mimeType":"text/plain"},`,
			`{"uri":"`+blastDone+`","name":"done","mimeType":"text/plain"}`)
	case "resources/templates/list":
		result = `{"resourceTemplates":[]}`
	case "resources/read":
		result = fmt.Sprintf(`{"contents":[{"uri":%q,"mimeType":"text/plain","text":"content of %s"}]}`, q.Params.URI, q.Params.URI)
	case "resources/subscribe", "resources/unsubscribe":
		b.mu.Lock()
		b.subscribed[q.Params.URI] = q.Method == "resources/subscribe"
		b.mu.Unlock()
		result = `{}`
	case "tools/call":
		if q.Params.Name == "blast" {
			b.sending.Go(func() { b.send(q.Params.Arguments) })
		}
		result = fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, q.Params.Arguments.Text)
	default:
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, q.ID)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
}

// list returns n items in a format that has the number once or more, and a last item.
func list(kind string, n int, format, last string) string {
	var items strings.Builder
	for i := range n {
		fmt.Fprintf(&items, format, i)
	}
	return `{"` + kind + `":[` + items.String() + last + `]}`
}

func resourceURI(i int) string { return fmt.Sprintf("%s%06d", blastURI, i) }

// send announces only subscribed resources, so that a client that lost a subscription misses updates.
func (b *blast) send(o blastOptions) {
	uris, updates := make([]string, b.resources), make([]string, b.resources)
	for i := range uris {
		uris[i] = resourceURI(i)
		updates[i] = updateLine(uris[i])
	}
	times := make([]int64, 0, o.Count)
	for !b.mayBegin(o.After) {
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(blastPause)
	began := time.Now()
	for i := range o.Count {
		if o.Rate > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(o.Rate))))
		}
		times = append(times, time.Now().UnixNano())
		if err := b.notify(uris[i%b.resources], updates[i%b.resources], o.Rate > 0); err != nil {
			return // the client is gone
		}
	}
	if err := writeTimes(b.times, times); err != nil {
		fmt.Fprintln(os.Stderr, "blast:", err)
		return
	}
	_ = b.notify(blastDone, updateLine(blastDone), true)
}

// mayBegin reports whether all resources are subscribed, and the file is there.
func (b *blast) mayBegin(file string) bool {
	b.mu.Lock()
	all := len(b.subscribed) > b.resources
	b.mu.Unlock()
	if file == "" || !all {
		return all
	}
	_, err := os.Stat(file)
	return err == nil
}

func updateLine(uri string) string {
	return `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + uri + `"}}` + "\n"
}

func (b *blast) notify(uri, line string, flush bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.subscribed[uri] {
		return nil
	}
	if _, err := b.out.WriteString(line); err != nil {
		return err
	}
	if !flush {
		return nil
	}
	return b.out.Flush()
}

func writeTimes(file string, times []int64) error {
	if file == "" {
		return nil
	}
	data, err := json.Marshal(times)
	return errors.Join(err, os.WriteFile(file, data, 0o600))
}

func readTimes(file string) (times []int64, err error) {
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &times)
	}
	return times, err
}
