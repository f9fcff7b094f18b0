package commands

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A flag has the same short form and the same help in every command that has it, unless it differs for
// the reason that is listed here.
func TestFlagsAreTheSameEverywhere(t *testing.T) {
	reasons := map[string]string{
		"all":          "of login and logout: all servers, to log in to or out of; of gateway: to serve",
		"allow-origin": "what pages may do differs",
		"arg":          "of a tool or of a prompt",
		"content":      "of inject: in messages, and up to a limit",
		"count":        "of inject: messages, not changes",
		"data-dir":     "of gateway: for its own events",
		"diff":         "of history: in place of the versions",
		"dry-run":      "says what is not done",
		"fail-on":      "of audit: severities or rules; of verify: classes of changes",
		"follow":       "of serve-sse: only others store; of calls: print what comes",
		"insecure":     "of inject: also an endpoint",
		"list":         "of trust: approvals; of login: logins",
		"out":          "of login: ends one; of commands that print a content: a file",
		"output":       "of commands that print findings: formats for CI",
		"nats":         "of gateway: for its own events",
		"since":        "of calls: calls, not events",
		"timeout":      "the default differs",
		"token-file":   "of a serve-sse that is read, or of clients of a command that listens",
		"verbose":      "of commands that print no events: whether the daemon is used, or where versions come from",
		"url":          "of inject: of an endpoint",
	}
	type form struct{ short, usage, kind string }
	forms := map[string]map[form][]string{}
	shorts := map[string]string{}
	commandLines(t, func(path []string, cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			if forms[f.Name] == nil {
				forms[f.Name] = map[form][]string{}
			}
			is := form{f.Shorthand, f.Usage, f.Value.Type()}
			forms[f.Name][is] = append(forms[f.Name][is], cmd.CommandPath())
			if f.Shorthand == "" {
				return
			}
			if other, taken := shorts[f.Shorthand]; taken && other != f.Name {
				t.Errorf("-%s is --%s and --%s", f.Shorthand, other, f.Name)
			}
			shorts[f.Shorthand] = f.Name
		})
	})
	for name, different := range forms {
		_, listed := reasons[name]
		if len(different) > 1 != listed {
			t.Errorf("--%s: %d forms, listed: %t: %v", name, len(different), listed, different)
		}
		var short []string
		for is := range different {
			short = append(short, is.short)
		}
		if slices.Sort(short); len(slices.Compact(short)) > 1 && name != "follow" { // -f is what users of tail and journalctl type
			t.Errorf("--%s has a short form in some commands only: %v", name, different)
		}
	}
	for short, name := range map[string]string{"n": "count", "s": "since", "t": "type"} {
		if shorts[short] != name {
			t.Errorf("-%s is --%s, not --%s", short, shorts[short], name)
		}
	}
}
