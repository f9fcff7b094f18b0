// Package standardwebhooks has the secrets that sign and verify Standard Webhooks, for both ends of a
// webhook, and the receiving end: a [Receiver] is the HTTP handler for the messages of servers whose
// events are followed (MCP Events, SEP-3415). Package output/webhook is the sending end.
//
// # Trust
//
// Anybody can send requests. A message is accepted if its path, which cannot be guessed, belongs to a
// [Slot], it has a valid signature by the slot's secret, and its time is within 5 minutes of ours.
// Only the slot identifies the server; nothing in the message does.
//
// Paths are derived from one key. So they are the same after a restart, which finds a subscription
// that outlived a crash, and need no storage. Each time a slot is opened it gets a new secret, as its
// owner then starts to recognize duplicates: a message to an earlier owner or run is rejected,
// however fresh it is.
//
// # Order, loss, ownership
//
// A message is answered with success only after the owner of its slot has taken it, in the order in
// which it takes them; otherwise the sender retries. Messages may arrive twice: owners recognize them
// by their IDs. Each slot has one owner, who closes it. The receiver owns no goroutine. A handler
// waits at most 5 s for an owner. Handlers hold at most 16 bodies per server, each of at most 256 KiB.
//
// Library: standard-webhooks signs and verifies; it is by the authors of the specification.
package standardwebhooks
