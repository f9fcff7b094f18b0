// Package webhook delivers events by HTTP: [Subscriptions] to clients of MCP Events that
// subscribed (SEP-3415, events/subscribe), and [Hooks] to the webhooks of a config. Both
// are Standard Webhooks; those of a config may also be CloudEvents or messages for Slack.
// Specification: https://www.standardwebhooks.com.
//
// # Order and loss
//
// Deliveries of a subscription start in the order of the log; up to eight are in progress,
// so arrival may differ. What an endpoint took, or what was given up after five attempts
// in 12 minutes, is passed by the watermark of the subscription, which is stored: after a
// restart or a crash everything behind it is delivered again, under the same id. What was
// given up or is no longer in the log is followed by a gap message. No event is sent
// before the endpoint was verified and the answer to events/subscribe was written, nor
// after the subscription expired.
//
// A webhook of a config is tried for as long as it is there, and its gap message until it
// is taken. It is sent states of servers once they have lasted, so out of order.
//
// A dead endpoint delays no other one: each has its own queue, which is the log, and each
// host few connections.
//
// # Several processes
//
// On a NATS cluster (see package journal) any process answers clients, and one delivers: it
// holds a lease, of which there is one for subscriptions and one for the config. Each
// subscription is a record that can be read with one of the [Keys] only; how far deliveries
// are is in a page that only the process that loaded it last can save. So who has lost the
// lease moves no watermark, and asks the lease before each attempt. The next one goes on
// from the page: what was delivered since comes again, under the same id.
//
// # Untrusted URLs
//
// Clients choose the URLs, so requests go only to public addresses, checked for what is
// really dialled, over HTTPS, without redirects and without a proxy. Of an answer only
// its status counts; nothing of it reaches logs, errors or clients.
//
// # Ownership
//
// [Subscriptions.Run] and [Hooks.Run] own one goroutine for each endpoint, which owns its
// deliveries. They return when all have ended, and store the watermarks.
//
// Library: cloudevents/sdk-go has the form of CloudEvents. Messages are signed by
// core/webhooks.
package webhook
