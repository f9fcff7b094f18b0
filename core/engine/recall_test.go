package engine

import (
	"encoding/json"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// What is recalled is exactly what the server sent: a server of which a part is missing, or stored with a
// secret redacted, is not recalled.
func TestRecallIsExact(t *testing.T) {
	for description, want := range map[string]bool{"plain": true, "uses v4riable-value": false} {
		j := journal.NewMemory(journal.MemoryOptions{KeepContent: 1 << 20})
		e, err := New(t.Context(), Desired{}, j, Options{Tracker: tracker.Options{OnDemand: true}})
		if err != nil {
			t.Fatal(err)
		}
		e.texts.apply(&config.Config{Servers: []config.Server{{ID: "s", Secrets: []config.Secret{config.NewSecret("v4riable-value")}}}})
		remember := func(k catalog.Kind, key, raw string) {
			digest, err := catalog.Fingerprint(json.RawMessage(raw))
			if err == nil {
				err = e.opts.Tracker.Log.RememberList(journal.ListName{ServerID: "s", Kind: k}, catalog.List{{Key: key, Raw: json.RawMessage(raw), Digest: digest}})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		recalled := func() catalog.List {
			next, err := New(t.Context(), Desired{}, j, Options{Tracker: tracker.Options{OnDemand: true}})
			if err != nil {
				t.Fatal(err)
			}
			next.Recall(t.Context(), "s")
			return next.tracker.ClientOf("s", nil).List(catalog.Tools)
		}
		remember(catalog.Tools, "t", `{"name":"t","description":"`+description+`"}`)
		if list := recalled(); len(list) > 0 {
			t.Errorf("recalled without a handshake: %s", list[0].Raw)
		}
		remember(journal.Handshake, "handshake", `{"Era":"legacy","RawCapabilities":{"tools":{}}}`)
		if list := recalled(); (len(list) == 1) != want || want && string(list[0].Raw) != `{"name":"t","description":"plain"}` {
			t.Errorf("%s: %+v", description, list)
		}
	}
}
