// A real authorization server (npm oidc-provider) in front of an MCP server whose tools
// need its tokens. Arguments: the seconds that an access token lasts. It prints one line:
// {"issuer": …, "url": …}. It rotates refresh tokens, and ends with stdin.
import { createServer } from 'node:http'
import { Provider } from 'oidc-provider'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { toNodeHandler } from '@modelcontextprotocol/node'

const seconds = Number(process.argv[2] ?? 5)

// Both listen first, because each has the address of the other in its metadata.
const listen = () => new Promise(resolve => {
  const server = createServer((q, p) => server.handle(q, p))
  server.listen(0, '127.0.0.1', () => resolve([server, `http://127.0.0.1:${server.address().port}`]))
})
const [as, issuer] = await listen()
const [rs, origin] = await listen()
const url = `${origin}/mcp`

const provider = new Provider(issuer, {
  clientDefaults: { grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] },
  scopes: ['openid', 'offline_access', 'notes'],
  pkce: { required: () => true },
  rotateRefreshToken: () => true,
  ttl: { AccessToken: seconds, RefreshToken: 3600, Grant: 3600, Session: 3600, Interaction: 600 },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: true },
    revocation: { enabled: true },
    introspection: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => url,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => {
        if (resource !== url) throw new Error('unknown resource')
        return { scope: 'notes', audience: url, accessTokenTTL: seconds, accessTokenFormat: 'opaque' }
      },
    },
  },
})
provider.on('server_error', (_, err) => console.error(err))
const answer = provider.callback()
as.handle = (q, p) => {
  if (q.url.startsWith('/.well-known/oauth-authorization-server')) q.url = '/.well-known/openid-configuration'
  answer(q, p)
}

const serve = toNodeHandler(createMcpHandler(() => {
  const mcp = new McpServer({ name: 'guarded', version: '1.0.0' }, { capabilities: { tools: {} } })
  mcp.registerTool('ping', { description: 'Answers pong.' }, async () => ({ content: [{ type: 'text', text: 'pong' }] }))
  return mcp
}, { legacy: 'stateless' }))

rs.handle = async (q, p) => {
  if (q.url === '/.well-known/oauth-protected-resource/mcp') {
    p.setHeader('content-type', 'application/json')
    return p.end(JSON.stringify({ resource: url, authorization_servers: [issuer], scopes_supported: ['notes'] }))
  }
  if (new URL(q.url, origin).pathname !== '/mcp') {
    p.statusCode = 404
    return p.end()
  }
  const token = (q.headers.authorization ?? '').replace(/^Bearer /, '')
  const known = token && await provider.AccessToken.find(token)
  if (!known || known.isExpired || known.aud !== url) {
    p.statusCode = 401
    p.setHeader('www-authenticate', `Bearer resource_metadata="${origin}/.well-known/oauth-protected-resource/mcp"` +
      (token ? ', error="invalid_token", error_description="the token is not valid"' : ''))
    return p.end()
  }
  serve(q, p)
}

console.log(JSON.stringify({ issuer, url }))
process.stdin.resume()
process.stdin.on('end', () => process.exit(0))
