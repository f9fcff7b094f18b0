// Package web is the HTTP server of a process: its listener, access control, limits and
// shutdown. Other packages add the routes with [Server.Handle].
//
// # Access control
//
// The address must be a loopback address unless a token is required. Every request, whatever
// its route and method, passes these checks in this order:
//
//  1. Host must name the listener. Otherwise a page that resolves its own name to 127.0.0.1
//     (DNS rebinding) could read everything. 403. An [Open] handler may be exempt.
//  2. Origin and Sec-Fetch-Site must be absent or name the same site, or Origin must be one of
//     Options.Origins. This includes GET, since streams are worth stealing. 403.
//  3. If tokens are set: Authorization: Bearer, or the cookie of a login. 401. Only /healthz,
//     /login, its style sheet, the icon and [Open] handlers are exempt. A token in a query is ignored,
//     since URLs end up in logs.
//  4. The route and its method: 404, 405. No path is redirected to its canonical form.
//  5. If the handler is a [Write]: the request comes from a page of this server itself, or from a
//     program with a token in a header (403), and its body is JSON (415).
//
// No path is logged or repeated in a response, since it may contain a token. Every response carries nosniff
// and a content security policy that allows nothing from other sites. Only Options.Origins get CORS headers.
//
// [Server.Serve] follows the token file. If a token is removed, its requests end: their contexts
// are canceled, and a write in progress fails within a second. A file that cannot be used
// changes nothing. Wrong tokens are logged and limited, for each address and in total; right ones are not
// affected, because many clients may share one address.
//
// The cookie of a login is valid for 12 hours, for one Server in one process, as long as the
// token of the login is valid, and until the logout. Browsers send it to every port of its host, so any
// service there can use it.
//
// # Connections
//
// Options.MaxConns limits all connections, and half of it the connections of one address, except of loopback addresses, and
// with Options.TrustProxy. A connection beyond a limit is closed.
//
// Headers must arrive within 5 s, with TLS 15 s, and fit into 16 KiB; bodies must arrive within
// 10 s and fit into 64 KiB, or 4 MiB with Options.MCP. Every request begins with a write deadline of 30 s, and
// a stream sets its own deadline for every write. HTTP/2 is not offered.
//
// # Shutdown
//
// [Server.Serve] ends with its context: /readyz returns 503, the functions of [Server.OnShutdown]
// end the streams, requests in progress may finish, and after Options.Drain the remaining
// connections are closed. It returns when no handler is running.
//
// Library: golang.org/x/time/rate limits wrong tokens.
package web
