// Package webhook delivers events over HTTP: [Subscriptions] delivers to MCP Events clients that
// have subscribed (SEP-3415, events/subscribe), and [Webhooks] to the webhooks in a config. Both use
// Standard Webhooks; webhooks in a config can also use CloudEvents or Slack messages.
// Specification: https://www.standardwebhooks.com.
//
// # Order and loss
//
// Deliveries of a subscription start in log order. Up to eight are in progress at a time, so they
// may arrive out of order. When the endpoint has accepted an event, or the event is abandoned after
// five attempts in 12 minutes, the watermark of the subscription moves past it. The watermark is
// stored: after a restart or crash, all later events are delivered again with the same IDs, unless
// the log was in memory. A gap message follows events that were abandoned or are no longer in the
// log. No event is sent before the endpoint is verified and the response to events/subscribe is
// written (by another process: at most 5 s later), or after the subscription has expired.
//
// Deliveries to a webhook in a config are the same, except that a gap message is repeated until it is
// accepted, that server states are debounced, and may therefore be sent out of order, and that the
// destination is patient: an event that was not accepted becomes an entry of a list, which is stored and
// which the watermark passes; it is read from the log again for each attempt. An endpoint is down while two events
// or more have failed since it accepted one: then there is one attempt at a time, after growing delays, eight in
// about 28 hours; when one is accepted, those that wait follow. Only an event that fails eight times between which
// others are accepted is abandoned, or the first of more than 100 in the list. An endpoint is switched off when an
// attempt fails and all others failed for a day; its position and the list remain. Older events of a resource are
// sent although newer ones wait.
//
// A dead endpoint does not delay other endpoints, not even endpoints on the same host: each endpoint
// has its own position in the log. Concurrent attempts are limited per host and in total, endpoints
// take turns, and a small number of slots is reserved for endpoints that respond late.
//
// # Storage
//
// Everything is stored in records: see [OpenRecords]. Each subscription is a record, which is durable
// before its client receives the response. Delivery positions are stored in two checkpoints, one
// for subscriptions and one for the config, at most once per second and on exit. A record that is
// damaged or has a newer version is reported. If it is a subscription, it is then ignored; if it is
// a checkpoint, its subscriptions or webhooks are not delivered to.
//
// # Several processes
//
// If several processes share a log (see natslog), every process answers clients, and the process
// that holds the lease delivers. There is one lease for subscriptions and one for the config.
// A subscription can be read only with one of the [Keys]. A process saves a checkpoint only if nobody
// has saved it since, and checks its lease before each attempt, so it moves no watermark that it has not
// read. The next process resumes from the checkpoint: later events are delivered again with the same IDs.
// With any other log, a process needs no lease and no keys.
//
// # Untrusted URLs
//
// Clients choose the URLs. Requests are therefore sent only to public addresses, which are checked
// when the connection is dialled, over HTTPS, without redirects and without a proxy. Only the status
// of a response is used; its content never reaches logs, errors or clients.
//
// # Ownership
//
// [Subscriptions.Run] and [Webhooks.Run] are the same deliverer with other endpoints. It owns one goroutine
// per endpoint, which owns its deliveries. They store the watermarks, and return when all of these goroutines have ended.
//
// Library: core/standardwebhooks signs messages. The envelope of CloudEvents is nine members; a test reads
// it with the reference, cloudevents/sdk-go.
package webhook
