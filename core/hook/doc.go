// Package hook receives the incoming webhooks of a config ([config.Hook]): messages in which other
// programs report that something changed. Package standardwebhooks receives the events of MCP servers,
// whose URLs and secrets mcptrack makes itself.
//
// # Trust
//
// Anybody can send requests. A message is accepted if it was signed with a secret of the hook and, where
// the scheme signs a time, is within 5 minutes of this machine's clock. Everything that fails a check of
// the signature is answered with the same 401, whatever failed; unknown ids, which are no secret, with
// 404. Headers are checked before the body is read, and nothing but counts is kept of a refused
// request. Signatures are compared in constant time.
//
// # Replays
//
// A message that was accepted before is answered with success and has no effect: senders repeat a
// message if they did not see the answer. Messages are recognised by their id and by what was signed,
// because the ids of some schemes are not signed. They are remembered for at least twice the tolerance.
// If there are too many to remember, new ones are answered with 503 rather than old ones forgotten.
//
// GitHub and hmac sign no time, so a message that was captured can be repeated once it is forgotten:
// after a restart and, for GitHub, after a day or 20,000 messages. Repeating it causes one read.
//
// # Bounds
//
// A body has at most 1 MiB, and the bodies for each hook that arrive have 16 MiB of memory, in which each
// takes at least 4 KiB. If that is full, the largest body of the address that takes most is given up. Each
// hook accepts 20 messages a second, after a burst of 200. Only accepted messages count, so that forgeries
// cannot displace them.
// The receiver starts no goroutines, and a message is answered before anything is read because of it.
//
// Libraries: golang.org/x/time/rate limits the messages.
package hook
