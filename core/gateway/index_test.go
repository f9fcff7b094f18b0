package gateway

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/gateway/capindex"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

// Subscribers of the index are notified of a real change within 3 s and then read the new state;
// they are not notified if nothing has really changed.
func TestIndexNotifiesSubscribers(t *testing.T) {
	for _, era := range []session.Era{session.EraLegacy, session.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testIndex(t, era) })
		})
	}
}

func testIndex(t *testing.T, era session.Era) {
	var mu sync.Mutex
	name := "one"
	x, err := NewIndex(capindex.Options{Expose: []string{"summary", "full"}, TTL: 5 * time.Minute, Source: func() capindex.View {
		mu.Lock()
		defer mu.Unlock()
		it, err := catalog.NewItem(catalog.Tools, json.RawMessage(`{"name":"`+name+`","inputSchema":{"type":"object"}}`))
		if err != nil {
			t.Error(err)
		}
		return capindex.View{Servers: []capindex.ServerCapabilities{{ID: "s", Lists: map[catalog.Kind]catalog.List{catalog.Tools: {it}}}}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	l := x.Local()
	server := mcpserver.New(mcpserver.Options{CallTool: l.Tools[0].Call, ReadResource: l.ReadResource})
	server.SetCatalog(mcpserver.Catalog{Tools: []json.RawMessage{l.Tools[0].Descriptor}, Resources: l.Resources})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { x.Run(ctx, server) })
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	running.Go(func() {
		_ = server.ServeIO(ctx, in, out)
		_ = out.Close()
	})
	c, err := session.OverIO(t.Context(), fromServer, toServer, config.Server{Protocol: config.Protocol(era)}, session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer running.Wait()
	defer cancel()
	defer x.Close()
	defer func() { _ = c.Close() }()

	const uri = "capability-index://full"
	if _, err := c.Subscribe(t.Context(), session.Filter{URIs: []string{uri}}); err != nil {
		t.Fatal(err)
	}
	read := func() string {
		t.Helper()
		got, err := c.Read(t.Context(), uri)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := got.Text()
		return text
	}
	// notified waits 3 s and reports whether the subscriber was notified meanwhile.
	notified := func() bool {
		wait, done := context.WithTimeout(context.Background(), 3*time.Second)
		defer done()
		<-wait.Done()
		synctest.Wait()
		_, updated := c.Signals().Take().URIs[uri]
		return updated
	}
	if !strings.Contains(read(), "one") {
		t.Errorf("it says %s", read())
	}
	x.Changed()
	notified() // the first generation always notifies
	x.Changed()
	if notified() {
		t.Error("notified although nothing changed")
	}
	mu.Lock()
	name = "two"
	mu.Unlock()
	for range 100 {
		x.Changed()
	}
	if text := read(); !strings.Contains(text, "two") {
		t.Errorf("immediately after the change it is %s", text)
	}
	if !notified() {
		t.Error("not notified of a change")
	}
	if _, err := c.Read(t.Context(), "capability-index://stats"); err == nil {
		t.Error("what is not exposed can be read")
	}
	raw, err := c.CallTool(t.Context(), capindex.SearchToolName, map[string]any{"query": "two"})
	if err != nil || !strings.Contains(string(raw), `two`) {
		t.Errorf("%s, %v", raw, err)
	}
}
