// A client of the TypeScript SDKs that calls one tool after the other, for scripts/matrix.sh.
//
//   node matrix.mjs v1|v2-legacy|v2-modern|v2-auto CALLS URL
//   node matrix.mjs v1|v2-legacy|v2-modern|v2-auto CALLS COMMAND [ARG…]     (over stdio)
//
// CALLS is a JSON object of arguments by tool. A line "TOOL TEXT" is printed for each.
const [kind, calls, target, ...args] = process.argv.slice(2);

async function connect() {
  const http = target.startsWith('http') && new URL(target);
  if (kind === 'v1') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const client = new Client({ name: 'matrix', version: '1.0.0' }, { capabilities: {} });
    await client.connect(http ? new StreamableHTTPClientTransport(http) : new StdioClientTransport({ command: target, args, env: process.env, stderr: 'ignore' }));
    return client;
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  const mode = { 'v2-legacy': 'legacy', 'v2-modern': { pin: '2026-07-28' }, 'v2-auto': 'auto' }[kind];
  const client = new Client({ name: 'matrix', version: '1.0.0' }, { capabilities: {}, versionNegotiation: { mode } });
  await client.connect(http ? new StreamableHTTPClientTransport(http) : new StdioClientTransport({ command: target, args, env: process.env, stderr: 'ignore' }));
  return client;
}

const client = await connect();
const { tools } = await client.listTools();
for (const [name, given] of Object.entries(JSON.parse(calls))) {
  if (!tools.some(tool => tool.name === name)) {
    console.log(name, 'is not listed');
    continue;
  }
  try {
    const { content } = await client.callTool({ name, arguments: given });
    console.log(name, content[0].text);
  } catch (err) {
    console.log(name, `failed: ${err.message}`);
  }
}
await client.close();
