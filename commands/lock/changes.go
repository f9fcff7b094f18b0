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

// change is a difference between the lock and what a server offers.
type change struct{ lock.Change }

// changesOf returns the changes of one server.
func changesOf(server string, drifts []lock.Drift) []change {
	all := []change{}
	for _, d := range drifts {
		all = append(all, change{lock.NewChange(server, d)})
	}
	return all
}

// notLocked says what differs of a server that is not in the lock.
const notLocked = "the server is not in the lock"

// what says on one line what has changed.
func (c change) what() string {
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

// approval returns the command line that approves the change.
func (c change) approval() string { return "mcptrack approve " + printable.Shell(c.name()) }

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

// advice returns the hint about changes that are not approved: what helps with the first that can be
// taken over.
func advice(changes []change, takeOver string) string {
	hint := beyondApproval
	for _, c := range changes {
		switch {
		case c.Problem != "":
		case c.Rejected:
			hint = "mcptrack review shows them; mcptrack approve SERVER:ITEM approves what was rejected"
		default:
			return takeOver
		}
	}
	return hint
}

// beyondApproval is the hint if no change can be approved.
const beyondApproval = "what cannot be approved is not served by gateways until the server is repaired; report it to its author"

// unapprovable says which changes cannot be approved, and why; empty if all can.
func unapprovable(changes []change) string {
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
