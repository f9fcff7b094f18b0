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

// changesOf returns the changes of one server.
func changesOf(server string, drifts []lock.Drift) []lock.Change {
	all := []lock.Change{}
	for _, d := range drifts {
		all = append(all, lock.NewChange(server, d))
	}
	return all
}

// without returns the changes of all that are not among some.
func without(all, some []lock.Change) []lock.Change {
	return slices.DeleteFunc(slices.Clone(all), func(c lock.Change) bool {
		return slices.ContainsFunc(some, func(s lock.Change) bool { return name(s) == name(c) && s.Was == c.Was && s.Now == c.Now })
	})
}

// notLocked says what differs of a server that is not in the lock.
const notLocked = "the server is not in the lock"

// what says on one line what has changed.
func what(c lock.Change) string {
	if c.Item == "" {
		return notLocked
	}
	parts := []string{c.Kind()}
	if len(c.Reasons) > 0 {
		text := c.Reasons[0].Kind + ": " + c.Reasons[0].Excerpt
		if n := len(c.Reasons) - 1; n > 0 {
			text += fmt.Sprintf(" (and %d more)", n)
		}
		parts = append(parts, text)
	}
	return strings.Join(append(parts, c.Notes()...), "; ")
}

// name returns the argument of review --approve that selects the change.
func name(c lock.Change) string {
	if c.Item == "" {
		return c.ServerID
	}
	return c.ServerID + ":" + c.Item
}

func names(changes []lock.Change) (all []string) {
	for _, c := range changes {
		all = append(all, name(c))
	}
	return all
}

// approval returns the command line that approves the change.
func approval(c lock.Change) string { return "mcptrack review --approve " + printable.Shell(name(c)) }

// counted returns how many changes have which class, such as "2 wording, 1 added", the most frequent
// first. A change counts once for each of its classes.
func counted(changes []lock.Change) string {
	counts := map[string]int{}
	for _, c := range changes {
		for _, class := range c.Classes {
			counts[class]++
		}
	}
	classes := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	for i, class := range classes {
		classes[i] = fmt.Sprintf("%d %s", counts[class], class)
	}
	return strings.Join(classes, ", ")
}

// advice returns the hint about changes that are not approved. It does not propose to take over a text that
// is suspicious.
func advice(changes []lock.Change) string {
	var added, rejected, others bool
	for _, c := range changes {
		switch {
		case c.Problem != "":
		case c.Item == "":
			added = true
		case c.Rejected:
			rejected = true
		case suspicious(c):
			return "mcptrack review shows them and asks about each"
		default:
			others = true
		}
	}
	switch {
	case others:
		return "mcptrack review shows them; mcptrack lock --update approves them"
	case rejected:
		return "mcptrack review shows them; mcptrack review --approve SERVER:ITEM approves what was rejected"
	case added:
		return "mcptrack lock adds them"
	}
	return "gateways do not serve what cannot be approved; report it to the author of the server"
}

func suspicious(c lock.Change) bool { return slices.Contains(c.Classes, "suspicious") }

// unapprovable says which changes cannot be approved, and why; empty if all can.
func unapprovable(changes []lock.Change) string {
	var why []string
	for _, c := range changes {
		if c.Problem != "" {
			why = append(why, c.Item+": "+c.Problem)
		}
	}
	if len(why) == 0 {
		return ""
	}
	return "cannot be approved: " + printable.Line(cli.Join(why, 3), 500)
}

// finish returns the failure of a command that found changes or could not reach servers; nil if neither
// happened. missed has a server and the reason in each element.
func finish(changes []lock.Change, hint string, missed []string, servers int) error {
	unreachable := cli.NotReached(missed, servers, false)
	if len(changes) == 0 {
		return unreachable
	}
	var ids []string
	for _, c := range changes {
		if id := printable.Line(c.ServerID, 64); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	text := fmt.Sprintf("%s of %s not approved: %s", cli.Plural(len(changes), "change"), cli.Join(ids, 5), counted(changes))
	if unreachable != nil {
		text += "; " + unreachable.Error()
	}
	return &cli.Failure{Exit: cli.ExitFound, Code: "changes", Hint: hint, Err: errors.New(text)}
}
