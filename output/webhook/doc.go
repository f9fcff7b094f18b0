// Package webhook delivers events by HTTP: [Subscriptions] to clients of MCP Events that
// subscribed (SEP-3415, events/subscribe), and [Hooks] to the webhooks of a config. Both
// are Standard Webhooks; those of a config may also be CloudEvents or messages for Slack.
// Specification: https://www.standardwebhooks.com.
//
// # Order and loss
//
// Deliveries of a subscription start in the order of the log; up to eight are in progress, so
// arrival may differ. Once an event is accepted by the endpoint, or given up after five
// attempts in 12 minutes, the watermark of the subscription moves past it. The watermark is
// stored: after a restart or a crash everything after it is delivered again, under the same id,
// unless the log ended with the process. Events that were given up or are no longer in the log
// are followed by a gap message. No event is sent before the endpoint was verified and the answer
// to events/subscribe was written, nor after the subscription expired.
//
// For a webhook of a config, attempts continue for as long as it is in the config, also for its
// gap message. States of servers are sent only once they have lasted, and so out of order.
//
// A dead endpoint does not delay others, not even at its own host: each reads the log at its own
// position. Attempts at a time are limited per host and in all, endpoints take turns, and those
// that answer late or never have few places, of their own.
//
// # What is stored
//
// Everything is stored in the records of the log. Each subscription is a record, which is durable
// before its client gets the answer. How far deliveries are is in two pages, one for subscriptions
// and one for the config, saved at most once a second and at the end. What is damaged or of a newer
// version is reported: a subscription is ignored, and without its page nothing is delivered.
//
// # Several processes
//
// In a log that several processes share (see natslog) any process answers clients, and one
// delivers: it holds a lease, of which there is one for subscriptions and one for the config. Each
// subscription can be read with one of the [Keys] only, and a page can be saved only by the process
// that loaded it last. So who has lost the lease moves no watermark, and asks the lease before each
// attempt. The next one resumes from the page: what was delivered since comes again, under the same
// id. With any other log this is one process, which needs no lease and no keys.
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
// core/standardwebhooks.
package webhook
