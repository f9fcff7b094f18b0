package commands

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/capindex"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/serve"
	"github.com/mcptrack/mcptrack/core/session"
)

// Subscribers of the index are notified of a real change within 3 s, read the new state
// then, and hear nothing of a change that is none (H4, H5).
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
	flags := indexFlags{index: true, expose: []string{"summary", "full"}, ttl: "5m"}
	if err := flags.parse(); err != nil {
		t.Fatal(err)
	}
	s, err := flags.start(func() capindex.View {
		mu.Lock()
		defer mu.Unlock()
		it, err := catalog.NewItem(catalog.Tools, json.RawMessage(`{"name":"`+name+`","inputSchema":{"type":"object"}}`))
		if err != nil {
			t.Error(err)
		}
		return capindex.View{Servers: []capindex.Server{{ID: "s", Lists: map[catalog.Kind]catalog.List{catalog.Tools: {it}}}}}
	})
	if err != nil {
		t.Fatal(err)
	}
	l := s.local()
	server := serve.New(serve.Options{CallTool: l.CallTool, ReadResource: l.ReadResource})
	server.SetCatalog(serve.Catalog{Tools: l.Tools, Resources: l.Resources})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.follow(ctx, server) })
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
	defer s.index.Close()
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
	s.changed()
	notified() // the first generation always notifies
	s.changed()
	if notified() {
		t.Error("notified although nothing changed")
	}
	mu.Lock()
	name = "two"
	mu.Unlock()
	for range 100 {
		s.changed()
	}
	if text := read(); !strings.Contains(text, "two") {
		t.Errorf("at once it says %s", text)
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

// Flags come before the environment, and that before defaults (H8).
func TestIndexFlagsAndEnvironment(t *testing.T) {
	t.Parallel()
	environ := map[string]string{"MCPTRACK_INDEX": "true", "MCPTRACK_INDEX_EXPOSE": "stats, full", "MCPTRACK_INDEX_TTL": "7s"}
	for _, tt := range []struct {
		given  []string
		index  bool
		expose string
		lasts  time.Duration
	}{
		{nil, true, "stats full", 7 * time.Second},
		{[]string{"--index=false"}, false, "stats full", 7 * time.Second},
		{[]string{"--index-expose", "summary", "--index-ttl", "3m"}, true, "summary", 3 * time.Minute},
	} {
		env := &Env{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, LookupEnv: func(k string) (string, bool) { v, ok := environ[k]; return v, ok }}
		var f indexFlags
		cmd := newGateway(env, &globals{})
		flags := cmd.Flags()
		if err := flags.Parse(tt.given); err != nil {
			t.Fatal(err)
		}
		f.index, _ = flags.GetBool("index")
		f.expose, _ = flags.GetStringSlice("index-expose")
		f.ttl, _ = flags.GetString("index-ttl")
		f.fromEnv(env, flags.Changed)
		if err := f.parse(); err != nil {
			t.Errorf("%q: %v", tt.given, err)
		}
		if f.index != tt.index || strings.Join(f.expose, " ") != tt.expose || f.lasts != tt.lasts {
			t.Errorf("%q: %+v", tt.given, f)
		}
	}
}

// The config says what neither flags nor the environment say.
func TestIndexOfTheConfig(t *testing.T) {
	t.Parallel()
	c := config.Index{Enabled: true, Expose: []string{"stats"}, TTL: time.Hour}
	f := indexFlags{expose: []string{"full"}, lasts: time.Minute}
	f.fromConfig(c)
	if !f.index || strings.Join(f.expose, " ") != "stats" || f.lasts != time.Hour {
		t.Errorf("%+v", f)
	}
	f = indexFlags{expose: []string{"full"}, lasts: time.Minute}
	f.said.index, f.said.expose, f.said.ttl = true, true, true
	f.fromConfig(c)
	if f.index || strings.Join(f.expose, " ") != "full" || f.lasts != time.Minute {
		t.Errorf("%+v", f)
	}
	if got := capindex.Names(); strings.Join(got, " ") != strings.Join(config.IndexDocuments(), " ") {
		t.Errorf("the config knows %v, the index %v", config.IndexDocuments(), got)
	}
}
