// A client on the TypeScript SDK v2, for scripts/bench.
//
//   node client.mjs list SERVER [ARG…]
//   node client.mjs watch COUNT RATE PRINT SERVER [ARG…]
//
// list asks for tools, resources and prompts. watch subscribes to all resources,
// says "ready", has the load server send COUNT notifications at RATE a second
// and prints each URI if PRINT is 1, else only the last.
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const last = 'blast://r/999999';
const [mode, ...rest] = process.argv.slice(2);
const [count, rate, print] = mode === 'watch' ? rest.splice(0, 3).map(Number) : [];
const [command, ...args] = rest;

const client = new Client({ name: 'ts-client', version: '1.0.0' }, { capabilities: {} });
client.setNotificationHandler('notifications/resources/updated', ({ params }) => {
  if (print || params.uri === last) process.stdout.write(`${params.uri}\n`);
});
await client.connect(new StdioClientTransport({ command, args, stderr: 'ignore' }));

async function allResources() {
  const all = [];
  let cursor;
  do {
    const page = await client.listResources(cursor === undefined ? undefined : { cursor });
    all.push(...page.resources);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return all;
}

if (mode === 'list') {
  const { tools } = await client.listTools();
  const resources = await allResources();
  const { prompts } = await client.listPrompts();
  console.log(tools.length, resources.length, prompts.length);
  await client.close();
} else {
  const resources = await allResources();
  await Promise.all(resources.map(({ uri }) => client.subscribeResource({ uri })));
  process.stdout.write('ready\n');
  if (count > 0) await client.callTool({ name: 'blast', arguments: { count, rate } });
}
