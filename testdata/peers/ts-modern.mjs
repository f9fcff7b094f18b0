// A small MCP server on the TypeScript SDK v2, protocol 2026-07-28.
//
//   node ts-modern.mjs --stdio [--legacy=reject]
//   node ts-modern.mjs --http=PORT [--legacy=reject]     (PORT 0 picks a free one)
//
// Over HTTP it listens on loopback only and says "listening on URL" on stderr.
// Without --legacy=reject the SDK also serves 2025-era clients: on stdio with
// subscriptions, over HTTP statelessly (no stream to push on).
//
// Every second one of the notes a.txt … e.txt changes, in turn, so each changes
// every five seconds. Every three seconds the note extra.txt and the tool extra
// come or go. The tool touch changes one note at once.
import { createServer } from 'node:http';
import { parseArgs } from 'node:util';
import { localhostHostValidation, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod';

const { values: flags } = parseArgs({
  options: { stdio: { type: 'boolean' }, http: { type: 'string' }, legacy: { type: 'string' } },
});
const rejectLegacy = (flags.legacy ?? process.env.LEGACY) === 'reject';

const uri = name => `note:///${name}`;
const revisions = new Map(['a.txt', 'b.txt', 'c.txt', 'd.txt', 'e.txt'].map(name => [name, 1]));
let extra = false;

// Who is to be told of a change: the live stdio connections, or the handler
// that holds the HTTP listen streams.
const listeners = new Set();
const tellUpdated = name => listeners.forEach(l => l.resourceUpdated(uri(name)));
const tellLists = () => listeners.forEach(l => l.listsChanged());

function change(name) {
  revisions.set(name, (revisions.get(name) ?? 0) + 1);
  tellUpdated(name);
  return revisions.get(name);
}

function read(name) {
  return async () => ({
    contents: [{ uri: uri(name), mimeType: 'text/plain', text: `${name} revision ${revisions.get(name) ?? 0}\n` }],
  });
}

function build() {
  const mcp = new McpServer(
    { name: 'ts-modern', version: '1.0.0' },
    { capabilities: { resources: { subscribe: true, listChanged: true }, tools: { listChanged: true } } },
  );
  for (const name of revisions.keys()) {
    mcp.registerResource(name, uri(name), { mimeType: 'text/plain', description: `Note ${name}` }, read(name));
  }
  mcp.registerTool(
    'touch',
    { description: 'Changes one note at once', inputSchema: z.object({ name: z.enum([...revisions.keys()]) }) },
    async ({ name }) => ({ content: [{ type: 'text', text: `revision ${change(name)}` }] }),
  );
  const note = mcp.registerResource('extra.txt', uri('extra.txt'), { mimeType: 'text/plain' }, read('extra.txt'));
  const tool = mcp.registerTool('extra', { description: 'Comes and goes' }, async () => ({ content: [] }));
  const show = () => {
    for (const item of [note, tool]) extra ? item.enable() : item.disable();
  };
  show();
  return { mcp, show };
}

// One connection on stdio, or one probe that is thrown away. A 2025-era client
// is told only of what it subscribed to; for 2026-07-28 the SDK filters.
function stdioConnection({ era }) {
  const { mcp, show } = build();
  const subscribed = new Set();
  if (era === 'legacy') {
    mcp.server.setRequestHandler('resources/subscribe', ({ params }) => (subscribed.add(params.uri), {}));
    mcp.server.setRequestHandler('resources/unsubscribe', ({ params }) => (subscribed.delete(params.uri), {}));
  }
  const listener = {
    resourceUpdated: target => {
      if (era === 'legacy' && !subscribed.has(target)) return;
      mcp.server.sendResourceUpdated({ uri: target }).catch(() => listeners.delete(listener));
    },
    listsChanged: show, // enable and disable announce themselves
  };
  listeners.add(listener);
  mcp.server.onclose = () => listeners.delete(listener);
  return mcp;
}

// The timers do not keep a stdio server alive whose stdin has ended.
const names = [...revisions.keys()];
let tick = 0;
setInterval(() => change(names[tick++ % names.length]), 1000).unref();
setInterval(() => ((extra = !extra), tellLists()), 3000).unref();

if (flags.http !== undefined) {
  const handler = createMcpHandler(() => build().mcp, { legacy: rejectLegacy ? 'reject' : 'stateless' });
  listeners.add({
    resourceUpdated: target => handler.notify.resourceUpdated(target),
    listsChanged: () => (handler.notify.resourcesChanged(), handler.notify.toolsChanged()),
  });
  const allowedHost = localhostHostValidation();
  const serve = toNodeHandler(handler);
  const http = createServer((req, res) => {
    if (!allowedHost(req, res)) return;
    if (new URL(req.url, 'http://localhost').pathname !== '/mcp') return void res.writeHead(404).end();
    serve(req, res);
  });
  http.listen(Number(flags.http), '127.0.0.1', () => {
    console.error(`listening on http://127.0.0.1:${http.address().port}/mcp`);
  });
} else if (flags.stdio) {
  serveStdio(stdioConnection, { legacy: rejectLegacy ? 'reject' : 'serve' });
} else {
  console.error('usage: ts-modern.mjs --stdio | --http=PORT [--legacy=reject]');
  process.exit(2);
}
