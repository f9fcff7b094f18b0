// Package web is the one HTTP server of a process: its address, who may ask, and
// how it ends. What is served comes from others, by [Server.Handle].
//
// # Who may ask
//
// A loopback address unless there is a token. Every request, whatever its route
// and method, passes the same guards in this order:
//
//  1. Host must name the listener. Otherwise a page that points its own name at
//     127.0.0.1 (DNS rebinding) could read everything. 403.
//  2. Origin and Sec-Fetch-Site must be absent or say "the same site", or Origin
//     must be one of Options.Origins. Also for GET: a stream is worth stealing. 403.
//  3. With a token: Authorization: Bearer, or the cookie of a login. 401. Only
//     /healthz and /login are open. A token in a query is never looked at, since
//     URLs end up in logs.
//  4. The route and its method: 404, 405.
//
// All answers carry a content security policy that allows nothing from elsewhere,
// and nosniff. CORS headers go to Options.Origins only; with Options.MCP they allow
// the headers of MCP, among them Mcp-Param-NAME, whose names tools choose.
//
// # How it ends
//
// [Server.Serve] ends with its context: /readyz turns 503, the hooks of
// [Server.OnShutdown] end the streams, requests under way may finish, and after
// Options.Drain everything left is cut. It returns when no handler runs any more.
//
// # Time and memory
//
// Headers must arrive within 5 s and fit into 16 KiB, bodies within 10 s and 64
// KiB, or 4 MiB with Options.MCP. There is no write timeout, which would end streams; every request begins
// with a write deadline of 30 s, and a stream sets its own for every write. A
// connection beyond Options.MaxConns is closed at once.
package web
