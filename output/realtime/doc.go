// Package realtime adds a message about every updated resource to a live conversation:
// of OpenAI Realtime, GPT-Live, or an ElevenLabs agent.
//
// A [Session] is a connection that this program makes: the sideband of a running call or
// session, or a session that it opens. A [Proxy] stands between an application and the endpoint,
// forwards everything, and adds messages to each session. A [DryRun] writes what would be
// sent. All three are fed with events of any type by Offer or Write; other events than
// resource.updated are ignored.
//
// Order and loss: messages are about states. Of the updates of one resource that wait,
// only the newest is sent (see [QueueOptions]), which covers the others; an update that is
// not newer than the last one is dropped. Within an epoch the ids of events decide what is
// newer, without ids their times. Messages that wait are sent together, as one item with
// one part each; a rejected item is sent again message by message. A message counts as
// delivered when the endpoint acknowledges its item, which is sent again under the same id
// until then: a few times over one connection that works, and over any number of lost
// ones. With an API that acknowledges nothing, it counts as delivered when the endpoint
// has answered a ping that was sent after it, and what is sent again may appear twice. A
// message that is rejected or given up is reported as a [Failure], and the next one
// follows; [Progress] covers the rejected ones only. When the bounded queue is full, the
// message that has waited longest is dropped and counted. Offer never waits for the
// network.
//
// Ownership: Run and ServeHTTP own their connections and goroutines and wait for them.
// Hooks are called from those goroutines, never concurrently for one session; a slow hook
// delays its session and nothing else.
//
// Memory: a session holds at most 64 KiB of what is being read and as much of what is
// being written, a proxied one for each direction.
//
// github.com/coder/websocket does the framing: it has no dependencies, accepts contexts,
// and is what OpenAI's own Go client uses.
//
// The protocols are those of https://platform.openai.com/docs/guides/realtime in its GA
// form (the beta header is never sent), of GPT-Live, and of ElevenLabs agents. Each is a
// dialect, in a file of its own.
package realtime
