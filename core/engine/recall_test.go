package engine

import (
	"encoding/json"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/journal"
)

// What is recalled is exactly what the server sent: a server of which a part is missing, or stored with a
// secret redacted, is not recalled.
func TestRecallIsExact(t *testing.T) {
	for description, want := range map[string]bool{"plain": true, "uses v4riable-value": false} {
		j := journal.NewMemory(journal.MemoryOptions{KeepContent: 1 << 20})
		m := &memory{log: j, known: map[string]*published{}, recalled: map[string]recalled{}}
		r := newRecorder(j, m, Options{})
		r.texts.apply(&config.Config{Servers: []config.Server{{ID: "s", Secrets: []config.Secret{config.NewSecret("v4riable-value")}}}})
		remember := func(k catalog.Kind, key, raw string) {
			digest, err := catalog.Fingerprint(json.RawMessage(raw))
			if err == nil {
				err = r.RememberList(journal.ListName{ServerID: "s", Kind: k}, catalog.List{{Key: key, Raw: json.RawMessage(raw), Digest: digest}})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		remember(catalog.Tools, "t", `{"name":"t","description":"`+description+`"}`)
		m.recall(t.Context(), "s")
		if handshake, _ := m.take("s"); handshake != nil {
			t.Errorf("recalled without a handshake: %s", handshake)
		}
		remember(journal.Handshake, "handshake", `{"Era":"legacy"}`)
		m.recall(t.Context(), "s")
		handshake, lists := m.take("s")
		if (handshake != nil) != want || want && (string(handshake) != `{"Era":"legacy"}` || string(lists[catalog.Tools][0].Raw) != `{"name":"t","description":"plain"}`) {
			t.Errorf("%s: %s %+v", description, handshake, lists)
		}
	}
}
