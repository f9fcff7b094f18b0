package event

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/textdiff"
)

// String returns the event as one printable line for people: its time, server, resource and what
// happened, without contents. Use AppendJSON to store or transmit an event.
func (e Event) String() string {
	parts := []string{e.Timestamp.UTC().Format(TimeFormat)}
	for _, s := range []string{printable.Line(e.ServerID, 128), printable.Line(e.ResourceURI, 500)} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if e.Payload == nil {
		return strings.Join(append(parts, "no payload"), " ")
	}
	text := printable.Line(string(e.Type()), 100)
	if p, ok := e.Payload.(fmt.Stringer); ok {
		text = p.String()
	}
	if e.Cause != "" {
		text += " [" + printable.Line(string(e.Cause), 32) + "]"
	}
	return strings.Join(append(parts, text), " ")
}

// UnifiedDiff returns the unified diff from PreviousText to Text, or Diff if only that is known. It
// is empty if the texts are equal, larger than 1 MiB or unknown. Its lines contain the texts as they
// are: escape them before printing them on a terminal.
func (r ResourceUpdated) UnifiedDiff() string {
	if r.Text != nil && r.PreviousText != nil {
		return textdiff.Unified(cmp.Or(r.Name, "content"), *r.PreviousText, *r.Text)
	}
	if r.Diff != nil {
		return *r.Diff
	}
	return ""
}

// details formats a verb and the non-empty details about it.
func details(verb string, about ...string) string {
	verb = printable.Line(verb, 100)
	var parts []string
	for _, s := range about {
		if s != "" {
			parts = append(parts, printable.Line(s, 500))
		}
	}
	if len(parts) == 0 {
		return verb
	}
	return verb + " (" + strings.Join(parts, ", ") + ")"
}

// count formats a number of things, or nothing for zero.
func count(n int, thing string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// changed describes the value of a field Changed.
func changed(c *bool) string {
	if c != nil && !*c {
		return "unchanged"
	}
	return ""
}

// String returns the state in words, with its reason and error.
func (s ServerState) String() string {
	retry := ""
	if s.RetryIn > 0 {
		retry = "next attempt in " + time.Duration(s.RetryIn).Round(100*time.Millisecond).String()
	}
	return details(s.State.Words(), s.ProtocolVersion, s.Reason, s.Error, retry)
}

// String returns what is followed, as numbers.
func (s SubscriptionActive) String() string {
	return details("following", count(s.Resources, "resource"), count(s.Tools, "tool"), count(s.Prompts, "prompt"), count(s.Skills, "skill"), string(s.Mode))
}

// String describes the update without the content.
func (r ResourceUpdated) String() string {
	size := ""
	if r.Size != nil {
		size = strconv.FormatInt(*r.Size, 10) + " bytes"
	}
	return details("updated", size, changed(r.Changed))
}

// String returns "added".
func (ResourceAdded) String() string { return "added" }

// String returns "removed".
func (ResourceRemoved) String() string { return "removed" }

// String returns "description changed".
func (ResourceChanged) String() string { return "description changed" }

// String describes the change as numbers.
func (l ListChanged) String() string {
	if l.Error != "" {
		return details(string(l.List)+" not listed", l.Error)
	}
	return details(string(l.List)+" changed", prefixed(len(l.Added), " added"), prefixed(len(l.Removed), " removed"), prefixed(len(l.Changed), " changed"))
}

// prefixed returns a word after a number, or nothing for zero.
func prefixed(n int, word string) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n) + word
}

// String returns the name and the number of files.
func (s SkillAdded) String() string {
	return details("skill added", s.Name, count(s.Files, "file"))
}

// String returns the name.
func (s SkillRemoved) String() string { return details("skill removed", s.Name) }

// String returns the name and how many files differ.
func (s SkillChanged) String() string {
	front := ""
	if s.Frontmatter {
		front = "frontmatter"
	}
	files := func(list []SkillFile, verb string) string {
		if len(list) == 0 {
			return ""
		}
		return count(len(list), "file") + " " + verb
	}
	return details("skill changed", s.Name, front, files(s.Added, "added"), files(s.Removed, "removed"), files(s.Changed, "changed"))
}

// String returns the reason.
func (s SkillMismatch) String() string { return details("skill mismatch", s.Reason) }

// String returns the name and ID of the server's event.
func (s ServerEvent) String() string { return details("event", s.Name, s.EventID) }

// String returns the hook and the sender's id of the message.
func (h HookReceived) String() string { return details("hook received", h.HookID, h.DeliveryID) }

// String returns the summary of the change.
func (c CardChanged) String() string { return details("server card", c.Summary()) }

// String returns the item and the names of the classes of the change.
func (d LockDrift) String() string {
	return details("lock "+string(d.Change), d.Item, d.ClassNames(), d.Reason)
}

// ClassNames returns the names of the classes, separated by commas.
func (d LockDrift) ClassNames() string {
	var names []string
	for _, c := range d.Classes {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

// String describes the reload as numbers.
func (c ConfigReloaded) String() string {
	return details("config reloaded", prefixed(len(c.Added), " added"), prefixed(len(c.Removed), " removed"), prefixed(len(c.Changed), " changed"))
}

// String returns the summary of the problems.
func (c ConfigRejected) String() string { return details("config rejected", c.Summary()) }

// String returns the reason for the gap.
func (g Gap) String() string { return details("gap", g.Reason) }

// String describes the content without the content itself.
func (r ResourceContent) String() string {
	return details("read", r.Template, strconv.FormatInt(r.Size, 10)+" bytes", changed(r.Changed))
}

// String describes the prompt without its content.
func (p PromptContent) String() string {
	return details("prompt", p.Name, strconv.FormatInt(p.Size, 10)+" bytes")
}

// String describes the call without its result.
func (r ToolResult) String() string {
	outcome := "success"
	if !r.Success {
		outcome = cmp.Or(r.Error, "failed")
	}
	return details("tool", r.Name, outcome)
}

// String returns the number of subscribed resources.
func (s SubscriptionsChanged) String() string {
	return details("subscriptions changed", cmp.Or(count(len(s.URIs), "resource"), "none"))
}
