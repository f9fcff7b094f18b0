// A legacy client on one of the TypeScript SDKs that does what its standard input says.
//
//   node driven.mjs sdk|client URL [TOKEN]
//
// sdk is @modelcontextprotocol/sdk (v1), client is @modelcontextprotocol/client (v2). A line of
// input is {"do": METHOD, "with": PARAMS}: one request. A line of output is {"answer": RESULT},
// {"error": TEXT, "code": CODE}, {"news": METHOD, "uri": URI} or {"trouble": TEXT} of the transport.
// {"do": "wait", "with": {"ms": N}} is answered after that time. With MCPTRACK_TEST_HURRY, times of up
// to 10 s pass a hundred times as fast.
import { createInterface } from 'node:readline';

if (process.env.MCPTRACK_TEST_HURRY) {
  const real = globalThis.setTimeout;
  globalThis.setTimeout = (f, ms, ...args) => real(f, ms <= 10_000 ? ms / 100 : ms, ...args);
}
const [library, url, token] = process.argv.slice(2);
const say = line => process.stdout.write(`${JSON.stringify(line)}\n`);
const requestInit = token ? { headers: { Authorization: `Bearer ${token}` } } : undefined;
const news = ({ method, params }) => say({ news: method, uri: params?.uri });

let client, transport;
if (library === 'sdk') {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  client = new Client({ name: 'driven', version: '1.0.0' }, { capabilities: {} });
  client.fallbackNotificationHandler = news;
  transport = new StreamableHTTPClientTransport(new URL(url), { requestInit });
} else {
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  client = new Client({ name: 'driven', version: '1.0.0' }, { capabilities: {}, versionNegotiation: { mode: 'legacy' } });
  client.fallbackNotificationHandler = news;
  transport = new StreamableHTTPClientTransport(new URL(url), { requestInit });
}
const methods = {
  'tools/list': p => client.listTools(p),
  'tools/call': p => client.callTool(p),
  'resources/list': p => client.listResources(p),
  'resources/read': p => client.readResource(p),
  'resources/subscribe': p => client.subscribeResource(p),
  'resources/unsubscribe': p => client.unsubscribeResource(p),
  wait: ({ ms }) => new Promise(resolve => setTimeout(resolve, ms)),
  terminate: () => transport.terminateSession(),
};
client.onerror = error => say({ trouble: String(error) });
await client.connect(transport);
say({ answer: { session: transport.sessionId } });
for await (const line of createInterface({ input: process.stdin })) {
  const { do: method, with: params } = JSON.parse(line);
  methods[method](params).then(
    answer => say({ answer: answer ?? null }),
    error => say({ error: String(error.message ?? error), code: error.code }),
  );
}
await client.close();
