//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// many is a server with many tools, each of which answers immediately. A call with
// "change" adds a tool, sends the notification, and answers with the time.
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
