package upstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/mcptrack/mcptrack/core/gateway/upstream"
)

// An API with one route becomes a tool that can be called.
func Example() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/version", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"version":"2.1.0","build":"2026-11-20-1"}`)
	})
	mux.HandleFunc("GET /api/mcp/tools", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `[{"name":"get_note","description":"Returns a note","method":"GET","path":"/api/notes/{id}",
			"params":[{"name":"id","type":"string","in":"path","required":true}]}]`)
	})
	mux.HandleFunc("GET /api/notes/{id}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "note %s", r.PathValue("id"))
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	up, err := upstream.New(upstream.Options{URL: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { up.Run(ctx) })
	defer running.Wait()
	defer cancel()
	if err := up.Settled(context.Background()); err != nil {
		fmt.Println(err)
	}
	for _, tool := range up.Catalog().Tools {
		fmt.Println(tool.Key)
	}
	result, err := up.Call(context.Background(), "get_note", json.RawMessage(`{"id":"a b"}`))
	fmt.Println(string(result), err)
	// Output:
	// get_note
	// get_version
	// {"content":[{"type":"text","text":"note a b"}]} <nil>
}
