// Package ipc connects programs of one user with the user's daemon. It knows where the daemon's
// socket is, who may use it, and how a connection begins.
//
// # The handshake
//
// A connection begins with lines of JSON. The client sends a [Hello]. The daemon answers with the names
// of environment variables ([Answer.Need]), and the client sends their values ([Values]); a name without a value
// is omitted. The daemon asks at most twice: for what it needs to read any config, before it reads
// anything, so that the client knows that it is alive; and for what the client's config names. It then
// sends an [Answer] that either accepts or refuses the client. After it has been accepted, the
// connection carries what its [Purpose] says.
//
// Only the variables that the daemon asks for leave the client, and the daemon asks only for those
// that servers inherit, those that the config names and mcptrack's own.
//
// # One daemon
//
// A daemon holds a [Lock] for as long as it runs, and the clients that start one do so one after the
// other. Both are locks of files beside the socket, which the system releases when a process ends.
//
// # Libraries
//
// gofrs/flock locks files on all systems. Microsoft/go-winio has named pipes that fit package net.
// golang.org/x/mod/semver compares versions. This package is part of cmd/mcptrack-attach, so it imports
// nothing larger.
package ipc

import "unicode/utf8"

// Protocol is the version of the handshake. A daemon refuses clients with another version.
const Protocol = 1

// A Purpose determines what a connection carries after the handshake.
type Purpose string

// The purposes of a connection.
const (
	Attach   Purpose = "attach"   // MCP messages, one per line
	HTTP     Purpose = "http"     // HTTP/1.1: the API of serve-sse for the client's servers
	Status   Purpose = "status"   // one JSON document, after which the daemon closes the connection
	Stop     Purpose = "stop"     // nothing; the daemon closes the connection when it has stopped
	Handover Purpose = "handover" // nothing; like Stop, but clients expect another daemon
)

// Hello is the first message of a client.
type Hello struct {
	Protocol int     `json:"mcptrack"`
	Build    Build   `json:"build"`
	Purpose  Purpose `json:"purpose"`
	// Client identifies the client's process. It is random, and the same in all its connections.
	Client string `json:"client,omitempty"`
	// Folder is the absolute path of the client's working directory.
	Folder string `json:"folder,omitempty"`
	// Config is the absolute path of the client's config, and Host the name of the host whose config
	// is used. If both are empty, the daemon looks for a config in Folder as the commands do.
	Config string `json:"config,omitempty"`
	Host   string `json:"host,omitempty"`
	// Server restricts the client to one server and determines that names stay unchanged.
	Server string `json:"server,omitempty"`
	// Approved means that the config needs the user's approval although it is named.
	Approved bool `json:"approved,omitempty"`
	// Join makes the daemon refuse a client whose config it does not follow yet for another client,
	// with the code [NotFollowed].
	Join bool `json:"join,omitempty"`
	// Resumes means that an earlier connection of the client was lost, so that the client does not wait
	// for the answers to what is repeated.
	Resumes bool `json:"resumes,omitempty"`
	// Seen describes the lists that the client has seen, as the last daemon reported them.
	Seen map[string]string `json:"seen,omitempty"`
	// Path is the client's PATH.
	Path string `json:"path,omitempty"`
}

// NotFollowed is the code of a [Refused] if the daemon does not follow the client's config; see
// [Hello].
const NotFollowed = "not_followed"

// Build identifies a version of mcptrack.
type Build struct {
	Version string `json:"version"`
	// Time is when the version was committed, in RFC 3339; empty if unknown.
	Time string `json:"time,omitempty"`
}

// Answer is a message of the daemon. Exactly one of Need, Error and OK is set.
type Answer struct {
	Protocol int      `json:"mcptrack"`
	Build    Build    `json:"build"`
	PID      int      `json:"pid"`
	Need     []string `json:"need,omitempty"`
	Error    *Refused `json:"error,omitempty"`
	OK       bool     `json:"ok,omitempty"`
}

// Values contains the values of the variables that the daemon asked for.
type Values struct {
	Env map[string]string `json:"env"`
}

// Refused is the error of a daemon that does not accept a client. The daemon makes its texts printable,
// see core/printable, because small clients print them as they are.
type Refused struct {
	Code    string `json:"code"` // stable, such as "config_invalid"; see also CodeProtocol
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Exit is the exit code with which a command should end; see mcptrack help exit-codes.
	Exit int `json:"exit,omitempty"`
}

func (r *Refused) Error() string { return r.Message }

// CodeText is the code of a [Refused] if a value of the client is not valid UTF-8. In JSON it would become
// another value, such as the path of another folder.
const CodeText = "not_utf8"

// notText returns a [*Refused] if a value cannot be sent. what names the value.
func notText(what, value string) error {
	if utf8.ValidString(value) {
		return nil
	}
	return &Refused{Code: CodeText, Message: what + " is not UTF-8, so the daemon cannot be used", Exit: 1}
}
