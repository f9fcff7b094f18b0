// Package standardwebhooks signs, verifies and receives Standard Webhooks. A [Secret] signs messages
// and verifies signatures. A [Receiver] is the HTTP handler that receives messages from servers whose
// events mcptrack follows (MCP Events, SEP-3415). Package output/webhook sends webhooks.
//
// # Trust
//
// Anybody can send requests to a receiver. A message is accepted only if its path, which cannot be
// guessed, belongs to a [Slot], its signature was made with the slot's secret, and its time is within
// 5 minutes of this machine's clock. Only the slot identifies the server; nothing in the message does.
//
// Paths are derived from one key, so they need no storage and are the same after a restart. A
// restarted process can therefore resume a subscription that outlived a crash. Each time a slot is
// opened it gets a new secret, because its owner then starts to detect duplicates from scratch: a
// message to an earlier owner or run is rejected, no matter how recent it is.
//
// # Order, loss, ownership
//
// A message is answered with success only after the slot's owner has accepted it; otherwise the sender
// retries. Messages are answered in the order in which the owner accepts them. They may arrive more
// than once: owners detect duplicates by message id. Each slot has one owner, who closes it. The
// receiver starts no goroutines. A handler waits at most 5 s for an owner. Handlers buffer at most 16
// bodies per server, each of at most 256 KiB.
//
// Library: standard-webhooks, by the authors of the specification, signs and verifies.
package standardwebhooks
