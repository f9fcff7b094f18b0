package lock

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/printable"
)

// change is a difference between the lock and what a server offers, as JSON.
type change struct {
	ServerID string        `json:"serverId"`
	Item     string        `json:"item"`  // such as tool/draw; empty for the server itself
	Class    string        `json:"class"` // the most severe one
	ID       string        `json:"id"`    // of Class
	Severity lock.Severity `json:"severity"`
	Classes  []string      `json:"classes"`            // names, the most severe first
	Was      string        `json:"was,omitempty"`      // hash of the approved definition
	Now      string        `json:"now,omitempty"`      // hash of the offered definition
	Variants []string      `json:"variants,omitempty"` // in which it was observed, if there are several
	Reasons  []reason      `json:"reasons,omitempty"`
	Problem  string        `json:"problem,omitempty"` // why the definition cannot be approved
	Rejected bool          `json:"rejected,omitempty"`

	drift lock.Drift // the zero Drift for a server that is not in the lock
}

type reason struct {
	Kind    string `json:"kind"`
	Text    string `json:"text"`
	Pointer string `json:"pointer"`
}

// newChange returns the change of one item.
func newChange(server string, d lock.Drift) change {
	classes := bySeverity(d.Classes)
	c := change{ServerID: server, Item: d.Name(), Class: classes[0].Name, ID: classes[0].ID, Severity: classes[0].Severity,
		Problem: d.New.Problem, Rejected: d.Rejected, drift: d}
	for _, class := range classes {
		c.Classes = append(c.Classes, class.Name)
	}
	if d.Old.Hash != "" {
		c.Was = "sha256:" + d.Old.Hash
	}
	if d.New.Hash != "" {
		c.Now = "sha256:" + d.New.Hash
	}
	if len(d.Variants) > 1 || len(d.Kept) > 0 {
		c.Variants = d.Variants
	}
	if slices.Contains(c.Classes, "suspicious") {
		for _, r := range lock.Reasons(d.Old.Definition, d.New.Definition) {
			c.Reasons = append(c.Reasons, reason{r.Kind, r.Excerpt, r.Pointer})
		}
		c.Reasons = slices.Compact(c.Reasons) // several words of one sentence
	}
	return c
}

// notLocked returns the change of a server that the lock does not contain.
func notLocked(server string) change {
	c, _ := lock.FindClass("added")
	return change{ServerID: server, Class: c.Name, ID: c.ID, Severity: c.Severity, Classes: []string{c.Name}}
}

// changesOf returns the changes of one server.
func changesOf(server string, drifts []lock.Drift) []change {
	all := []change{}
	for _, d := range drifts {
		all = append(all, newChange(server, d))
	}
	return all
}

// bySeverity returns classes, the most severe first.
func bySeverity(ids []string) []lock.Class {
	var classes []lock.Class
	for _, id := range ids {
		c, _ := lock.FindClass(id)
		classes = append(classes, c)
	}
	slices.SortStableFunc(classes, func(a, b lock.Class) int { return rank(a.Severity) - rank(b.Severity) })
	return classes
}

// kind says in a word what happened to the item.
func (c change) kind() string {
	switch {
	case c.Item == "" || c.drift.Added():
		return "new"
	case c.drift.Removed():
		return "removed"
	}
	return "changed"
}

// notes says in a clause each what else matters about the change.
func (c change) notes() (notes []string) {
	if c.Problem != "" {
		notes = append(notes, "cannot be approved: "+c.Problem)
	}
	if len(c.Variants) > 0 {
		notes = append(notes, "for clients that are "+strings.Join(c.Variants, ", "))
	}
	if c.Rejected {
		notes = append(notes, "rejected")
	}
	return notes
}

// what says on one line what has changed.
func (c change) what() string {
	if c.Item == "" {
		return "the lock does not have this server"
	}
	parts := []string{c.kind()}
	if len(c.Reasons) > 0 {
		text := c.Reasons[0].Kind + ": " + c.Reasons[0].Text
		if n := len(c.Reasons) - 1; n > 0 {
			text += fmt.Sprintf(" (and %d more)", n)
		}
		parts = append(parts, text)
	}
	return strings.Join(append(parts, c.notes()...), "; ")
}

// row returns the row of a table: server, item, severity, class, change.
func (c change) row() []string {
	return []string{c.ServerID, c.Item, string(c.Severity), strings.Join(c.Classes, ", "), c.what()}
}

// name returns the argument of approve that selects the change.
func (c change) name() string {
	if c.Item == "" {
		return c.ServerID
	}
	return c.ServerID + ":" + c.Item
}

// rows returns the rows of a table.
func rows(changes []change) [][]string {
	var all [][]string
	for _, c := range changes {
		all = append(all, c.row())
	}
	return all
}

func head() []string { return []string{"Server", "Item", "Severity", "Class", "Change"} }

// counted returns how many changes have which class, such as "2 wording, 1 added", the most frequent
// first. A change counts once for each of its classes.
func counted(changes []change) string {
	counts := map[string]int{}
	for _, c := range changes {
		for _, name := range c.Classes {
			counts[name]++
		}
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", counts[name], name)
	}
	return strings.Join(names, ", ")
}

// finish returns the failure of a command that found changes or could not reach servers; nil if neither
// happened. missed has a server and the reason in each element.
func finish(changes []change, hint string, missed []string, servers int) error {
	unreachable := cli.NotReached(missed, servers, false)
	if len(changes) == 0 {
		return unreachable
	}
	var names []string
	for _, c := range changes {
		if id := printable.Line(c.ServerID, 64); !slices.Contains(names, id) {
			names = append(names, id)
		}
	}
	text := fmt.Sprintf("%s of %s not approved: %s", cli.Plural(len(changes), "change"), cli.Join(names, 5), counted(changes))
	if unreachable != nil {
		text += "; " + unreachable.Error()
	}
	return &cli.Failure{Exit: cli.ExitFound, Code: "changes", Hint: hint, Err: errors.New(text)}
}
