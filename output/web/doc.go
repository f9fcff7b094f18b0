// Package web is the HTTP server of a process: its listener, access control, limits
// and shutdown. The routes are added by others with [Server.Handle].
//
// # Access control
//
// The address must be a loopback address unless a token is set. Every request,
// whatever its route and method, passes these checks in order:
//
//  1. Host must name the listener. Otherwise a page that resolves its own name to
//     127.0.0.1 (DNS rebinding) could read everything. 403.
//  2. Origin and Sec-Fetch-Site must be absent or name the same site, or Origin must
//     be one of Options.Origins. This includes GET, as streams are worth stealing. 403.
//  3. With a token: Authorization: Bearer, or the cookie of a login. 401. Only
//     /healthz, /login and its style sheet are exempt. A token in a query is ignored,
//     since URLs end up in logs.
//  4. The route and its method: 404, 405. There are no redirects to another form of a path.
//
// No path is logged or repeated in a response, as it may be that of a token, or almost: logs
// have the pattern of the route.
//
// All responses carry a content security policy that allows nothing from other sites,
// and nosniff. CORS headers are sent to Options.Origins only; with Options.MCP they
// allow the headers of MCP, including Mcp-Param-NAME, whose names tools choose.
//
// [Server.Serve] follows the file of the tokens. A request ends when its token is removed: its
// context is cancelled, and a write in progress fails within a second. A file that cannot be used
// changes nothing.
//
// The cookie of a login is valid for 12 hours, for one Server and its process, for as long as
// the token of the login is, and until the logout. Its name contains the port of the listener. That keeps servers at several ports of a
// host apart, and no more: browsers send a cookie to every port of its host, and nothing in a
// request says who sends it. A service there that receives the cookie can use it.
//
// Wrong tokens are logged and limited: five at once and then one per two seconds for
// an address (IPv6: a /64 network), fifty and then ten per second in all. Beyond the
// first limit tokens of the address are not checked but answered with 429; beyond the
// second one this applies to all addresses that sent a wrong token before. Logins
// that already have a cookie are not affected.
//
// # Connections
//
// A connection is trusted once a request on it has passed all checks, other than one
// for an exempt route. There may be Options.MaxConns connections in all, and half as many
// untrusted ones from one address, unless it is a loopback address or Options.TrustProxy is
// set: many clients may connect within a moment. At the limit of an address its oldest
// untrusted connection is closed for the new one. At the other limit it is one whose requests
// were answered, else the oldest on which nothing came for 250 ms, or on which a request began
// to come 2 s ago. While there is none, new connections wait in the queue of the operating
// system. Only if few connections are untrusted, the trusted one that has been idle longest is
// closed instead; a new one is refused only if all others are busy. An untrusted connection
// may be idle for 5 s, with TLS for 15 s, a trusted one for a minute.
//
// Requests that passed the checks never take all connections: an eighth, at most 256, is
// kept for health checks and logins, and one address may take at most three quarters of the
// rest, unless it is a loopback address or Options.TrustProxy is set. Beyond that a request
// is answered with 503, and a request for a stream of events is cut off.
//
// Headers must arrive within 5 s, with TLS 15 s, and fit into 16 KiB, bodies within 10 s and 64 KiB,
// or 4 MiB with Options.MCP; the body of a refused request is not read. There is no
// write timeout, which would end streams: every request begins with a write deadline
// of 30 s, and a stream sets its own for every write. HTTP/2 is not offered.
//
// # Shutdown
//
// [Server.Serve] ends with its context: /readyz returns 503, the hooks of
// [Server.OnShutdown] end the streams, requests in progress may finish, and after
// Options.Drain all remaining connections are closed. It returns when no handler runs
// any more.
//
// Library: golang.org/x/time/rate limits wrong tokens.
package web
