package webhook

import (
	"cmp"
	"encoding/json"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/printable"
)

// format encodes messages. Subscriptions use Standard Webhooks.
type format struct {
	name        config.WebhookFormat
	contentType string
	ordered     bool // delivers one event at a time, to keep the order and respect Slack's rate limit
	event       func(o *mcpevents.Occurrence, cursor string) ([]byte, error)
	gap         func(id, cursor string) ([]byte, error)
}

// formatOf returns the format with the given name, or Standard Webhooks if the name is unknown. For
// dashboard see [WebhookOptions.Dashboard].
func formatOf(name config.WebhookFormat, dashboard string) format {
	switch name {
	case config.WebhookCloudEvents:
		return format{config.WebhookCloudEvents, "application/cloudevents+json", false, cloudMessage, cloudGap}
	case config.WebhookSlack:
		return format{config.WebhookSlack, "application/json", true, func(o *mcpevents.Occurrence, _ string) ([]byte, error) {
			text, link := slackText(o, dashboard)
			return slackMessage(text, link)
		}, func(string, string) ([]byte, error) {
			return slackMessage("Some changes are missing here: they could not be delivered in time, or are no longer stored.", "")
		}}
	}
	return format{config.WebhookStandard, "application/json", false, func(o *mcpevents.Occurrence, cursor string) ([]byte, error) { return o.Body(cursor), nil }, func(_, cursor string) ([]byte, error) {
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
	return printable.Marshal(cloudEvent{"1.0", o.ID, "mcptrack://server/" + url.PathEscape(o.Server), "mcptrack." + string(o.Type()),
		cmp.Or(o.Exported(), o.ListOrState()), "application/json", o.Time.UTC().Truncate(time.Millisecond), o.Data(), cursor})
}

func cloudGap(id, cursor string) ([]byte, error) {
	return printable.Marshal(cloudEvent{SpecVersion: "1.0", ID: id, Source: "mcptrack://log", Type: "mcptrack.gap",
		DataContentType: "application/json", Data: json.RawMessage("{}"), Cursor: cursor})
}

const (
	maxSlackName = 200  // maximum length of a server's or item's name, in characters
	maxSlack     = 1000 // maximum characters of what happened, before escaping
)

// slackText describes an event as plain, unescaped text. link is the URL of its page in the dashboard; it
// is empty if there is none.
func slackText(o *mcpevents.Occurrence, dashboard string) (text, link string) {
	var data struct {
		List, State, Reason     string
		Added, Removed, Changed []string
		Section, Name           string
		Classes                 []string
		More                    map[catalog.Op]int
	}
	_ = json.Unmarshal(o.Data(), &data) // cannot fail: mcptrack encoded the data
	e := event.Event{ServerID: o.Server, ResourceURI: o.Exported(), Cause: event.CauseNotify}
	switch o.Name {
	case mcpevents.ResourceUpdated:
		e.Payload = event.ResourceUpdated{}
	case mcpevents.ListChanged:
		all := func(names []string, op catalog.Op) []string { return append(names, make([]string, data.More[op])...) } // those left out are only counted
		e.Payload = event.ListChanged{List: catalog.Kind(data.List), Added: all(data.Added, catalog.Added), Removed: all(data.Removed, catalog.Removed), Changed: all(data.Changed, catalog.Changed)}
	case mcpevents.LockDrift:
		drift := event.LockDrift{Change: event.DriftState(data.State), Item: lockItem(data.Section, data.Name), Reason: data.Reason}
		for _, class := range data.Classes {
			drift.Classes = append(drift.Classes, event.DriftClass{Name: class})
		}
		e.Payload = drift
	case mcpevents.ServerState:
		e.Payload = event.ServerState{State: event.State(data.State), Reason: data.Reason}
	}
	d := e.Describe().Few()
	text = printable.Line(o.Server, maxSlackName) + ": " + printable.Line(d.String(), maxSlack)
	if d.Hint == "" {
		return text, ""
	}
	if data.Reason == "" {
		link = reviewLink(dashboard, o.Server, data.Section, data.Name)
	}
	if link != "" {
		return text + "; review it:", link
	}
	return text + "; " + d.Hint, ""
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
	text = escape.Replace(printable.Line(text, 2*maxSlack))
	if link != "" {
		text += " <" + escape.Replace(link) + ">" // the query has no "|", which would begin a text
	}
	return printable.Marshal(map[string]any{
		"text": text, "mrkdwn": false, "parse": "none", "link_names": false, "unfurl_links": false, "unfurl_media": false,
	})
}
