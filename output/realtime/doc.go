// Package realtime adds a message for every updated resource to a live conversation with OpenAI
// Realtime, GPT-Live, or an ElevenLabs agent.
//
// A [Session] is a connection that this program opens: the sideband of a running call or session,
// or a new session. A [Proxy] sits between an application and the endpoint, forwards everything, and
// adds messages to each session. A [DryRun] writes the client events that would be sent. All three
// receive events through Offer or Write, and ignore all types except resource.updated; a Proxy may also
// use tools.list_changed.
//
// Order and loss: a message describes the state of a resource. Only the newest pending update of
// each resource is sent (see [QueueOptions]); it covers the older ones. An update that is not newer
// than the last one is dropped. Updates are ordered by event ID within an epoch, and otherwise by
// time. Pending messages are sent together, as one item with one part each; if an item is rejected,
// each of its messages is sent again separately. A message counts as delivered when the endpoint
// acknowledges its item. Until then the item is sent again with the same ID: a limited number of
// times over a working connection, and over any number of lost ones. If the API acknowledges
// nothing, a message counts as delivered when the endpoint has answered a ping that was sent after
// it, and a message that is sent again may appear twice. A message that is rejected or abandoned is
// reported as a [Failure], and delivery continues with the next one. When the bounded queue is full,
// the oldest pending message is dropped and counted. Offer never waits for the network.
//
// Ownership: Run and ServeHTTP own their connections and goroutines, and wait for them. They call
// hooks, never concurrently for one session; a slow hook delays only its session.
//
// Memory: a session buffers at most 64 KiB of received data; a proxied session
// buffers this much in each direction.
//
// Libraries: github.com/coder/websocket implements WebSocket framing. It has no dependencies,
// supports contexts, and is used by OpenAI's own Go client. golang.org/x/time/rate limits the rate
// of items.
//
// The supported protocols are the GA version of OpenAI's Realtime API, GPT-Live, and ElevenLabs agents. A dialect
// of dialect.go is what differs between them when text is added; what they send back is in serverevent.go.
package realtime
