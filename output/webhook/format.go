package webhook

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/printable"
)

// format encodes messages for webhooks of a config.
type format struct {
	contentType string
	ordered     bool // one delivery at a time: keeps the order, and the rate limit of Slack
	event       func(o *mcpevents.Occurrence, cursor string) ([]byte, error)
	gap         func(id, cursor string) ([]byte, error)
}

// formatOf returns a format, Standard Webhooks if the name is unknown.
func formatOf(name config.WebhookFormat) format {
	switch name {
	case config.WebhookCloudEvents:
		return format{"application/cloudevents+json", false, cloudMessage, cloudGap}
	case config.WebhookSlack:
		return format{"application/json", true, func(o *mcpevents.Occurrence, _ string) ([]byte, error) { return slackMessage(slackText(o)) }, func(string, string) ([]byte, error) {
			return slackMessage("Some changes are missing here: they could not be delivered in time, or are no longer stored.")
		}}
	}
	return format{"application/json", false, func(o *mcpevents.Occurrence, cursor string) ([]byte, error) { return o.Body(cursor), nil }, func(_, cursor string) ([]byte, error) {
		return json.Marshal(map[string]string{"type": "gap", "cursor": cursor})
	}}
}

// newCloudEvent returns a CloudEvent 1.0, with the cursor as an extension.
func newCloudEvent(id, source, name, cursor string, data json.RawMessage) cloudevents.Event {
	e := cloudevents.New()
	e.SetID(id)
	e.SetSource(source)
	e.SetType("mcptrack." + name)
	e.SetExtension("cursor", cursor)
	e.SetDataContentType(cloudevents.ApplicationJSON)
	e.DataEncoded = data // SetData would escape it for HTML
	return e
}

// cloudMessage returns an event as a CloudEvent. It has the same ID and data in every delivery.
func cloudMessage(o *mcpevents.Occurrence, cursor string) ([]byte, error) {
	e := newCloudEvent(o.ID, "mcptrack://server/"+url.PathEscape(o.Server), o.Name, cursor, o.Data())
	e.SetSubject(cmp.Or(o.Exported(), o.ListOrState()))
	e.SetTime(o.Time.UTC().Truncate(time.Millisecond))
	return printable.Marshal(e)
}

func cloudGap(id, cursor string) ([]byte, error) {
	return printable.Marshal(newCloudEvent(id, "mcptrack://log", "gap", cursor, json.RawMessage("{}")))
}

const (
	maxSlackName  = 200  // characters
	maxSlackNames = 5    // of each kind
	maxSlack      = 3000 // characters of a text before escaping
)

// slackText describes an event as plain text, unescaped.
func slackText(o *mcpevents.Occurrence) string {
	var d struct {
		List, State, Previous, Reason string
		Added, Removed, Changed       []string
		More                          map[string]int
	}
	_ = json.Unmarshal(o.Data(), &d) // we encoded it
	server := printable.Line(o.Server, maxSlackName)
	switch o.Name {
	case mcpevents.ResourceUpdated:
		return server + ": " + printable.Line(o.Exported(), maxSlackName) + " changed"
	case mcpevents.ListChanged:
		var parts []string
		for _, p := range []struct {
			verb  string
			names []string
		}{{"added", d.Added}, {"removed", d.Removed}, {"changed", d.Changed}} {
			if n := len(p.names) + d.More[p.verb]; n > 0 {
				var names []string
				for _, name := range p.names[:min(len(p.names), maxSlackNames)] {
					names = append(names, printable.Line(name, maxSlackName))
				}
				if more := n - len(names); more > 0 {
					names = append(names, fmt.Sprintf("%d more", more))
				}
				parts = append(parts, p.verb+" "+strings.Join(names, ", "))
			}
		}
		return server + ": " + printable.Line(d.List, maxSlackName) + " " + strings.Join(parts, "; ")
	}
	text := server + " is " + printable.Line(d.State, maxSlackName)
	if d.Reason != "" {
		text += ": " + printable.Line(d.Reason, maxSlackName)
	}
	return text
}

// slackMessage returns a plain text message. Only &, < and > are special to Slack (mentions such as
// <!channel>, and links); they are escaped as its documentation requires. Styles and link previews
// are switched off.
func slackMessage(text string) ([]byte, error) {
	text = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(printable.Line(text, maxSlack))
	return printable.Marshal(map[string]any{
		"text": text, "mrkdwn": false, "parse": "none", "link_names": false, "unfurl_links": false, "unfurl_media": false,
	})
}
