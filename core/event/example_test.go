package event_test

import (
	"fmt"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
)

// An event prints as a line. Its diff needs a tracker with Texts.
func Example() {
	before, after := "# Deploying\nAny day.\n", "# Deploying\nNever on Fridays.\n"
	changed := true
	e := &event.Event{
		ServerID: "handbook", ResourceURI: "note:///deploy.md", Cause: event.CauseNotify,
		Timestamp: time.Date(2026, 11, 24, 9, 30, 0, 0, time.UTC),
		Payload:   event.ResourceUpdated{Changed: &changed, Text: &after, PreviousText: &before},
	}
	fmt.Println(e)
	fmt.Print(e.UnifiedDiff())
	// Output:
	// 2026-11-24T09:30:00.000Z handbook resource.updated note:///deploy.md cause=notify changed=true
	// --- note:///deploy.md
	// +++ note:///deploy.md
	// @@ -1,2 +1,2 @@
	//  # Deploying
	// -Any day.
	// +Never on Fridays.
}
