package capindex_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/gateway/capindex"
)

// Two servers, a search in both, and the documents whose subscribers are notified.
func Example() {
	tool := func(descriptor string) catalog.List {
		it, _ := catalog.NewItem(catalog.Tools, json.RawMessage(descriptor))
		return catalog.NewList([]catalog.Item{it})
	}
	snapshot := capindex.Capabilities{Servers: []capindex.ServerCapabilities{
		{ID: "docs", Lists: map[catalog.Kind]catalog.List{catalog.Tools: tool(`{"name":"docs_read","description":"Reads a note"}`)}},
		{ID: "mail", Lists: map[catalog.Kind]catalog.List{catalog.Tools: tool(`{"name":"mail_send","description":"Sends a message"}`)}},
	}}
	index, err := capindex.New(capindex.Options{
		Source: func() capindex.Capabilities { return snapshot },
		Expose: []string{"summary", "stats"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()

	doc, err := index.Read(ctx, "capability-index://summary")
	fmt.Println(doc.MimeType, len(doc.Text) <= capindex.MaxSummary, err)
	raw, err := index.Search(ctx, json.RawMessage(`{"query":"notes"}`))
	var found struct {
		StructuredContent struct{ Results []capindex.Result }
	}
	if err == nil {
		err = json.Unmarshal(raw, &found)
	}
	for _, r := range found.StructuredContent.Results {
		fmt.Println(r.Kind, r.Key, "of", r.Server)
	}
	fmt.Println(err)

	snapshot.Servers = snapshot.Servers[:1]
	fmt.Println(index.Changed(ctx))
	fmt.Println(index.Changed(ctx))
	// Output:
	// text/markdown true <nil>
	// tools docs_read of docs
	// <nil>
	// [capability-index://summary capability-index://stats] <nil>
	// [] <nil>
}
