// Package webhook delivers events by HTTP, as Standard Webhooks, to clients of MCP Events
// that subscribed (SEP-3415, events/subscribe).
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
// A dead endpoint delays no other one: each has its own queue, which is the log, and each
// host few connections.
//
// # Untrusted URLs
//
// Clients choose the URLs, so requests go only to public addresses, checked for what is
// really dialled, over HTTPS, without redirects and without a proxy. Of an answer only
// its status counts; nothing of it reaches logs, errors or clients.
//
// # Ownership
//
// [Subscriptions.Run] owns one goroutine for each subscription, which owns its
// deliveries. Run returns when all have ended, and stores the watermarks.
//
// Library: standard-webhooks signs, as its authors specify it.
package webhook
