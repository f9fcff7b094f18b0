// Package upstream turns an HTTP API that describes its own routes into MCP tools, and
// refreshes them after each deployment of the API.
//
// The API serves two documents relative to its base URL:
//
//	GET /api/version    {"build": "…", …}
//	GET /api/mcp/tools  [{"name", "description", "method", "path": "/api/…",
//	                      "params": [{"name", "type", "description", "required", "in"}]}, …]
//
// Both are read once per Interval, the catalog conditionally if it has an ETag. It is validated entry by
// entry, and swapped in one step if it differs. The build is shown and logged.
//
// # Promises
//
//   - Readers of [Upstream.Catalog] see either the old or the new catalog: the list and
//     the routes that implement it are one immutable value.
//   - After a failure, the next poll retries, without limit, and the last catalog remains in
//     use in the meantime.
//   - A new build with the same tools, whatever their order, is no change for Changed.
//   - Behind a load balancer, the catalog of the backend that responds is served. The catalog
//     that was replaced last is served again only when two polls in a row read it. Once all
//     backends have the same build, its catalog is served within two polls.
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
// New starts no goroutine. Only [Upstream.Run] polls and calls Changed, until its context ends. Calls end with
// theirs.
package upstream
