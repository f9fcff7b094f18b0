// Package login obtains tokens for servers that require OAuth, stores them, and renews them once
// for all processes of a user.
//
// A [Store] stores logins. A [Flow] is one login with a browser. A [TokenSource] supplies the
// Authorization header for requests to one server, and renews its token.
//
// # Where a token is sent
//
// A token is bound to the URL of the server that it was obtained for, and to the issuer and the
// client that obtained it. The caller of a [TokenSource] must send it only to that server's origin
// and must not follow redirects. No error or log record of this package contains a token.
//
// # Promises
//
//   - One renewal: a process whose token has expired or was refused acquires the lock file of the
//     server's logins, reads the login again, and renews it only if the token is still the same.
//   - A new token is written to disk before it is used. If a process dies after the authorization
//     server has responded and before the token is stored, the token is lost; the next process can
//     report that, because a mark was written before the request.
//   - Only a refusal by the authorization server ends a login. After any other failure, the
//     login is unchanged and the renewal can be retried.
//   - Only [Store.Delete] deletes logins.
//
// # What is trusted
//
// The server's URL and the config are trusted; responses from the server and the authorization
// server are not. Metadata of the server must come from its own origin and describe that server.
// Metadata of an authorization server must specify the issuer that it was requested for, and
// support PKCE with S256. Metadata at an address in the config may specify any issuer, so an
// assertion for its token endpoint is valid only there. A client in the config remains bound to the
// authorization server with which it was first used, unless the config specifies another one.
// Endpoints must use https, or http on this machine; endpoints and issuers must be printable ASCII,
// because terminals, browsers and logs display them. Redirects are followed only for metadata and
// within one origin. The size of responses is limited.
//
// Package guarded decides which addresses a server can make mcptrack contact.
//
// # Libraries
//
// golang.org/x/oauth2 builds authorization URLs and sends the token requests for all grants,
// through its clientcredentials package, because only that package supports the parameter
// "resource" (RFC 8707) in a refresh. The official Go SDK is not used, because its handler keeps
// tokens in memory and refreshes them without coordination with other processes, and its oauthex
// package links a JSON library of its own. The handler of mcp-go is not used because its store has no
// lock, it treats a network error as a logout, and it supports neither client ID metadata documents,
// nor iss (RFC 9207), nor grants without a user. golang-jwt/jwt signs client assertions. gofrs/flock
// provides the lock files.
package login
