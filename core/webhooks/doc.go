// Package webhooks has what both ends of a webhook share, the secrets that sign and verify
// messages as Standard Webhooks specify it, and the end that receives them: a [Receiver] is
// the HTTP handler for the messages of servers whose events are followed (MCP Events,
// SEP-3415). Sending is output/webhook.
//
// # Trust
//
// Requests come from anybody. A message is taken if its path names a [Slot], which cannot be
// guessed, and a signature by the slot's secret is right and not older than 5 minutes. Which
// server a message is from follows from its slot and from nothing that it says. Paths and
// secrets are derived from one key, so that they are the same after a restart, are known
// before a server is asked to use them, and need no storage of their own.
//
// # Order, loss, ownership
//
// A message is answered with success only after the owner of its slot has taken it, in the
// order in which it takes them; everything else makes the sender try again. Messages may come
// twice. Each slot has one owner, who closes it. The receiver owns no goroutine.
//
// Library: standard-webhooks signs and verifies, as its authors specify it.
package webhooks
