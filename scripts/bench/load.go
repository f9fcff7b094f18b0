//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	blastURI  = "blast://r/" // followed by six digits
	blastDone = blastURI + "999999"
	blastPage = 1000

	// blastPause lets the client become idle between the tool call and the first notification.
	blastPause = 300 * time.Millisecond
)

// blast is the load server: raw JSON-RPC over stdio, protocol 2025-11-25, so
// that it costs little compared with a client. Its tool "blast" makes
// it send count notifications at a rate per second (0: as fast as the pipe
// takes them), round robin over its resources, and then one for blastDone. The
// times at which they were sent go to a file, one wall clock nanosecond number
// a line: client and server run on one machine and so read one clock.
type blast struct {
	resources int
	times     string

	mu         sync.Mutex // guards what follows, and held while writing a message
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
	err := b.serve(bufio.NewReaderSize(in, 64<<10))
	b.sending.Wait()
	return err
}

type blastRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		URI       string       `json:"uri"`
		Cursor    string       `json:"cursor"`
		Arguments blastOptions `json:"arguments"`
	} `json:"params"`
}

type blastOptions struct {
	Count int    `json:"count"`
	Rate  int    `json:"rate"`
	After string `json:"after,omitempty"` // a file to wait for
}

// serve answers until stdin ends. Answers are flushed when no more requests
// are waiting, so that a pipelining client is answered in few writes.
func (b *blast) serve(in *bufio.Reader) error {
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		var req blastRequest
		if err := json.Unmarshal(line, &req); err != nil {
			return fmt.Errorf("request %q: %w", line, err)
		}
		if req.ID == nil {
			continue // a notification
		}
		result, known := b.answer(req)
		b.mu.Lock()
		if known {
			fmt.Fprintf(b.out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", req.ID, result)
		} else {
			fmt.Fprintf(b.out, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`+"\n", req.ID)
		}
		if in.Buffered() == 0 {
			err = b.out.Flush()
		}
		b.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

func (b *blast) answer(req blastRequest) (result string, known bool) {
	switch req.Method {
	case "initialize":
		return `{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true},"tools":{}},"serverInfo":{"name":"blast","version":"1"}}`, true
	case "ping":
		return `{}`, true
	case "tools/list":
		return `{"tools":[{"name":"blast","inputSchema":{"type":"object"}}]}`, true
	case "tools/call":
		b.sending.Go(func() { b.send(req.Params.Arguments) })
		return `{"content":[]}`, true
	case "resources/list":
		return b.list(req.Params.Cursor), true
	case "resources/templates/list":
		return `{"resourceTemplates":[]}`, true
	case "resources/read":
		return fmt.Sprintf(`{"contents":[{"uri":%q,"mimeType":"text/plain","text":"content of %s"}]}`, req.Params.URI, req.Params.URI), true
	case "resources/subscribe", "resources/unsubscribe":
		b.mu.Lock()
		defer b.mu.Unlock()
		b.subscribed[req.Params.URI] = req.Method == "resources/subscribe"
		return `{}`, true
	}
	return "", false
}

func (b *blast) list(cursor string) string {
	var page strings.Builder
	page.WriteString(`{"resources":[`)
	from, _ := strconv.Atoi(cursor) // no cursor: from the beginning
	to := min(from+blastPage, b.resources)
	for i := from; i < to; i++ {
		fmt.Fprintf(&page, `{"uri":"%s","name":"r%d","mimeType":"text/plain"},`, resourceURI(i), i)
	}
	if to < b.resources {
		return strings.TrimSuffix(page.String(), ",") + fmt.Sprintf(`],"nextCursor":"%d"}`, to)
	}
	fmt.Fprintf(&page, `{"uri":"%s","name":"done","mimeType":"text/plain"}]}`, blastDone)
	return page.String()
}

func resourceURI(i int) string { return fmt.Sprintf("%s%06d", blastURI, i) }

// send announces only subscribed resources, so that a client that lost a subscription misses updates.
func (b *blast) send(o blastOptions) {
	lines := make([]string, b.resources)
	for i := range lines {
		lines[i] = updateLine(resourceURI(i))
	}
	times := make([]int64, 0, o.Count)
	if o.After != "" {
		for _, err := os.Stat(o.After); err != nil; _, err = os.Stat(o.After) {
			time.Sleep(5 * time.Millisecond)
		}
	}
	time.Sleep(blastPause)
	began := time.Now()
	for i := range o.Count {
		if o.Rate > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(o.Rate))))
		}
		times = append(times, time.Now().UnixNano())
		if err := b.notify(resourceURI(i%b.resources), lines[i%b.resources], o.Rate > 0); err != nil {
			return // the client is gone
		}
	}
	if err := writeTimes(b.times, times); err != nil {
		fmt.Fprintln(os.Stderr, "blast:", err)
		return
	}
	_ = b.notify(blastDone, updateLine(blastDone), true)
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
	var text []byte
	for _, ns := range times {
		text = append(strconv.AppendInt(text, ns, 10), '\n')
	}
	return os.WriteFile(file, text, 0o600)
}

func readTimes(file string) ([]int64, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(data))
	times := make([]int64, 0, len(fields))
	for f := range slices.Values(fields) {
		ns, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return nil, err
		}
		times = append(times, ns)
	}
	return times, nil
}

// many is a server with many tools. A call with "change" adds a tool, sends the notification, and
// answers with the time.
type many struct {
	tools int

	mu  sync.Mutex // guards tools, and is held while writing to out
	out *bufio.Writer
}

func runMany(args []string, in io.Reader, out io.Writer) error {
	m := &many{out: bufio.NewWriter(out)}
	if len(args) == 0 {
		return errors.New("usage: bench many TOOLS [http]")
	}
	var err error
	if m.tools, err = strconv.Atoi(args[0]); err != nil {
		return err
	}
	if len(args) > 1 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "listening on http://%s/mcp\n", ln.Addr())
		return http.Serve(ln, m)
	}
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if answer := m.answer(line); answer != nil {
			m.mu.Lock()
			_, _ = m.out.Write(append(answer, '\n'))
			err = m.out.Flush()
			m.mu.Unlock()
			if err != nil {
				return err
			}
		}
	}
}

func (m *many) answer(message []byte) []byte {
	var q struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Arguments struct {
				Text   string
				Change bool
			} `json:"arguments"`
		} `json:"params"`
	}
	if err := json.Unmarshal(message, &q); err != nil || q.ID == nil {
		return nil
	}
	result := `{}`
	switch q.Method {
	case "initialize":
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"many","version":"1"}}`
	case "tools/list":
		result = m.list()
	case "tools/call":
		text := q.Params.Arguments.Text
		if q.Params.Arguments.Change {
			text = strconv.FormatInt(m.change(), 10)
		}
		result = fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
}

func (m *many) list() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for i := range m.tools {
		fmt.Fprintf(&b, `,{"name":"t%03d","description":"Tool number %d of this server, with a description of some length",`+
			`"inputSchema":{"type":"object","properties":{"text":{"type":"string","description":"A text"},"change":{"type":"boolean"}}}}`, i, i)
	}
	return `{"tools":[` + b.String()[1:] + `]}`
}

// change adds a tool and sends the notification.
func (m *many) change() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tools++
	at := time.Now().UnixNano()
	_, _ = m.out.WriteString(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n")
	_ = m.out.Flush()
	return at
}

// ServeHTTP is Streamable HTTP without sessions and streams.
func (m *many) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	answer := m.answer(body)
	if answer == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}
