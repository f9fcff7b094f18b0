package mcpserver_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/mcpserver/mcpservertest"
)

// A client whose calls fail sends nothing more once it has the errors, and hears of a change once.
func TestIdleAfterErrors(t *testing.T) {
	t.Parallel()
	for _, library := range []string{"sdk", "client"} {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			peers(t)
			h := newTestServer(t, mcpserver.Options{}, "a")
			requests := &mcpservertest.Counter{Handler: h}
			ts := httptest.NewServer(requests)
			t.Cleanup(func() {
				h.Close()
				ts.Close()
			})
			c := mcpservertest.Drive(t, nodeCommand(context.Background(), t, filepath.Join(peers(t), "driven.mjs"), library, ts.URL))
			eventually(t, "the GET stream", func() bool { _, gets := requests.Count(); return len(gets) == 1 })
			for _, tool := range []string{"missing", "panic", "missing", "late"} {
				c.Send("tools/call", fmt.Sprintf(`{"name":%q}`, tool))
				if tool == "late" {
					within(t, h.began, "the call")
					time.Sleep(time.Second) // the client sees that it takes time
					h.proceed <- struct{}{}
				}
				if result, failed := c.Answer(); failed == "" {
					t.Errorf("%s: %s", tool, result)
				}
			}
			time.Sleep(3 * time.Second) // longer than clients wait before they connect again
			all, before := requests.Count()
			if len(before) > 2 {
				t.Errorf("GET with the ids %q; only that of the call that took time may be there", before)
			}
			h.SetCatalog(mcpserver.Catalog{Prompts: h.catalog().Prompts, Resources: h.catalog("a").Resources, Templates: h.catalog().Templates})
			c.Hear("tools/list_changed")
			time.Sleep(4 * time.Second)
			if now, after := requests.Count(); now != all {
				t.Errorf("%d requests of an idle client in 4 s; GET with %q", now-all, after[len(before):])
			}
			if _, failed := c.Do("tools/list", "{}"); failed != "" || len(c.News) != 1 { // what came before it is read
				t.Errorf("%s; heard of %q", failed, c.News)
			}
		})
	}
}
