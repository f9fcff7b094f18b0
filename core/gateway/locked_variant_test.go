package gateway

import (
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// A resource that is held for the clients that declare sampling cannot be read by others either, although
// the server does not list it for them. What is approved for these stays readable.
func TestHeldForOtherClients(t *testing.T) {
	inCapableWorldLocked(t, func(w *capableWorld, approve func()) {
		w.docs.SetQuietly("note:///old", "good")
		w.more.SetQuietly("note:///new", evil)
		w.more.NotifyListChanged(catalog.Resources)
		w.docs.NotifyListChanged(catalog.Resources)
		w.advance(2 * time.Minute)
		w.wantHeld(w.capable, "resources/read", `{"uri":"note:///new"}`, "run mcptrack review docs")
		for _, spelled := range []string{"note:///new", "note:///n%65w", "NOTE:///new"} {
			w.wantHeld(w.plain, "resources/read", `{"uri":"`+spelled+`"}`, "run mcptrack review docs")
		}
		approve()
		w.wantServed(w.plain, "resources/read", `{"uri":"note:///old"}`)
		w.wantServed(w.capable, "resources/read", `{"uri":"note:///new"}`)
	})
}
