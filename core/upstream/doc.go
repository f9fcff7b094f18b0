// Package upstream makes MCP tools of an HTTP API that describes its own routes,
// and follows the API from one deployment to the next.
//
// The API answers two requests below its base URL:
//
//	GET /api/version    {"build": "…", …}
//	GET /api/mcp/tools  [{"name", "description", "method", "path": "/api/…",
//	                      "params": [{"name", "type", "description", "required", "in"}]}, …]
//
// The version is asked for every Interval; where the build is another one, the
// catalog is read again, checked entry by entry, and swapped in one step. An API
// that tells no build has its catalog compared instead, by ETag where it has one.
//
// # What it promises
//
//   - Readers of [Upstream.Catalog] see a catalog that is wholly old or wholly new:
//     the list and the routes behind it are one immutable value.
//   - A build counts as seen only when its catalog has been read, between two
//     answers that tell this build. What fails is tried again at the next poll, for
//     ever, and meanwhile the last catalog stays.
//   - OnChange is called for a list that really differs, in any other case nobody
//     is bothered: not for a new build with the same tools, nor for another order.
//   - Behind a balancer with two builds, the new catalog is shown once. The old one
//     comes back only if several answers in a row agree on it, and the more so the
//     oftener that has happened.
//   - An entry that is not valid is skipped and reported; no catalog can stop the
//     others or the process. get_version is always there, and last.
//   - Calls send what the entry describes to the API's own origin and nothing else:
//     no path leaves /api/, no redirect leaves the origin, no credential of a caller
//     is passed on. The headers of Options are the only credentials.
//
// "default_from" of a parameter is not read: what the original resolves from its
// user's settings has to be given, and such a parameter is optional unless it is
// "required".
//
// # Ownership
//
// New starts nothing. [Upstream.Run] is the one goroutine that polls and calls the
// callbacks, one at a time. [Upstream.Close] ends Run and all calls and waits for
// them.
package upstream
