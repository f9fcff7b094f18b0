package commands

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/suggest"
)

// usage is the failure of a command line that is wrong.
func usage(format string, args ...any) error { return usageHint("", format, args...) }

func usageHint(hint, format string, args ...any) error {
	return &failure{exit: exitUsage, code: "usage", err: fmt.Errorf(format, args...), hint: hint}
}

// didYouMean returns the hint which candidate was probably meant by name, or the fallback. If
// only one candidate begins with name, it is suggested, too.
func didYouMean(name string, candidates []string, fallback string) string {
	candidates = slices.DeleteFunc(slices.Clone(candidates), func(c string) bool { return c == name })
	meant := suggest.Nearest(name, candidates)
	if meant == "" && len(name) > 2 {
		longer := slices.DeleteFunc(candidates, func(c string) bool { return !strings.HasPrefix(c, name) })
		if len(longer) == 1 {
			meant = longer[0]
		}
	}
	if meant == "" {
		return fallback
	}
	return fmt.Sprintf("did you mean %s?", printable.Line(meant, 200))
}

// arguments is a command that takes between least and most arguments; most < 0 is any
// number.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		n := len(args)
		if i := slices.Index(args, ""); i >= 0 { // most likely from an unset shell variable
			return usageHint("usage: "+cmd.UseLine(), "argument %d of %s is empty", i+1, cmd.CommandPath())
		}
		if n >= least && (n <= most || most < 0) {
			return nil
		}
		hint := "usage: " + cmd.UseLine()
		switch {
		case most == 0:
			return usageHint(hint, "%s takes no arguments, got %q", cmd.CommandPath(), printable.Line(args[0], 100))
		case least == most:
			return usageHint(hint, "%s takes %s, got %d", cmd.CommandPath(), plural(least, "argument"), n)
		case n < least:
			return usageHint(hint, "%s takes at least %s, got %d", cmd.CommandPath(), plural(least, "argument"), n)
		}
		return usageHint(hint, "%s takes at most %s, got %d", cmd.CommandPath(), plural(most, "argument"), n)
	}
}

// subcommand is for a command that only has others below it: an argument is the name
// of one that does not exist.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden && (c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand()) {
			names = append(append(names, c.Name()), c.Aliases...)
		}
	}
	return usageHint(didYouMean(args[0], names, "see "+cmd.CommandPath()+" --help"),
		"unknown command %q", printable.Line(args[0], 100))
}

// flagError words what is wrong with a flag: pflag's own errors quote those of the Go
// library.
func flagError(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 { // cobra parsed it as a flag of the parent command
		return subcommand(cmd, cmd.Flags().Args())
	}
	see := "see " + cmd.CommandPath() + " --help"
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := e.GetSpecifiedName()
		if group := e.GetSpecifiedShortnames(); group != "" {
			return usageHint(see, "unknown flag -%s", printable.Line(string([]rune(name)[:1]), 0))
		}
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, "--"+f.Name)
			}
		})
		return usageHint(didYouMean("--"+name, names, flagElsewhere(cmd, name, see)), "unknown flag --%s", printable.Line(name, 100))
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		f := e.GetFlag()
		value, _ := pflag.UnquoteUsage(f)
		return usageHint(see, "--%s needs a value: --%s %s", f.Name, f.Name, value)
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := e.GetFlag()
		return usageHint(see, "invalid value %q for --%s; expected %s", printable.Line(e.GetValue(), 60), f.Name, expected(f))
	}
	if e, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		return usageHint(see, "invalid flag %q", printable.Line(e.GetSpecifiedFlag(), 100))
	}
	return usageHint(see, "%w", err)
}

// flagElsewhere is the hint which other commands have the flag, or the fallback.
func flagElsewhere(cmd *cobra.Command, name, fallback string) string {
	var have []string
	for _, c := range cmd.Root().Commands() {
		if c != cmd && c.IsAvailableCommand() && c.LocalNonPersistentFlags().Lookup(name) != nil {
			have = append(have, c.Name())
		}
	}
	if len(have) == 0 {
		return fallback
	}
	return fmt.Sprintf("--%s is a flag of %s", name, join(have, 10))
}

// expected says which values a flag takes.
func expected(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int":
		return "a whole number"
	case "uint64":
		return "a whole number, not negative"
	case "bool":
		return "true or false"
	case "duration":
		return "a duration such as 500ms, 30s or 1h30m"
	case "stringToString":
		return "NAME=VALUE, several separated by commas"
	case "stringSlice":
		return "values separated by commas, with balanced quotes"
	}
	return "a " + f.Value.Type()
}
