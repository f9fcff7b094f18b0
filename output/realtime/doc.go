// Package realtime puts a message about every updated resource into a live
// OpenAI Realtime conversation.
//
// A [Session] is a connection of our own: the sideband of a running WebRTC or SIP
// call, or a session that we open. A [Proxy] stands between an application and
// the endpoint, passes everything through, and puts messages into each session
// that passes. A [DryRun] writes what would be sent. All three are fed by Offer or
// Write with events of any type; those that are not resource.updated are ignored.
//
// Order and loss: messages are about states. Of the updates of one resource that
// wait, only the newest is sent (see [QueueOptions]); an update that is not newer
// than the last one is dropped. A message counts as delivered when the endpoint
// acknowledges it, and is sent again under the same item id until then: over one
// connection that works a few times, over others that were lost as often as it
// takes. A message that is refused or given up is told as a [Failure], and the next
// one follows. When the bounded queue is full, the message that waited longest is
// lost, and counted. Offer never waits for the network.
//
// Ownership: Run and ServeHTTP own their connections and goroutines and wait for
// them. Hooks are called from those goroutines, never at the same time for one
// session; a slow hook slows its session and nothing else.
//
// Memory: of what is being read no more than 64 KiB at a time is held, and of what
// is being written as much, by a session and for each direction of one that passes
// the proxy.
//
// github.com/coder/websocket does the framing: it has no dependencies, takes
// contexts, and is what OpenAI's own Go client uses.
//
// The protocol is that of https://platform.openai.com/docs/guides/realtime in its
// GA form; the beta header is never sent.
package realtime
