// Package feed sends the log of events to any number of HTTP clients as
// server-sent events (WHATWG HTML, §9.2).
//
// # Routes
//
// [Hub.Feed] is the VibeChat feed: updates and errors of resources in the form
// that its clients expect, with ids. [Hub.Events] has all events, with filters,
// checkpoints and gaps. Clients can resume both.
//
// # Order and loss
//
// There is one order, that of the log, and one set of ids, <epoch>-<seq>. A client
// receives every event that passes its filters once, in that order, starting where it
// asked to: Last-Event-ID, ?lastEventId= (both an id, in this order of precedence), or
// ?since= (an id, a number, "earliest", "latest", an RFC 3339 time or a duration back
// from now); by default with the next event. Events that have expired are announced
// by an event "gap". A client that reconnects with the last id that it received misses
// nothing, and receives nothing twice except errors in the feed: as the clients of the
// feed expect no ids there, the errors after the last update are repeated.
//
// A stream of Events begins with an event "checkpoint", so that a client has an id
// before the first event. Further checkpoints follow while filters hide events: the
// id is then never far behind, and resuming requires no long search. The feed has no
// checkpoints; its first id comes with its first update.
//
// # How it works
//
//	log ── one follower ──▶ ring of frames, encoded once ──▶ clients, each at its position
//	 └───────────── pages of history, large ones bounded in number ────▶ ┘
//
// The follower never waits for a client. Clients are woken immediately after a period
// of silence and then at most every 5 ms, which combines many events in one write. A
// client that the ring overruns, or that does not accept a write within 5 s, is
// disconnected; it reconnects with its last id and reads history, in pages of 1 MiB or,
// while 32 other clients are being sent large pages, of 64 KiB. So a slow client does not
// delay others, with one exception: an event of more than 128 KiB waits until its client
// may have a large page. Memory is bounded by the ring, the large pages, and for every
// client about 25 KiB, or 150 KiB while it reads history.
//
// A client beyond the limit, or one that connects while the hub shuts down, gets status
// 200, a time to retry, and the end of the stream: EventSource would never reconnect
// after any other status.
//
// # Ownership
//
// [Hub.Run] owns the goroutines that follow the log and show new frames to clients.
// Handlers are owned by their HTTP server; [Hub.Shutdown] ends them, after the last event
// and a frame that announces the end.
package feed
