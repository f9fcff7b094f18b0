// Package upstream turns an HTTP API that describes its own routes into MCP tools, and
// refreshes them after each deployment of the API.
//
// The API serves two documents relative to its base URL:
//
//	GET /api/version    {"build": "…", …}
//	GET /api/mcp/tools  [{"name", "description", "method", "path": "/api/…",
//	                      "params": [{"name", "type", "description", "required", "in"}]}, …]
//
// The version is polled once per Interval. When the build changes, the catalog is read again,
// validated entry by entry, and swapped in one step. If the API does not report a build, the
// catalog is read at every poll (conditionally if it has an ETag) and compared.
//
// # Promises
//
//   - Readers of [Upstream.Catalog] see either the old or the new catalog: the list and
//     the routes that implement it are one immutable value.
//   - A build is accepted only once its catalog was read between two version responses
//     with that build. After a failure, the next poll retries, without limit, and the last
//     catalog remains in use in the meantime.
//   - OnChange is called only if the list of tools differs, not for a new build with
//     the same tools, nor if only their order has changed.
//   - Behind a load balancer with two builds, the list switches to the new catalog once.
//     It switches back only if several consecutive responses agree on the old catalog, and
//     the required number of responses grows with every switch.
//   - An invalid entry is skipped and reported; it affects neither other entries nor the
//     process. get_version is always present, as the last tool.
//   - Calls send only what the entry describes, and only to the API's own origin: no
//     path leaves /api/, no redirect leaves the origin, and no credential of a caller is
//     forwarded. The headers in Options are the only credentials.
//
// "default_from" of a parameter is ignored: callers must pass such values, and the
// parameter is optional unless it is "required".
//
// # Ownership
//
// New starts no goroutine. Only [Upstream.Run] polls and calls the callbacks, one at a
// time. [Upstream.Close] stops Run and all calls, and waits for them.
package upstream
