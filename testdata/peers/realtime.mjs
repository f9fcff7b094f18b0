// An endpoint and the applications around a proxy, all of them official or independent
// packages: aimock is the endpoint, and OpenAIRealtimeWS of openai and RealtimeSession of
// @openai/agents-realtime are the applications. Prints the URL of the endpoint, reads that
// of the proxy from stdin, and then prints as one JSON document what each application saw.
import { LLMock } from '@copilotkit/aimock'
import { RealtimeAgent, RealtimeSession, OpenAIRealtimeWebSocket } from '@openai/agents-realtime'
import OpenAI from 'openai'
import { OpenAIRealtimeWS } from 'openai/realtime/ws'
import { createInterface } from 'node:readline'

const key = 'sk-of-the-application'
const mock = new LLMock({ port: 0 })
mock.onMessage(/./, { content: 'Understood.' })
const end = await mock.start()
console.log(end.replace(/^http/, 'ws'))
const lines = createInterface({ input: process.stdin })
const proxy = (await lines[Symbol.asyncIterator]().next()).value

const isUpdate = item => item?.id?.startsWith('mt_')

// Collects updates until there are two, then asks for a response and waits for its end.
async function openai() {
  const rt = new OpenAIRealtimeWS({ model: 'gpt-realtime' }, new OpenAI({ apiKey: key, baseURL: proxy.replace(/^wss/, 'https') + '/v1' }))
  const seen = { items: [], errors: [], said: '' }
  await new Promise((resolve, reject) => {
    rt.on('error', e => { seen.errors.push(String(e)); reject(e) })
    rt.on('conversation.item.added', e => {
      if (!isUpdate(e.item) || seen.asked) return // later ones may come after what the model gets
      seen.items.push(...e.item.content.map(part => part.text))
      if (seen.items.length >= 2) {
        seen.asked = true
        rt.send({ type: 'session.update', session: { type: 'realtime', output_modalities: ['text'] } })
        rt.send({ type: 'response.create' })
      }
    })
    rt.on('response.output_text.done', e => { seen.said += e.text })
    rt.on('response.done', resolve)
  })
  rt.close()
  return seen
}

async function agents() {
  const transport = new OpenAIRealtimeWebSocket({ url: proxy + '/v1/realtime?model=gpt-realtime', useInsecureApiKey: true })
  const session = new RealtimeSession(new RealtimeAgent({ name: 'test', instructions: 'Be brief.' }), { transport, model: 'gpt-realtime' })
  const seen = { items: [], errors: [] }
  const done = new Promise(resolve => {
    session.on('error', e => { seen.errors.push(JSON.stringify(e)); resolve() })
    session.on('history_updated', history => {
      seen.items = history.filter(item => item.itemId.startsWith('mt_')).flatMap(item => item.content.map(part => part.text))
      if (seen.items.length >= 2) resolve()
    })
  })
  await session.connect({ apiKey: key })
  await done
  session.close()
  return seen
}

const [a, b] = await Promise.all([openai(), agents()])
console.log(JSON.stringify({ openai: a, agents: b, paths: mock.getRequests().map(r => r.path), asked: mock.getRequests().map(r => JSON.stringify(r.body?.messages)) }))
await mock.stop()
process.exit(0)
