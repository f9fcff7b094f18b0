// Package wire transmits JSON-RPC messages between a session and one MCP server: over the pipes of
// a child process, over Streamable HTTP, or over the SSE transport of 2024-11-05. It depends on
// specific methods and headers only where a transport requires it. Handshakes, subscriptions and
// lists are implemented by package session.
//
// # Order and loss
//
// Messages on one stream are delivered in the order in which the server sent them: a notification
// that precedes a response is handled before [Conn.Do] returns the response. Streamable HTTP has
// several streams, and messages on different streams have no order. [Handler.Gap] reports that a
// broken stream may have lost messages, which are never sent again.
//
// Each message is scanned once to find its end and decoded once. On every transport, a response is
// passed to the request that waits for its id.
//
// # Limits
//
// The sizes of lines, events and bodies, and the numbers of queued writes and replies in flight, are
// limited. If a server exceeds a limit, only the request or the connection fails.
//
// # Ownership
//
// A [Conn] owns its goroutines and streams. Its creator must call [Conn.Close], which returns once
// they are gone. The functions in [Handler] run on the goroutines that read from the server: they
// must not block or call the Conn.
//
// Library: mark3labs/mcp-go knows which arguments are repeated in headers, and encodes them. Its
// transports are not used: they link its server, which compiles JSON Schemas when a program starts, and
// do not report that a stream broke.
package wire
