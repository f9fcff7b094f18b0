// Package realtime adds a message about every updated resource to a live conversation: of OpenAI
// Realtime, GPT-Live, or an ElevenLabs agent.
//
// A [Session] is a connection that this program makes: the sideband of a running call or session, or
// a session that it opens. A [Proxy] stands between an application and the endpoint, forwards
// everything, and adds messages to each session. A [DryRun] writes what would be sent. All three get
// events by Offer or Write, and ignore all types except resource.updated (and tools.list_changed, if
// tools are imported).
//
// Order and loss: messages are about states. Of the waiting updates of one resource only the newest
// is sent (see [QueueOptions]), which covers the others. An update that is not newer than the last
// one is dropped. Event IDs decide what is newer within an epoch, times decide without IDs. Waiting
// messages are sent together, as one item with one part each; a rejected item is sent again message
// by message. A message counts as delivered when the endpoint acknowledges its item. Until then the
// item is sent again under the same ID: a few times over a working connection, and over any number
// of lost ones. If the API acknowledges nothing, a message counts as delivered when the endpoint has
// answered a ping that was sent after it, and a repeated message may appear twice. A message that is
// rejected or abandoned is reported as a [Failure], and the next one follows; [Progress] covers only
// the rejected ones. When the bounded queue is full, the oldest waiting message is dropped and
// counted. Offer never waits for the network.
//
// Ownership: Run and ServeHTTP own their connections and goroutines, and wait for them. They call
// hooks, never concurrently for one session; a slow hook delays only its session.
//
// Memory: a session holds at most 64 KiB of what it reads and 64 KiB of what it writes; a proxied
// session holds that for each direction.
//
// github.com/coder/websocket does the framing: it has no dependencies, accepts contexts, and is what
// OpenAI's own Go client uses. golang.org/x/time/rate limits items.
//
// The protocols are https://platform.openai.com/docs/guides/realtime in its GA version (the beta
// header is never sent), GPT-Live, and ElevenLabs agents. Each is a dialect, in its own file.
package realtime
