// A server on the TypeScript SDK v2 that does what a test tells it to, over stdio.
//
//   node scripted.mjs [--legacy=reject] [--no-subscribe] [--log=FILE]
//
// With --legacy=reject it speaks 2026-07-28 only, else whatever the client does. FILE
// gets a line when work begins and when it is cancelled, with the reason. Its tools
// change its world; what they announce is on the wire before they answer:
//
//   set {uri, text}           a resource's text; its update is announced
//   add, remove {kind, name}  an item of a list; the list's change is announced
//   describe {text}           the tool "shape" gets another description and schema
//   hold {uri}, release {}    the next read of the resource answers what was true when
//                             it was asked, but only once released
//   failLists {times}         so many lists of resources are refused
//   fail {}                   fails, as a tool does
//   work {steps, ms}          takes its time and reports progress; can be cancelled
//   cancelled {}              how many calls of work were cancelled
//   ask {method}              asks the client for something first
//   exit {}                   is gone at once
import { appendFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { inputRequired, Server } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const { values: flags } = parseArgs({
  options: { legacy: { type: 'string' }, log: { type: 'string' }, 'no-subscribe': { type: 'boolean', default: false } },
});

const texts = new Map(['a', 'b', 'c', 'd'].map(name => [`note:///${name}`, `${name} one\n`]));
texts.set('note:///ttl', 'fresh for a minute\n');
const listed = {
  resources: new Set(texts.keys()),
  prompts: new Set(['greet', 'farewell']),
  templates: new Set(['note:///{year}/{name}']),
  tools: new Set(['set', 'add', 'remove', 'describe', 'hold', 'release', 'failLists', 'fail', 'work', 'cancelled', 'ask', 'exit', 'shape']),
};
let shape = { description: 'Has a shape', inputSchema: { type: 'object', properties: { a: { type: 'string' } } } };
let failing = 0;
let cancelled = 0;
const held = new Map(); // by URI, what releases the read
const waiting = new Set(); // what release lets go

const log = line => flags.log !== undefined && appendFileSync(flags.log, `${line}\n`);
const text = value => ({ content: [{ type: 'text', text: String(value) }] });
const pause = (ms, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, ms);
  signal.addEventListener('abort', () => (clearTimeout(timer), reject(new Error('cancelled'))), { once: true });
});

