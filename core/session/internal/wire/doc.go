// Package wire carries JSON-RPC messages between a session and one MCP server: over
// the pipes of a child process, over Streamable HTTP, and over the SSE transport of
// 2024-11-05. It knows methods and headers where a transport depends on them, but
// nothing of handshakes, subscriptions or lists: that is package session.
//
// # Order and loss
//
// Messages of one stream are delivered in the order in which the server sent them:
// a notification that precedes an answer has been handled before [Conn.Do] returns
// that answer. Streamable HTTP has several streams, without an order among them.
// What is lost with a broken stream is reported by [Handler.Gap], never repeated.
//
// Each message is scanned once for its end and decoded once. Notifications and
// requests of the server are handled here; only answers reach the transport of the
// library.
//
// # Bounds
//
// Lines, events, bodies, queued writes and answers in flight are bounded. A server
// that exceeds a bound fails the request or the connection, and nothing else.
//
// # Ownership
//
// A [Conn] owns its goroutines and its streams. The caller that made it calls
// [Conn.Close], which returns once they are gone. Callbacks of [Handler] run on the
// goroutines that read from the server: they must return at once and must not call
// the Conn.
//
// Library: mark3labs/mcp-go, for requests over HTTP (sessions, answers in an event
// stream and their resumption), for the SSE transport and for matching answers on
// stdio. Its notification stream is not used: it can neither be resumed nor
// replaced, and does not report that it broke.
package wire
