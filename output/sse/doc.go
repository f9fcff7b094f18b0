// Package sse sends the log of events to any number of HTTP clients as
// server-sent events (WHATWG HTML, §9.2).
//
// # Routes
//
// [Hub.Feed] is the VibeChat feed: updates and errors of resources in the shape
// that its clients know, and ids. [Hub.Events] is everything, with filters,
// checkpoints and gaps. Both resume.
//
// # Order and loss
//
// There is one order, that of the log, and one domain of ids, <epoch>-<seq>. A
// client sees every event that its filters pass once, in that order, from where it
// asked to begin: Last-Event-ID, ?lastEventId= (both an id, in this order of
// precedence), or ?since= (an id, a number, "earliest", "latest", an RFC 3339 time
// or a duration back from now); else from now on. What cannot be told any more is
// told as an event "gap". A client that reconnects with the last id that it saw
// misses nothing, and sees nothing twice but errors in the feed: their frames have
// no id there, as its clients know them, so those after the last update come again.
//
// A stream of Events begins with an event "checkpoint", so that a client has an id
// before the first event, and has more of them when filters hide what happens: an
// id is then never far behind, and resuming needs no long search. The feed cannot
// have that; its first id comes with its first update.
//
// # How it works
//
//	log ── one follower ──▶ ring of frames, encoded once ──▶ clients, each with its place
//	 └───────────── pages of history, large ones bounded in number ────▶ ┘
//
// The follower never waits for a client. Clients are woken at once after a silence
// and then at most every 5 ms, which makes one write of many events. One that the
// ring overruns, or that does not take a write within 5 s, is closed; it comes
// back with its id and reads history. Of that it gets a page of 1 MiB at a time or,
// while 32 others have not taken theirs, of 64 KiB. So nobody's slowness reaches
// anybody else, but for one case: an event of more than 128 KiB waits for a large
// page. Memory is bounded by the ring, the large pages, and for every client about
// 25 KiB, or 150 KiB while it takes history.
//
// A client too many, or one that comes while the hub shuts down, gets 200, a time
// to retry, and the end: EventSource gives up for good on any other status.
//
// # Ownership
//
// [Hub.Run] owns the follower and the waker. Handlers belong to their server;
// [Hub.Shutdown] ends them, after the last event and a frame that says so.
//
// Library: doublestar for globs, as in configs.
package sse
