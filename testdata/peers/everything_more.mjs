// The published server-everything, with the tools named in a file in addition: one a line.
// Every process of it follows the file, so that its list of tools changes for all sessions.
//
//   node everything_more.mjs FILE
import { existsSync, readFileSync, watchFile } from 'node:fs';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { createServer } from './node_modules/@modelcontextprotocol/server-everything/dist/server/index.js';

const { server, cleanup } = createServer();
const more = new Map();
const follow = () => {
  const names = existsSync(process.argv[2]) ? readFileSync(process.argv[2], 'utf8').split('\n').filter(Boolean) : [];
  for (const [name, tool] of more) {
    if (!names.includes(name)) {
      tool.remove();
      more.delete(name);
    }
  }
  for (const name of names) {
    if (!more.has(name)) {
      more.set(name, server.registerTool(name, { description: 'added later' }, async () => ({ content: [{ type: 'text', text: `this is ${name}` }] })));
    }
  }
};
follow();
watchFile(process.argv[2], { interval: 50 }, follow);
await server.connect(new StdioServerTransport());
process.on('SIGINT', async () => {
  await server.close();
  cleanup();
  process.exit(0);
});
process.stdin.on('end', () => process.exit(0));
