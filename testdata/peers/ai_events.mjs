// The AI SDK subscribes to MCP Events by webhook.
//
//   TOKEN=… node ai_events.mjs URL
//
// Its receiver listens on loopback. Prints one line for each event that it took, and
// ends when it has had one before and one after a refresh, one after a refresh with another
// secret, and has unsubscribed.
import http from 'node:http';
import { randomBytes } from 'node:crypto';
import { createMCPClient, experimental_createMCPEventWebhook as webhook } from '@ai-sdk/mcp';

const subscriptions = new Map();
const store = {
  get: async key => subscriptions.get(key),
  getById: async id => [...subscriptions.values()].find(s => s.id === id),
  set: async s => void subscriptions.set(s.key, s),
  update: async (key, change) => void subscriptions.set(key, { ...subscriptions.get(key), ...change }),
  delete: async key => void subscriptions.delete(key),
};
let events = 0;
let arrived = () => {};
const handle = webhook({
  store,
  onEvent: async e => {
    console.log('event', JSON.stringify(e.event));
    events++;
    arrived();
  },
});
const server = http.createServer(async (q, r) => {
  const parts = [];
  for await (const part of q) parts.push(part);
  const a = await handle(new Request('http://' + q.headers.host + q.url, { method: q.method, headers: q.headers, body: Buffer.concat(parts) }));
  const body = JSON.parse(Buffer.concat(parts).toString());
  console.log('answered', a.status, body.type ?? 'event', q.headers['webhook-signature'].split(' ').length);
  r.writeHead(a.status, Object.fromEntries(a.headers)).end(Buffer.from(await a.arrayBuffer()));
});
await new Promise(ready => server.listen(0, '127.0.0.1', ready));
const until = async n => { while (events < n) await new Promise(next => { arrived = next; }); };

const client = await createMCPClient({
  transport: { type: 'http', url: process.argv[2], headers: { Authorization: 'Bearer ' + process.env.TOKEN } },
  experimental_events: { store },
});
const s = await client.experimental_events.subscribe({
  name: 'resource.updated', arguments: {}, ttlMs: 600000,
  delivery: { mode: 'webhook', url: `http://127.0.0.1:${server.address().port}/cb`, allowInsecureLocalhost: true },
});
console.log('subscribed', s.id);
await until(1);
await client.experimental_events.refresh({ id: s.id });
console.log('refreshed');
await until(events + 1);
const [kept] = subscriptions.values();
await store.update(kept.key, { delivery: { ...kept.delivery, secret: 'whsec_' + randomBytes(32).toString('base64') } });
console.log('rotating'); // until the answer, messages have only the signature of the old secret
await client.experimental_events.refresh({ id: s.id });
console.log('rotated');
await until(events + 1);
await client.experimental_events.unsubscribe({ id: s.id });
console.log('unsubscribed');
process.exit(0);
