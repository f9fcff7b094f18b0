package mcpserver

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/mcptrack/mcptrack/core/mcp"
)

// batchVersion is the only protocol version that has batches: arrays of messages.
const batchVersion = "2025-03-26"

const maxBatch = 100 // maximum number of messages in a batch

// splitBatch returns the messages in a batch; nil if data is not a batch, or has too many messages or none.
func splitBatch(data []byte) (messages []json.RawMessage) {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) || json.Unmarshal(data, &messages) != nil || len(messages) == 0 || len(messages) > maxBatch {
		return nil
	}
	return messages
}

// batch handles the messages of a session one after another, and responds with the list of the
// responses. They are not sent on streams, so there are no notifications before them.
func (x *exchange) batch(messages []json.RawMessage) {
	ss := x.session()
	if ss == nil {
		return
	}
	version := ss.version
	x.srv.releaseSession(ss)
	if version != batchVersion {
		x.fail(http.StatusBadRequest, errNoBatches())
		return
	}
	r := x.r.Clone(x.r.Context())
	r.Header.Set("Accept", typeJSON)
	var answers [][]byte
	for _, raw := range messages {
		w := &memoryResponse{header: http.Header{}}
		one := &exchange{srv: x.srv, w: w, r: r, rc: http.NewResponseController(w), principal: x.principal, identity: x.identity}
		var failed *Error
		if one.m, failed = parse(raw); failed == nil && one.m.method == mcp.MethodInitialize {
			failed = errorf(mcp.CodeInvalidRequest, "initialize must not be part of a batch")
		}
		if failed != nil {
			one.fail(http.StatusOK, failed)
		} else {
			one.legacy()
		}
		if w.body.Len() > 0 && w.header.Get("Content-Type") != typeJSON { // it requires a stream
			w.body.Reset()
			one.fail(http.StatusOK, errorf(mcp.CodeInvalidRequest, "%s must not be part of a batch", bounded(one.m.method)))
		}
		if w.body.Len() > 0 {
			answers = append(answers, w.body.Bytes())
		}
	}
	if len(answers) == 0 {
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	x.reply(http.StatusOK, append(append([]byte{'['}, bytes.Join(answers, []byte{','})...), ']'))
}

func errNoBatches() *Error {
	return errorf(mcp.CodeInvalidRequest, "batches are supported only in version "+batchVersion+", with at most %d messages", maxBatch)
}

// memoryResponse is a response that is kept in memory.
type memoryResponse struct {
	header http.Header
	body   bytes.Buffer
}

func (w *memoryResponse) Header() http.Header         { return w.header }
func (w *memoryResponse) Write(p []byte) (int, error) { return w.body.Write(p) }
func (w *memoryResponse) WriteHeader(int)             {}
