// Two unmodified clients use the tools of gateway --change-tools.
//
//   node change_tools.mjs ts|ai URL
//   node change_tools.mjs ts|ai COMMAND ARGS…
//
// Prints one line for each answer.
const [which, target, ...args] = process.argv.slice(2);
const url = target.startsWith('http') ? new URL(target) : undefined;
const show = (what, value) => console.log(what, JSON.stringify(value));

let call, close;
if (which === 'ts') {
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  const client = new Client({ name: 'changes', version: '0' }, { versionNegotiation: { mode: 'auto' } });
  await client.connect(url ? new StreamableHTTPClientTransport(url) : new StdioClientTransport({ command: target, args, env: process.env, stderr: 'ignore' }));
  show('instructions', client.getInstructions());
  show('tools', (await client.listTools()).tools.map(t => t.name));
  call = (name, args, options) => client.callTool({ name, arguments: args }, options);
  close = () => client.close();
} else {
  const { createMCPClient } = await import('@ai-sdk/mcp');
  const { Experimental_StdioMCPTransport: Stdio } = await import('@ai-sdk/mcp/mcp-stdio');
  const client = await createMCPClient({ transport: url ? { type: 'http', url: target } : new Stdio({ command: target, args, env: process.env, stderr: 'ignore' }) });
  const tools = await client.tools();
  show('tools', Object.keys(tools));
  call = (name, args) => tools[name].execute(args, { toolCallId: name, messages: [] });
  close = () => client.close();
}

const begin = await call('changes_since', {});
show('since', begin);
const waited = await call('wait_for_changes', { cursor: begin.structuredContent.cursor, timeoutMs: 45000 });
show('waited', waited);
if (which === 'ts') {
  const quiet = { cursor: waited.structuredContent.cursor, uri: 'none:at-all' };
  const stop = new AbortController();
  setTimeout(() => stop.abort(), 100);
  await call('wait_for_changes', { ...quiet, timeoutMs: 45000 }, { signal: stop.signal }).then(() => show('not cancelled', null), e => show('cancelled', e.message));
  if (!url) {
    const over = await call('wait_for_changes', { ...quiet, timeoutMs: 5500 }, { onprogress: p => show('progress', p) });
    show('over', over.structuredContent);
  }
}
show('again', (await call('changes_since', { cursor: begin.structuredContent.cursor, server: 'a' })).structuredContent);
await close();
process.exit(0);
