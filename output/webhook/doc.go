// Package webhook delivers events over HTTP: [Subscriptions] to clients of MCP Events that
// subscribed (SEP-3415, events/subscribe), and [Hooks] to the webhooks of a config. Both are
// Standard Webhooks; webhooks of a config may also be CloudEvents or Slack messages.
// Specification: https://www.standardwebhooks.com.
//
// # Order and loss
//
// Deliveries of a subscription start in log order. Up to eight are in progress, so they may arrive
// in another order. When the endpoint has accepted an event, or the event is abandoned after five
// attempts in 12 minutes, the watermark of the subscription moves past it. The watermark is stored:
// after a restart or crash, all later events are delivered again, under the same IDs, unless the log
// ended with the process. A gap message follows events that were abandoned or are no longer in the
// log. No event is sent before the endpoint is verified and the answer to events/subscribe is
// written, nor after the subscription expires.
//
// A webhook of a config is retried as long as it is in the config, including its gap message. Server
// states are debounced, and so sent out of order.
//
// A dead endpoint does not delay other endpoints, not even at its own host: each endpoint has its
// own position in the log. Concurrent attempts are limited per host and in total, endpoints take
// turns, and late endpoints have a few slots of their own.
//
// # Storage
//
// Everything is stored in the records of the log. Each subscription is a record, which is durable
// before its client gets the answer. Delivery positions are in two checkpoints, one for
// subscriptions and one for the config, saved at most once a second and at the end. A record that is
// damaged or of a newer version is reported: a subscription is then ignored, and without its
// checkpoint nothing is delivered.
//
// # Several processes
//
// If several processes share a log (see natslog), every process answers clients, and one process
// delivers: the one that holds the lease. There is one lease for subscriptions and one for the
// config. A subscription can be read only with one of the [Keys], and a checkpoint can be saved only
// by the process that loaded it last. So a process that lost its lease moves no watermark; it also
// checks the lease before each attempt. The next process resumes from the checkpoint: later events
// are delivered again, under the same IDs. A process with any other log needs no lease and no keys.
//
// # Untrusted URLs
//
// Clients choose the URLs. So requests go only to public addresses, checked when the connection is
// dialled, over HTTPS, without redirects and without a proxy. Only the status of a response
// matters; nothing of it reaches logs, errors or clients.
//
// # Ownership
//
// [Subscriptions.Run] and [Hooks.Run] own one goroutine per endpoint, which owns its deliveries.
// They return when all have ended, and store the watermarks.
//
// Library: cloudevents/sdk-go has the CloudEvents format. core/standardwebhooks signs messages.
package webhook
