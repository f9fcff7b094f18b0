package event

import (
	"encoding/json"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/mcptrack/mcptrack/core/printable"
)

// maxPrinted is the maximum length of a name or value in [Event.String], in runes.
const maxPrinted = 200

// String returns the event as one line for people, which is safe to print: the time, the server, the
// type, the resource, and the members of the payload as NAME=VALUE. Digests, contents and the
// details of changes are left out. Its form may change; programs read the fields or the JSON.
func (e Event) String() string {
	words := []string{e.Timestamp.UTC().Format(TimeFormat)}
	for _, word := range []string{e.ServerID, string(e.Type()), e.ResourceURI} {
		if word != "" {
			words = append(words, printable.Line(word, maxPrinted))
		}
	}
	if e.Cause != "" {
		words = append(words, "cause="+string(e.Cause))
	}
	d, ok := Define(e.Type())
	if !ok {
		return strings.Join(words, " ")
	}
	encoded, _ := e.MarshalJSON() // without it there are no members
	var members map[string]json.RawMessage
	_ = json.Unmarshal(encoded, &members)
	for _, m := range d.Members() {
		value, ok := members[m.Name]
		switch m.Name {
		case "digest", "previousDigest", "content", "diff", "details":
			continue
		}
		text := string(value)
		if !ok || text == "[]" {
			continue
		}
		if s := ""; json.Unmarshal(value, &s) == nil && s != "" && !strings.ContainsAny(s, " \"=") {
			text = s
		}
		words = append(words, m.Name+"="+printable.Line(text, maxPrinted))
	}
	return strings.Join(words, " ")
}

// maxDiffed is the maximum size, in bytes, of either text of a diff: a larger diff would be expensive
// and useless to a reader.
const maxDiffed = 1 << 20

// UnifiedDiff returns the difference between the previous and the new content of a resource, in the
// unified format with three lines of context. It is empty if the event is no update, if the contents
// are equal, or if one of them is not text, is too large or is not known: a tracker keeps texts only
// with tracker.Options.Texts. The text is the server's: escape it before it reaches a terminal.
func (e Event) UnifiedDiff() string {
	u, ok := e.Payload.(ResourceUpdated)
	if !ok || u.Text == nil || u.PreviousText == nil || len(*u.Text) > maxDiffed || len(*u.PreviousText) > maxDiffed {
		return ""
	}
	label := printable.Line(e.ResourceURI, maxPrinted)
	return udiff.Unified(label, label, *u.PreviousText, *u.Text)
}
