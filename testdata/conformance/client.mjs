// A client for the official conformance suite: it logs in with `mcptrack login` when a
// server asks for it, as a user would, lists the tools and calls each of them. The
// suite gives the URL as the last argument; MCPTRACK is the program.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

const url = process.argv.at(-1)
const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? ''
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT || '{}')
const modern = (process.env.MCP_CONFORMANCE_PROTOCOL_VERSION ?? '') >= '2026'
const dir = mkdtempSync(join(tmpdir(), 'conformance-'))
process.on('exit', () => rmSync(dir, { recursive: true, force: true }))

const oauth = {}
if (context.client_id) oauth.clientId = context.client_id
if (context.client_secret) oauth.clientSecret = '${CLIENT_SECRET}'
if (context.private_key_pem) {
  oauth.privateKeyFile = join(dir, 'key.pem')
  writeFileSync(oauth.privateKeyFile, context.private_key_pem, { mode: 0o600 })
}
if (scenario.startsWith('auth/client-credentials')) oauth.grant = 'client_credentials'
if (scenario === 'auth/basic-cimd') oauth.clientMetadataUrl = 'https://conformance-test.local/client-metadata.json'
const config = join(dir, 'mcp.json')
writeFileSync(config, JSON.stringify({ mcpServers: { docs: { url, type: 'http', protocol: modern ? 'modern' : 'legacy', oauth } } }))
const env = { PATH: process.env.PATH, HOME: dir, XDG_CONFIG_HOME: dir, XDG_CACHE_HOME: dir, MCPTRACK_TOKEN_STORE: 'file', CLIENT_SECRET: context.client_secret ?? '' }

function start(...args) {
  console.error('$ mcptrack', ...args)
  return spawn(process.env.MCPTRACK, ['--config', config, ...args], { env, stdio: ['pipe', 'pipe', 'pipe'] })
}

function collect(child) {
  return new Promise(resolve => {
    const got = { out: '', err: '' }
    child.stdout.on('data', d => { got.out += d })
    child.stderr.on('data', d => { got.err += d })
    child.on('close', code => {
      process.stderr.write(got.err)
      resolve({ ...got, code })
    })
  })
}

async function run(...args) {
  const child = start(...args)
  child.stdin.end()
  return collect(child)
}

// Logs in: reads the one line of stdout, goes there as a browser would, and answers with
// the address that the authorization server redirects to.
async function login() {
  const child = start('login', 'docs', '--no-browser', '--timeout', '2m', '--connect-timeout', '1m')
  const done = collect(child)
  const lines = createInterface({ input: child.stdout })
  lines.once('line', async line => {
    const answer = await fetch(line, { redirect: 'manual' })
    child.stdin.end((answer.headers.get('location') ?? '') + '\n')
  })
  return (await done).code
}

let logins = 0
// Runs a command, and logs in when that is what it says to do, at most three times.
async function command(...args) {
  for (;;) {
    const got = await run(...args)
    if (got.code === 0 || !(got.err + got.out).includes('mcptrack login')) return got
    if (++logins > 3 || await login() !== 0) return got
  }
}

const listed = await command('list', 'tools', '--json', '--timeout', '2m', '--connect-timeout', '1m')
let code = listed.code
if (code === 0) {
  for (const tool of JSON.parse(listed.out)) {
    const got = await command('call', 'docs', tool.name, '--timeout', '2m', '--connect-timeout', '1m')
    code ||= got.code
  }
}
process.exit(code)
