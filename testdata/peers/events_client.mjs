// The official TypeScript client polls and streams MCP Events.
//
//   node events_client.mjs URL
//
// Prints one line for each answer and notification, and ends when it has seen two
// events on a stream that began at the cursor of a poll.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import * as z from 'zod';

const client = new Client({ name: 'events', version: '0' }, { versionNegotiation: { mode: process.argv[3] ?? 'auto' } });
const stop = new AbortController();
let events = 0;
client.fallbackNotificationHandler = async n => {
  console.log(n.method, JSON.stringify(n.params));
  if (n.method === 'notifications/events/event' && ++events === 2) stop.abort();
};
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
const ask = (method, params, options) => client.request({ method, params }, z.looseObject({}), options);
console.log('capabilities', JSON.stringify(client.getServerCapabilities()));
console.log('list', JSON.stringify(await ask('events/list', {})));
const first = await ask('events/poll', { name: 'resource.updated', cursor: null });
console.log('poll', JSON.stringify(first));
await ask('events/stream', { name: 'resource.updated', cursor: first.cursor }, { signal: stop.signal, timeout: 60000 }).catch(e => console.log('ended', stop.signal.aborted, e.message));
console.log('again', JSON.stringify(await ask('events/poll', { name: 'resource.updated', cursor: first.cursor, maxEvents: 2 })));
await client.close();
