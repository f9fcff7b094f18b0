// Package feed sends the event log to any number of HTTP clients as server-sent events (WHATWG
// HTML, §9.2).
//
// # Routes
//
// [Hub.Feed] is the VibeChat feed: updates and errors of resources in the form that its clients
// expect, with IDs. [Hub.Events] sends all events, with filters, checkpoints and gaps. Clients can
// resume both.
//
// # Order and loss
//
// All clients see the order of the log, and the same IDs, <epoch>-<seq>. A client receives
// every event that passes its filters once, in that order, starting where it requested:
// Last-Event-ID, ?lastEventId= (both an ID, in this order of precedence), or ?since= (an ID, a
// number, "earliest", "latest", an RFC 3339 time or a duration back from now); by default with the
// next event. An event "gap" reports events that have expired. A client that reconnects with the
// last ID that it received misses nothing. Only errors in the VibeChat feed may be repeated: its
// clients expect errors without IDs, so the errors after the last update are sent again.
//
// A stream from Hub.Events starts with an event "checkpoint", so that a client has an ID before the first
// event. Further checkpoints follow while filters hide events, so that the last ID stays recent and
// a resume needs no long search. The VibeChat feed has no checkpoints; its first ID comes with its first
// update.
//
// # How it works
//
//	log ── one follower ──▶ ring of frames, encoded once ──▶ clients, each at its position
//	 └──────────────────── pages of history ─────────────────▶ ┘
//
// The follower never waits for a client. Clients are woken immediately after a period of silence,
// and then at most every 5 ms, which combines many events in one write. A client that the ring
// overruns, or that does not accept a write within 5 s, is disconnected. It reconnects with its last
// ID and reads history in pages of 128 KiB. So a slow client does not delay others. Memory is limited to
// the ring and about 25 KiB per client, or a page more while it reads history.
//
// The log has a ring of its own, which cannot be used here: on a cluster, every follower of the log is a consumer.
//
// A client beyond the limit, or one that connects while the hub shuts down, gets status 200, a retry
// time, and the end of the stream, because EventSource would never reconnect after any other status.
//
// # Ownership
//
// [Hub.Run] owns the goroutines that follow the log and show new frames to clients. The HTTP server
// owns the handlers; [Hub.Shutdown] ends their streams after the last event and a final frame.
package feed
