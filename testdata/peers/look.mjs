// A client on the TypeScript SDK v2 that looks at a whole server and prints what it
// saw as one JSON object: its lists, and what came of the requests it was given.
//
//   node look.mjs legacy|modern REQUESTS URL
//   node look.mjs legacy|modern REQUESTS COMMAND [ARG…]     (over stdio)
//
// REQUESTS is a JSON array of {"tool"|"prompt"|"read"|"complete": …, "arguments": {…}}.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [era, requests, target, ...args] = process.argv.slice(2);
const transport = target.startsWith('http')
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args, env: process.env, stderr: 'ignore' });
const client = new Client(
  { name: 'look', version: '1.0.0' },
  { capabilities: {}, versionNegotiation: { mode: era === 'modern' ? { pin: '2026-07-28' } : 'legacy' } },
);
await client.connect(transport);

async function all(list, field) {
  const items = [];
  let cursor;
  do {
    const page = await list(cursor === undefined ? undefined : { cursor }).catch(error => {
      if (error.code === -32601) return { [field]: [] };
      throw error;
    });
    items.push(...page[field]);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return items;
}

async function answer({ tool, prompt, read, complete, arguments: given = {} }) {
  const progress = [];
  const onprogress = ({ progress: now, total, message }) => progress.push([now, total, message]);
  try {
    const result = tool
      ? await client.callTool({ name: tool, arguments: given }, { onprogress })
      : prompt
        ? await client.getPrompt({ name: prompt, arguments: given })
        : read
          ? await client.readResource({ uri: read })
          : await client.complete({ ...complete, ...given });
    return { result, progress };
  } catch (error) {
    return { error: { code: error.code, message: error.message, data: error.data } };
  }
}

const saw = {
  tools: await all(p => client.listTools(p), 'tools'),
  prompts: await all(p => client.listPrompts(p), 'prompts'),
  resources: await all(p => client.listResources(p), 'resources'),
  templates: await all(p => client.listResourceTemplates(p), 'resourceTemplates'),
  answers: [],
};
for (const request of JSON.parse(requests)) saw.answers.push(await answer(request));
console.log(JSON.stringify(saw));
await client.close();
