// Package standardwebhooks has the secrets that sign and verify messages as Standard Webhooks specifies
// it, which both ends of a webhook use, and the end that receives messages: a [Receiver] is
// the HTTP handler for the messages of servers whose events are followed (MCP Events,
// SEP-3415). Package output/webhook sends messages.
//
// # Trust
//
// Anybody can send requests. A message is taken if its path, which cannot be guessed, is that
// of a [Slot], it has a valid signature by the slot's secret, and its time is within 5 minutes
// of ours. Its slot alone says which server it is from; nothing in the message does.
//
// Paths are derived from one key: they are the same after a restart, so that a subscription
// that outlived a crash is found again, and need no storage of their own. Secrets are made
// anew each time that a slot is opened, as its owner then begins to recognise repetitions:
// what was sent to an earlier owner, or run, is refused, however fresh it is.
//
// # Order, loss, ownership
//
// A message is answered with success only after the owner of its slot has taken it, in the
// order in which it takes them; everything else makes the sender try again. Messages may come
// twice: owners recognise them by their ids. Each slot has one owner, who closes it. The
// receiver owns no goroutine. Handlers wait for an owner for 5 s at most, and hold the bodies
// of 16 messages of a server at most, each of 256 KiB or less.
//
// Library: standard-webhooks signs and verifies, as its authors specify it.
package standardwebhooks
