package event_test

import (
	"fmt"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
)

// Events print as lines for people. The diff of an update needs a tracker that keeps texts.
func Example() {
	before, after := "# Deploying\nAny day.\n", "# Deploying\nNever on Fridays.\n"
	e := &event.Event{
		ServerID: "handbook", ResourceURI: "note:///deploy.md", Cause: event.CauseNotify,
		Timestamp: time.Date(2026, 11, 24, 9, 30, 0, 0, time.UTC),
		Payload:   event.ResourceUpdated{Name: "deploy.md", Text: &after, PreviousText: &before},
	}
	fmt.Println(e)
	if u, ok := e.Payload.(event.ResourceUpdated); ok {
		fmt.Print(u.UnifiedDiff())
	}
	// Output:
	// 2026-11-24T09:30:00.000Z handbook updated note:///deploy.md (+1 −1)
	// --- deploy.md
	// +++ deploy.md
	// @@ -1,2 +1,2 @@
	//  # Deploying
	// -Any day.
	// +Never on Fridays.
}
