package login

import (
	"errors"
	"fmt"

	"github.com/mcptrack/mcptrack/core/printable"
)

// ErrNone is the error for a server without a login.
var ErrNone = errors.New("not logged in")

// A RequiredError says that only a new login helps.
type RequiredError struct {
	Target Target
	Reason string // printable
}

func (e *RequiredError) Error() string {
	return fmt.Sprintf("%s; run %s", e.Reason, e.Target.Command())
}

// An UnnamedError says that a client of the config would be used at another authorization server
// than before, which only the MCP server names. If the client belongs there, the config can name
// it.
type UnnamedError struct {
	Client, Issuer string // printable
	Metadata       string // the URL to name it by, printable; "" if it publishes no metadata
}

func (e *UnnamedError) Error() string {
	return fmt.Sprintf("the server names another authorization server than before, %s, and the config does not say that the client %s belongs to it", e.Issuer, e.Client)
}

// An AnswerError is an error response of an authorization server.
type AnswerError struct {
	Doing       string // what was requested
	Code        string // the OAuth error code (RFC 6749), "" if the answer had none
	Description string
	Status      int // HTTP status; 0: the error came through the browser
}

func (e *AnswerError) Error() string {
	text := "the authorization server refused " + e.Doing
	if e.Code == "" {
		return fmt.Sprintf("%s (HTTP status %d)", text, e.Status)
	}
	text += ": " + printable.Line(e.Code, 100)
	if e.Description != "" {
		text += " (" + printable.Line(e.Description, 300) + ")"
	}
	return text
}

// final reports whether the same request would be refused again.
func (e *AnswerError) final() bool {
	switch {
	case e.Status == 429 || e.Status >= 500:
		return false
	case e.Code == "temporarily_unavailable" || e.Code == "server_error" || e.Code == "slow_down":
		return false
	}
	return e.Code != "" || e.Status == 400 || e.Status == 401
}
