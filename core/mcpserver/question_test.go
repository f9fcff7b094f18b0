package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// asked returns the id of the question that the tool of newAskingServer asks.
func asked(t *testing.T, message string) (id string) {
	t.Helper()
	return askedAs(t, message, `{"jsonrpc":"2.0","id":%s,"method":"roots/list","params":{"a":1}}`)
}

// askedAs returns the id of a question in the given format.
func askedAs(t *testing.T, message, format string) (id string) {
	t.Helper()
	var q struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(message), &q); err != nil || message != fmt.Sprintf(format, q.ID) {
		t.Fatalf("got %s, want %s", message, format)
	}
	return string(q.ID)
}

// An answer that was meant for a question of another process, which died, is not taken as the answer
// to a question of this one, in any transport. It is counted.
func TestAnswerToAnotherProcess(t *testing.T) {
	t.Parallel()
	const call = `{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"x"}}`
	const answer = `{"jsonrpc":"2.0","id":%s,"result":{"by":%q}}`
	late := ""
	for range 2 { // two processes
		s := newAskingServer(t, true)
		w := s.pipe(t)
		w.initialize()
		w.send("%s", call)
		id := asked(t, w.next())
		if late != "" {
			w.send(answer, late, "late")
		}
		w.send(answer, id, "stdio")
		if got := w.next(); !strings.Contains(got, "'by':'stdio'") {
			t.Errorf("%s", got)
		}
		e := &endpoint{testServer: s, t: t, url: s.over(t).URL}
		headers := e.initialize()
		stream := e.stream("POST", headers, call)
		onHTTP := asked(t, stream.next())
		for _, other := range []string{id, late} { // of another session, and of another process
			if other != "" {
				e.post(headers, answer, other, "late")
			}
		}
		e.post(headers, answer, onHTTP, "http")
		if got := stream.next(); !strings.Contains(got, "'by':'http'") {
			t.Errorf("%s", got)
		}
		want := uint64(1)
		if late != "" {
			want = 3
		}
		if got := s.StrayAnswers(); got != want {
			t.Errorf("%d dropped answers were counted, want %d", got, want)
		}
		late = id
	}
}
