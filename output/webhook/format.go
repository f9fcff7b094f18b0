package webhook

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/printable"
)

// format encodes messages for webhooks in the config.
type format struct {
	contentType string
	ordered     bool // delivers one event at a time, to keep the order and respect Slack's rate limit
	event       func(o *mcpevents.Occurrence, cursor string) ([]byte, error)
	gap         func(id, cursor string) ([]byte, error)
}

// formatOf returns the format with the given name, or Standard Webhooks if the name is unknown. For
// dashboard see [HookOptions.Dashboard].
func formatOf(name config.WebhookFormat, dashboard string) format {
	switch name {
	case config.WebhookCloudEvents:
		return format{"application/cloudevents+json", false, cloudMessage, cloudGap}
	case config.WebhookSlack:
		return format{"application/json", true, func(o *mcpevents.Occurrence, _ string) ([]byte, error) {
			text, link := slackText(o, dashboard)
			return slackMessage(text, link)
		}, func(string, string) ([]byte, error) {
			return slackMessage("Some changes are missing here: they could not be delivered in time, or are no longer stored.", "")
		}}
	}
	return format{"application/json", false, func(o *mcpevents.Occurrence, cursor string) ([]byte, error) { return o.Body(cursor), nil }, func(_, cursor string) ([]byte, error) {
		return json.Marshal(map[string]string{"type": "gap", "cursor": cursor})
	}}
}

// cloudEvent is a CloudEvent 1.0 in structured JSON, as CloudEvents' JSON format defines it. Its cursor is an extension attribute.
type cloudEvent struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject,omitempty"`
	DataContentType string          `json:"datacontenttype"`
	Time            time.Time       `json:"time,omitzero"`
	Data            json.RawMessage `json:"data"`
	Cursor          string          `json:"cursor"`
}

// cloudMessage encodes an event as a CloudEvent. Its ID and data are the same in every delivery.
func cloudMessage(o *mcpevents.Occurrence, cursor string) ([]byte, error) {
	return printable.Marshal(cloudEvent{"1.0", o.ID, "mcptrack://server/" + url.PathEscape(o.Server), "mcptrack." + o.Name,
		cmp.Or(o.Exported(), o.ListOrState()), "application/json", o.Time.UTC().Truncate(time.Millisecond), o.Data(), cursor})
}

func cloudGap(id, cursor string) ([]byte, error) {
	return printable.Marshal(cloudEvent{SpecVersion: "1.0", ID: id, Source: "mcptrack://log", Type: "mcptrack.gap",
		DataContentType: "application/json", Data: json.RawMessage("{}"), Cursor: cursor})
}

const (
	maxSlackName  = 200  // maximum length of a name, in characters
	maxSlackNames = 5    // maximum names per kind of item
	maxSlack      = 3000 // maximum characters of the text before escaping
)

// slackText describes an event as plain, unescaped text. link is the URL of its page in the dashboard; it
// is empty if there is none.
func slackText(o *mcpevents.Occurrence, dashboard string) (text, link string) {
	var d struct {
		List, State, Previous, Reason string
		Added, Removed, Changed       []string
		Section, Name                 string
		Classes                       []string
		More                          map[string]int
	}
	_ = json.Unmarshal(o.Data(), &d) // cannot fail: mcptrack encoded the data
	server := printable.Line(o.Server, maxSlackName)
	switch o.Name {
	case mcpevents.ResourceUpdated:
		return server + ": " + printable.Line(o.Exported(), maxSlackName) + " changed", ""
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
		return server + ": " + printable.Line(d.List, maxSlackName) + " " + strings.Join(parts, "; "), ""
	}
	if o.Name == mcpevents.LockDrift {
		item := cmp.Or(printable.Line(lockItem(d.Section, d.Name), maxSlackName), "the server")
		switch event.DriftState(d.State) {
		case event.DriftApproved:
			return server + ": " + item + " is approved now", ""
		case event.DriftResolved:
			return server + ": " + item + " no longer differs from the lock", ""
		}
		if d.Reason != "" {
			return server + ": " + printable.Line(d.Reason, maxSlack), ""
		}
		text = server + ": " + item + " changed: " + printable.Line(strings.Join(d.Classes, ", "), maxSlackName) + "; "
		if link = reviewLink(dashboard, o.Server, d.Section, d.Name); link != "" {
			return text + "review it:", link
		}
		return text + "run mcptrack review " + printable.Line(printable.Shell(o.Server), maxSlackName), ""
	}
	text = server + " is " + printable.Line(event.State(d.State).Words(), maxSlackName)
	if d.Reason != "" {
		text += ": " + printable.Line(d.Reason, maxSlackName)
	}
	return text, ""
}

// maxLink limits the length of a link, in bytes.
const maxLink = 2000

// reviewLink returns the URL at which the dashboard shows a change; an empty string without a dashboard.
// It leads to all changes of the server if the name of the item is too long, and so may be cut off.
func reviewLink(dashboard, server, section, name string) string {
	if dashboard == "" {
		return ""
	}
	page := url.Values{"review": {"1"}}
	link := func(member, value string) string {
		page.Set(member, value)
		return dashboard + "/?" + page.Encode()
	}
	of := link("server", server)
	if len(of) > maxLink {
		return dashboard + "/?review=1"
	}
	if all := link("item", lockItem(section, name)); utf8.RuneCountInString(name) < maxSlackName && len(all) <= maxLink {
		return all
	}
	return of
}

// lockItem returns the name of an item of a lock, such as "tool/search".
func lockItem(section, name string) string {
	if name == "" {
		return section
	}
	return strings.TrimSuffix(section, "s") + "/" + name
}

// slackMessage returns a plain-text Slack message, with a link at its end if link is not empty. Only &, < and > are special to Slack (for links
// and mentions such as <!channel>); they are escaped as its documentation requires. Markup and link
// previews are disabled.
func slackMessage(text, link string) ([]byte, error) {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	text = escape.Replace(printable.Line(text, maxSlack))
	if link != "" {
		text += " <" + escape.Replace(link) + ">" // the query has no "|", which would begin a text
	}
	return printable.Marshal(map[string]any{
		"text": text, "mrkdwn": false, "parse": "none", "link_names": false, "unfurl_links": false, "unfurl_media": false,
	})
}
