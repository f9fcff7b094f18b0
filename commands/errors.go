package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Exit codes; the help topic exit-codes explains them to users.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitConfig      = 3
	exitUnreachable = 4
	exitRefused     = 5
	exitTimeout     = 6
	exitInterrupted = 130
)

// failure is an error with an exit code and a code for scripts.
type failure struct {
	exit int
	code string
	err  error
	hint string
	// places follow the message, one a line: where something was searched.
	places []string
	// reported is set when the command's output already says what is wrong.
	reported bool
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// errTimeout is the cause of a context that ended because of --timeout.
var errTimeout = errors.New("--timeout expired")

// errReturned is the cause of a context whose command has returned without being
// interrupted.
var errReturned = errors.New("the command returned")

// classify turns every error into a failure. ctx is the context the command ran in.
func classify(ctx context.Context, err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if errors.Is(err, syscall.EPIPE) {
		return &failure{exit: exitOK, err: err, reported: true}
	}
	if errors.Is(err, errTimeout) || errors.Is(context.Cause(ctx), errTimeout) {
		return &failure{exit: exitTimeout, code: "timeout", err: errTimeout, hint: "give it more time with --timeout"}
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errReturned) {
		return &failure{exit: exitInterrupted, code: "interrupted", err: errors.New("interrupted")}
	}
	return &failure{exit: exitFailed, code: "failed", err: err}
}

// report writes a failure to stderr: for people, or as one line of JSON.
func report(w io.Writer, f *failure, asJSON bool) {
	message := printable.Reason(f.err, 2000)
	if asJSON {
		if len(f.places) > 0 {
			message += ": " + printable.Line(strings.Join(f.places, ", "), 4000)
		}
		type body struct {
			Code    string `json:"code"`
			Message string `json:"message"`
			Hint    string `json:"hint,omitempty"`
		}
		line, err := printable.Marshal(map[string]body{"error": {f.code, message, printable.Line(f.hint, 1000)}})
		if err == nil {
			fmt.Fprintf(w, "%s\n", printable.JSON(line))
		}
		return
	}
	if f.reported {
		return
	}
	if len(f.places) > 0 {
		message += ":"
	}
	fmt.Fprintf(w, "mcptrack: %s\n", message)
	for _, place := range f.places {
		fmt.Fprintf(w, "  %s\n", printable.Line(place, 400))
	}
	if f.hint != "" {
		fmt.Fprintf(w, "hint: %s\n", printable.Line(f.hint, 1000))
	}
}
