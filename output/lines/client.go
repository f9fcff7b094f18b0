package lines

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// client describes an action of a client on this side.
func (w *Writer) client(e *event.Event) string {
	switch p := e.Payload.(type) {
	case event.ResourceContent:
		parts := []string{Size(p.Size)}
		if p.Changed != nil && !*p.Changed {
			parts = append(parts, "same content")
		}
		if p.Template != "" {
			parts = append(parts, "by "+printable.Line(p.Template, 200))
		}
		return w.word(cyan, "read") + "  " + printable.Line(e.ResourceURI, 0) + "  " + w.paint(grey, strings.Join(parts, ", "))
	case event.PromptContent:
		return w.word(cyan, "got prompt") + "  " + printable.Line(p.Name, 80) + "  " + w.paint(grey, Size(p.Size))
	case event.ToolResult:
		took := "  " + w.paint(grey, time.Duration(p.Duration).Round(time.Millisecond).String())
		if !p.Success {
			return w.word(red, "call failed") + "  " + printable.Line(p.Name, 80) + "  " + printable.Line(p.Error, 500) + took
		}
		return w.word(cyan, "called") + "  " + printable.Line(p.Name, 80) + took
	case event.SubscriptionsChanged:
		s := plural(len(p.URIs), "subscription")
		for i, uri := range p.URIs {
			if i == maxNames && !w.Wide {
				return w.paint(cyan, s) + fmt.Sprintf("  … %d more", len(p.URIs)-i)
			}
			s += "  " + printable.Line(uri, 200)
		}
		return w.paint(cyan, s)
	}
	return ""
}

// maxPlaces is how many changes of a descriptor are shown.
const maxPlaces = 3

// places lists where a changed item differs, if the event says so.
func (w *Writer) places(p event.ListChanged, name, sign string) string {
	i := slices.IndexFunc(p.Details, func(d catalog.ItemChange) bool { return d.Key == name })
	if sign != "~" || i < 0 {
		return ""
	}
	d := p.Details[i]
	var places []string
	for i, c := range d.Changes {
		if i == maxPlaces && !w.Wide {
			break
		}
		op := map[string]string{"added": "+", "removed": "-", "changed": ""}[string(c.Op)]
		places = append(places, op+printable.Line(strings.TrimPrefix(c.Path, "/"), 80))
	}
	if more := len(d.Changes) - len(places) + d.More; more > 0 {
		places = append(places, fmt.Sprintf("… %d more", more))
	}
	return w.paint(grey, " ("+strings.Join(places, ", ")+")")
}
