// A server on the TypeScript SDK v2 with the extension for tasks of 2026-07-28.
//
//   node tasks.mjs --stdio
//   node tasks.mjs --http=PORT     (PORT 0 picks a free one; says "listening on URL" on stderr)
//
// The SDK has no tasks of its own: the methods are custom ones here, and what is sent is
// checked with the schemas of @modelcontextprotocol/ext-tasks. The tools are those that
// the official conformance suite asks for:
//
//   greet {name}              answers at once
//   slow_compute {seconds}    a task, unless the client does not know tasks or it is 0 s
//   failing_job, protocol_error_job   tasks that fail; the first needs tasks
//   confirm_delete {filename}, multi_input   tasks that ask for one or two things
//   test_tool_with_task       asks before it becomes a task
import { createServer } from 'node:http';
import { parseArgs } from 'node:util';
import { localhostHostValidation, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, inputRequired, ProtocolError, Server } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { randomUUID } from 'node:crypto';
import * as z from 'zod';

const extension = 'io.modelcontextprotocol/tasks';
const { values: flags } = parseArgs({ options: { stdio: { type: 'boolean' }, http: { type: 'string' } } });

const tasks = new Map();
const text = (value, more) => ({ content: [{ type: 'text', text: String(value) }], ...more });
const knows = ctx => ctx.mcpReq.envelope?.['io.modelcontextprotocol/clientCapabilities']?.extensions?.[extension] !== undefined
  || ctx.mcpReq._meta?.['io.modelcontextprotocol/clientCapabilities']?.extensions?.[extension] !== undefined;

const missing = () => new ProtocolError(-32021, 'Missing required client capability', { requiredCapabilities: { extensions: { [extension]: {} } } });

function view(task) {
  const { taskId, status, createdAt, lastUpdatedAt, result, error, asked } = task;
  const all = { taskId, status, createdAt, lastUpdatedAt, ttlMs: 600000, pollIntervalMs: 100 };
  if (status === 'completed') all.result = result;
  if (status === 'failed') all.error = error;
  if (status === 'input_required') all.inputRequests = Object.fromEntries(asked);
  return all;
}

function change(task, status, more) {
  if (['completed', 'failed', 'cancelled'].includes(task.status)) return;
  Object.assign(task, { status, lastUpdatedAt: new Date().toISOString() }, more);
}

function begin(work) {
  const now = new Date().toISOString();
  const task = { taskId: randomUUID(), status: 'working', createdAt: now, lastUpdatedAt: now, asked: new Map() };
  tasks.set(task.taskId, task);
  setImmediate(async () => {
    try {
      change(task, 'completed', { result: await work(task) });
    } catch (err) {
      change(task, 'failed', { error: { code: -32603, message: err.message } });
    }
  });
  return { ...view(task), resultType: 'task' };
}

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

// ask waits until all of the questions are answered by tasks/update.
function ask(task, questions) {
  return new Promise(resolve => {
    const answers = {};
    task.asked = new Map(Object.entries(questions));
    task.answer = (key, value) => {
      if (!task.asked.delete(key)) return;
      answers[key] = value;
      if (task.asked.size > 0) return;
      change(task, 'working');
      resolve(answers);
    };
    change(task, 'input_required');
  });
}

const question = message => ({
  method: 'elicitation/create',
  params: { mode: 'form', message, requestedSchema: { type: 'object', properties: { confirm: { type: 'boolean' } } } },
});

const tools = {
  greet: async ({ name = 'you' }) => text(`Hello, ${name}!`),
  async slow_compute({ seconds = 0, label = '' }, ctx) {
    if (!knows(ctx) || seconds === 0) {
      await sleep(seconds * 1000);
      return text(`computed ${label}`);
    }
    return begin(async () => (await sleep(seconds * 1000), text(`computed ${label}`)));
  },
  async failing_job(_, ctx) {
    if (!knows(ctx)) throw missing();
    return begin(async () => (await sleep(300), text('the job failed', { isError: true })));
  },
  async protocol_error_job(_, ctx) {
    if (!knows(ctx)) throw missing();
    return begin(async () => {
      throw new Error('the job broke');
    });
  },
  async confirm_delete({ filename = '' }, ctx) {
    if (!knows(ctx)) throw missing();
    return begin(async task => {
      const { confirm } = await ask(task, { confirm: question(`Delete ${filename}?`) });
      return text(`${filename}: ${confirm.action}`);
    });
  },
  async multi_input(_, ctx) {
    if (!knows(ctx)) throw missing();
    return begin(async task => text(Object.keys(await ask(task, { first: question('First?'), second: question('Second?') })).sort().join(' ')));
  },
  async test_tool_with_task(_, ctx, { inputResponses } = {}) {
    if (!knows(ctx)) throw missing();
    const answer = inputResponses?.user_name;
    if (!answer) return inputRequired({ inputRequests: { user_name: inputRequired.elicit({ message: 'Who?', requestedSchema: { type: 'object', properties: { name: { type: 'string' } } } }) } });
    return begin(async () => text(`Hello, ${JSON.stringify(answer.content)}`));
  },
};

function build() {
  const server = new Server({ name: 'tasks', version: '1.0.0' }, { capabilities: { tools: {}, extensions: { [extension]: {} } } });
  server.setRequestHandler('tools/list', async () => ({ tools: Object.keys(tools).map(name => ({ name, inputSchema: { type: 'object' } })) }));
  server.setRequestHandler('tools/call', async ({ params }, ctx) => {
    const tool = tools[params.name];
    if (!tool) throw new ProtocolError(-32602, `Unknown tool: ${params.name}`);
    return tool(params.arguments ?? {}, ctx, ctx.mcpReq);
  });
  const params = z.looseObject({ taskId: z.string() });
  const method = (name, handle) =>
    server.setRequestHandler(name, { params }, async (params, ctx) => {
      if (!knows(ctx)) throw missing();
      const task = tasks.get(params.taskId);
      if (!task) throw new ProtocolError(-32602, 'Failed to retrieve task: Task not found');
      return handle(task, ctx.mcpReq.inputResponses ?? params.inputResponses);
    });
  method('tasks/get', task => view(task));
  method('tasks/cancel', task => (change(task, 'cancelled'), {}));
  method('tasks/update', (task, answers = {}) => {
    for (const [key, value] of Object.entries(answers)) task.answer?.(key, value);
    return {};
  });
  return server;
}

if (flags.http !== undefined) {
  const serve = toNodeHandler(createMcpHandler(build));
  const allowed = localhostHostValidation();
  const http = createServer((req, res) => {
    if (allowed(req, res)) serve(req, res);
  });
  http.listen(Number(flags.http), '127.0.0.1', () => console.error(`listening on http://127.0.0.1:${http.address().port}/mcp`));
} else {
  serveStdio(build);
}
