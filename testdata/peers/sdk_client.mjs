// A client on the TypeScript SDK v2 that goes through everything the test server
// of core/mcpserver ("house") has, and prints what it saw as one JSON object.
//
//   node sdk_client.mjs legacy|modern URL
//   node sdk_client.mjs legacy|modern COMMAND [ARG…]     (over stdio)
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [era, target, ...args] = process.argv.slice(2);
const modern = era === 'modern';
const transport = target.startsWith('http')
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args, env: process.env, stderr: 'inherit' });

const news = [];
let wake = () => {};
const client = new Client(
  { name: 'house-client', version: '1.0.0' },
  { capabilities: {}, versionNegotiation: { mode: modern ? { pin: '2026-07-28' } : 'legacy' } },
);
for (const method of ['resources/updated', 'tools/list_changed', 'prompts/list_changed', 'resources/list_changed']) {
  client.setNotificationHandler(`notifications/${method}`, ({ params }) => {
    news.push(params?.uri ? `${method} ${params.uri}` : method);
    wake();
  });
}
const errors = [];
client.onerror = error => errors.push(String(error));

// Resolves with the news so far once there are enough of them.
const enough = async count => {
  while (news.length < count) await new Promise(resolve => (wake = resolve));
  return news.splice(0);
};
const refusal = async promise => promise.then(() => 'no error', error => error.code ?? String(error));
const all = async (list, field) => {
  const items = [];
  let cursor;
  do {
    const page = await list(cursor === undefined ? undefined : { cursor });
    items.push(...page[field].map(item => item.uri ?? item.uriTemplate ?? item.name));
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return items;
};

const saw = {};
await client.connect(transport);
saw.server = client.getServerVersion();
saw.capabilities = client.getServerCapabilities();
saw.version = client.getNegotiatedProtocolVersion?.();
saw.tools = await all(p => client.listTools(p), 'tools');
saw.prompts = await all(p => client.listPrompts(p), 'prompts');
saw.resources = await all(p => client.listResources(p), 'resources');
saw.templates = await all(p => client.listResourceTemplates(p), 'resourceTemplates');
saw.read = (await client.readResource({ uri: 'note:///a' })).contents[0].text;
saw.prompt = (await client.getPrompt({ name: 'greet', arguments: { who: 'you' } })).messages.length;
saw.completion = (
  await client.complete({ ref: { type: 'ref/prompt', name: 'greet' }, argument: { name: 'who', value: 'p' } })
).completion.values;
saw.odd = (await client.callTool({ name: 'odd', arguments: {} })).content.length;
saw.missingNote = await refusal(client.readResource({ uri: 'note:///zzz' }));
saw.missingTool = await refusal(client.callTool({ name: 'missing', arguments: {} }));
saw.panic = await refusal(client.callTool({ name: 'panic', arguments: {} }));
saw.progress = [];
const onprogress = ({ progress }) => {
  // This SDK drops progress that comes together with the answer: hold that back.
  if (saw.progress.push(progress) === 3) client.callTool({ name: 'proceed', arguments: {} });
};
await client.callTool({ name: 'progress', arguments: { hold: true } }, { onprogress });
const abort = new AbortController();
setTimeout(() => abort.abort(), 100);
await refusal(client.callTool({ name: 'wait', arguments: {} }, { signal: abort.signal }));

const uris = ['note:///a', 'note:///b'];
let subscription;
if (modern) {
  subscription = await client.listen({
    toolsListChanged: true,
    resourceSubscriptions: [...uris, 'other:///x'],
  });
  saw.honoured = subscription.honoredFilter;
} else {
  for (const uri of uris) await client.subscribeResource({ uri });
  saw.refused = await refusal(client.subscribeResource({ uri: 'other:///x' }));
  await client.unsubscribeResource({ uri: 'note:///b' });
}
await client.callTool({ name: 'write', arguments: { name: 'c', text: 'nobody asked' } });
await client.callTool({ name: 'write', arguments: { name: 'a', text: 'a 1' } });
saw.updates = await enough(1);
saw.readAgain = (await client.readResource({ uri: 'note:///a' }, { cacheMode: 'bypass' })).contents[0].text;
await client.callTool({ name: 'drop', arguments: { tool: 'odd' } });
saw.changes = await enough(1);
saw.toolsAfter = (await all(p => client.listTools(p), 'tools')).length;
await subscription?.close();
saw.errors = errors;
console.log(JSON.stringify(saw));
await client.close();