function build({ era }) {
  const list = { listChanged: true };
  const server = new Server({ name: 'scripted', version: '1.0.0' }, {
    capabilities: { resources: { subscribe: !flags['no-subscribe'], listChanged: true }, tools: list, prompts: list, completions: {} },
    inputRequired: { legacyShim: false },
  });
  const subscribed = new Set();
  const announce = {
    resources: () => server.sendResourceListChanged(),
    templates: () => server.sendResourceListChanged(),
    tools: () => server.sendToolListChanged(),
    prompts: () => server.sendPromptListChanged(),
  };
  const tools = {
    async set({ uri, text: value }) {
      texts.set(uri, value);
      if (era !== 'legacy' || subscribed.has(uri)) await server.sendResourceUpdated({ uri });
      return text('set');
    },
    async add({ kind, name }) {
      listed[kind].add(name);
      if (kind === 'resources') texts.set(name, `${name} added\n`);
      await announce[kind]();
      return text('added');
    },
    async remove({ kind, name }) {
      listed[kind].delete(name);
      if (kind === 'resources') texts.delete(name);
      await announce[kind]();
      return text('removed');
    },
    async describe({ text: value }) {
      shape = { description: value, inputSchema: { type: 'object', required: ['b'], properties: { a: { type: 'number' }, b: { type: 'string' } } } };
      await announce.tools();
      return text('described');
    },
    async hold({ uri }) {
      held.set(uri, true);
      return text('held');
    },
    async release() {
      for (const resolve of waiting) resolve();
      waiting.clear();
      return text('released');
    },
    async failLists({ times }) {
      failing = times;
      await announce.resources();
      return text('failing');
    },
    async fail() {
      return { ...text('this tool always fails'), isError: true };
    },
    async work({ steps, ms }, ctx) {
      log('working');
      try {
        for (let i = 1; i <= steps; i++) {
          await pause(ms, ctx.mcpReq.signal);
          const progressToken = ctx.mcpReq._meta?.progressToken;
          if (progressToken !== undefined) {
            await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: i, total: steps, message: `step ${i}` } });
          }
        }
      } catch (err) {
        cancelled++;
        log(`cancelled: ${ctx.mcpReq.signal.reason?.message ?? ctx.mcpReq.signal.reason}`);
        throw err;
      }
      return text(`${steps} steps`);
    },
    async cancelled() {
      return text(cancelled);
    },
    async ask({ method }, ctx) {
      if (era !== 'legacy') {
        return inputRequired({ inputRequests: { why: inputRequired.elicit({ message: 'Why?', requestedSchema: { type: 'object', properties: {} } }) } });
      }
      const params = {
        'elicitation/create': { message: 'Why?', requestedSchema: { type: 'object', properties: {} } },
        'sampling/createMessage': { messages: [], maxTokens: 1 },
        'roots/list': undefined,
      }[method];
      try {
        await ctx.mcpReq.send({ method, params }, { timeout: 20000 });
        return text('answered');
      } catch (err) {
        return text(`${err.code} ${err.message}`);
      }
    },
    exit: () => process.exit(3),
    shape: async () => text('a shape'),
  };

  server.setRequestHandler('resources/list', () => {
    if (failing > 0) {
      failing--;
      throw new Error('the list is being rebuilt');
    }
    return { resources: [...listed.resources].map(uri => ({ uri, name: uri.slice(8), mimeType: 'text/plain' })) };
  });
  server.setRequestHandler('resources/templates/list', () => ({
    resourceTemplates: [...listed.templates].map(uriTemplate => ({ uriTemplate, name: 'dated', mimeType: 'text/plain' })),
  }));
  server.setRequestHandler('resources/read', async ({ params: { uri } }) => {
    const dated = /^note:\/\/\/(\d+)\/(.+)$/.exec(uri);
    const value = dated ? `${dated[2]} of ${dated[1]}\n` : texts.get(uri);
    if (value === undefined) throw Object.assign(new Error('Resource not found'), { code: era === 'legacy' ? -32002 : -32602, data: { uri } });
    if (held.delete(uri)) await new Promise(resolve => waiting.add(resolve));
    const result = { contents: [{ uri, mimeType: 'text/plain', text: value }] };
    return uri === 'note:///ttl' ? { ...result, ttlMs: 60000, cacheScope: 'public' } : result;
  });
  server.setRequestHandler('prompts/list', () => ({
    prompts: [...listed.prompts].map(name => ({ name, arguments: [{ name: 'who', required: true }] })),
  }));
  server.setRequestHandler('prompts/get', ({ params: { name, arguments: args } }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `${name} ${args?.who}` } }],
  }));
  server.setRequestHandler('completion/complete', ({ params: { ref, argument } }) => {
    const all = ref.type === 'ref/prompt' ? ['world', 'wonderland', 'moon'] : argument.name === 'year' ? ['2025', '2026'] : [];
    const values = all.filter(v => v.startsWith(argument.value));
    return { completion: { values, total: values.length } };
  });
  server.setRequestHandler('tools/list', () => ({
    tools: [...listed.tools].map(name => ({ name, inputSchema: { type: 'object' }, ...(name === 'shape' ? shape : {}) })),
  }));
  server.setRequestHandler('tools/call', ({ params: { name, arguments: args } }, ctx) => {
    if (!listed.tools.has(name)) throw Object.assign(new Error(`no tool ${name}`), { code: -32602 });
    return (tools[name] ?? (async () => text(name)))(args ?? {}, ctx);
  });
  if (era === 'legacy') {
    server.setRequestHandler('resources/subscribe', ({ params }) => (subscribed.add(params.uri), {}));
    server.setRequestHandler('resources/unsubscribe', ({ params }) => (subscribed.delete(params.uri), {}));
  }
  return server;
}

// A machine that is busy may send SIGTERM before the cancellation before it was read; the end
// of stdin ends this process.
process.on('SIGTERM', () => {});
serveStdio(build, { legacy: flags.legacy === 'reject' ? 'reject' : 'serve' });
