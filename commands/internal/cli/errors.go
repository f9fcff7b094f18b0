package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/suggest"
	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/termtext"
)

// Exit codes; the help topic exit-codes explains them to users.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitConfig      = 3
	ExitUnreachable = 4
	ExitRefused     = 5
	ExitTimeout     = 6
	ExitFound       = 7
	exitInterrupted = 130
)

// Failure is an error with an exit code and a machine-readable code.
type Failure struct {
	Exit int
	Code string
	Err  error
	Hint string
	// Places is a list, such as what is not approved, that is printed one per line after the
	// message. Searched lists locations that are reported only as JSON.
	Places, Searched []string
	// Reported means that the command's output already shows the error.
	Reported bool
}

func (f *Failure) Error() string { return f.Err.Error() }

func (f *Failure) Unwrap() error { return f.Err }

// ErrTimeout is the cause of a context that was cancelled by --timeout.
var ErrTimeout = errors.New("--timeout expired")

// errReturned is the cause of a context that was cancelled because its command returned.
var errReturned = errors.New("the command returned")

// Unreachable returns the failure of a command that could not reach a server.
func Unreachable(hint, format string, args ...any) *Failure {
	return &Failure{Exit: ExitUnreachable, Code: "unreachable", Err: fmt.Errorf(format, args...), Hint: hint}
}

// NotReached returns the failure of a command that asked several servers, or nil if none failed. failed
// has a server and the reason in each element. reported means that the printed table already shows the
// failure.
func NotReached(failed []string, servers int, reported bool) error {
	if len(failed) == 0 {
		return nil
	}
	return &Failure{Exit: ExitUnreachable, Code: "unreachable", Reported: reported,
		Err: fmt.Errorf("%d of %d servers could not be reached: %s", len(failed), servers, strings.Join(failed, "; "))}
}

const moreTime = "allow more time with --timeout"

// TimeoutBefore returns the failure of a command whose --timeout expired before what happened.
func TimeoutBefore(what string) *Failure {
	return &Failure{Exit: ExitTimeout, Code: "timeout", Err: errors.New("--timeout expired before " + what), Hint: moreTime}
}

// Classify converts an error into a failure. ctx is the command's context.
func Classify(ctx context.Context, err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	if unknown, ok := errors.AsType[*document.UnknownFieldError](err); ok {
		return &Failure{Exit: ExitUsage, Code: "usage", Err: err, Hint: DidYouMean(unknown.Field, unknown.Known, "the fields are "+Join(unknown.Known, 40))}
	}
	if errors.Is(err, syscall.EPIPE) {
		return &Failure{Exit: ExitOK, Err: err, Reported: true}
	}
	if errors.Is(err, ErrTimeout) || errors.Is(context.Cause(ctx), ErrTimeout) {
		return &Failure{Exit: ExitTimeout, Code: "timeout", Err: ErrTimeout, Hint: moreTime}
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errReturned) {
		return &Failure{Exit: exitInterrupted, Code: "interrupted", Err: errors.New("interrupted")}
	}
	f := &Failure{Exit: ExitFailed, Code: "failed", Err: err}
	if errors.Is(err, syscall.EADDRINUSE) {
		f.Hint = "choose another port, or stop the program that uses this one"
	}
	return f
}

// Report writes a failure to stderr, as text or as one line of JSON.
func (g *Globals) Report(env *Env, f *Failure, asJSON bool) {
	message := printable.Reason(f.Err, 2000)
	if asJSON {
		if len(f.Places) > 0 {
			message += ": " + printable.Line(strings.Join(f.Places, ", "), 4000)
		}
		if len(f.Searched) > 0 {
			message += "; searched: " + printable.Line(strings.Join(f.Searched, ", "), 4000)
		}
		type body struct {
			Code    string `json:"code"`
			Message string `json:"message"`
			Hint    string `json:"hint,omitempty"`
		}
		line, err := printable.Marshal(map[string]body{"error": {f.Code, message, printable.Line(f.Hint, 1000)}})
		if err == nil {
			fmt.Fprintf(env.Err, "%s\n", printable.JSON(line))
		}
		return
	}
	if f.Reported {
		return
	}
	if len(f.Places) > 0 {
		message += ":"
	}
	places := make([]string, len(f.Places))
	for i, place := range f.Places {
		places[i] = printable.Line(place, 400)
	}
	_ = g.console(env).write(termtext.Red, "mcptrack:", message, places, printable.Line(f.Hint, 1000))
}

// Usage returns the failure for an invalid command line.
func Usage(format string, args ...any) error { return UsageHint("", format, args...) }

func UsageHint(hint, format string, args ...any) error {
	return &Failure{Exit: ExitUsage, Code: "usage", Err: fmt.Errorf(format, args...), Hint: hint}
}

// OneOf returns a usage failure if the value of a flag is not one of the choices, and nil
// otherwise.
func OneOf(flag, value string, choices ...string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	last := len(choices) - 1
	return Usage("unknown --%s %q; choose %s or %s", flag, printable.Line(value, 40), strings.Join(choices[:last], ", "), choices[last])
}

// AddChoice adds a flag whose value must be one of the choices, which OneOf checks.
func AddChoice(cmd *cobra.Command, value *string, flag, byDefault, usage string, choices ...string) {
	cmd.Flags().StringVar(value, flag, byDefault, usage)
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp))
}

// DidYouMean returns a hint that suggests the candidate that name probably meant, or else the
// fallback. It suggests a similar candidate, or the only candidate that starts with name.
func DidYouMean(name string, candidates []string, fallback string) string {
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

// missing names the first argument that is missing after n arguments, with an example.
func missing(cmd *cobra.Command, n int) string {
	names := strings.Fields(cmd.Use)[1:]
	if n >= len(names) {
		return ""
	}
	text := "; " + strings.Trim(names[n], "().") + " is missing"
	for line := range strings.Lines(cmd.Example) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, cmd.CommandPath()+" ") {
			return text + ", for example " + line
		}
	}
	return text
}

// Args checks that a command has at least least and at most most arguments; a negative most means
// no limit.
func Args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return checkArgs(cmd, args, least, most) }
}

// checkArgs is a function of its own, so that a program has it once, not once for each call of Args.
func checkArgs(cmd *cobra.Command, args []string, least, most int) error {
	n := len(args)
	if i := slices.Index(args, ""); i >= 0 { // most likely from an unset shell variable
		return UsageHint("usage: "+cmd.UseLine(), "argument %d of %s is empty", i+1, cmd.CommandPath())
	}
	if n >= least && (n <= most || most < 0) {
		return nil
	}
	hint, name := "usage: "+cmd.UseLine(), strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
	switch {
	case most == 0:
		return UsageHint(hint, "%s takes no arguments, got %q", name, printable.Line(args[0], 100))
	case least == most && n > most:
		return UsageHint(hint, "%s takes %s, got %d", name, Plural(least, "argument"), n)
	case least == most:
		return UsageHint(hint, "%s takes %s, got %d%s", name, Plural(least, "argument"), n, missing(cmd, n))
	case n < least:
		return UsageHint(hint, "%s takes at least %s, got %d%s", name, Plural(least, "argument"), n, missing(cmd, n))
	}
	return UsageHint(hint, "%s takes at most %s, got %d", name, Plural(most, "argument"), n)
}
