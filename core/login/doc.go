// Package login obtains the tokens of servers that require OAuth, stores them, and renews them
// once for all processes of a user.
//
// A [Store] stores logins. A [Flow] is one login with a browser. A [TokenSource] supplies the
// Authorization header for the requests to one server, and renews its token.
//
// # Where a token goes
//
// A token belongs to the URL of the server that it was obtained for, and to the issuer and the
// client that obtained it. The caller of a [TokenSource] sends it only to that server's origin
// and follows no redirect. No error or log record of this package contains it.
//
// # Promises
//
//   - One renewal: a process whose token has expired or was refused takes the lock file of the
//     server's logins, reads the login again, and renews it only if the token is still the same.
//   - A new token is on disk before it is used. If a process dies after the authorization server
//     has responded and before the token is stored, the token is lost; the next process reports
//     that, because a mark was written before the request.
//   - Only a refusal by the authorization server ends a login. After any other failure the
//     login is unchanged and the renewal can be retried.
//   - Only [Store.Delete] deletes logins.
//
// # What is trusted
//
// The server's URL and the config are trusted; responses of the server and the authorization
// server are not. Metadata of the server must come from its own origin and describe it.
// Metadata of an authorization server must name the issuer that it was requested for, and PKCE
// with S256. Metadata at an address in the config may name any issuer, so an assertion for its
// token endpoint is valid only there. A client in the config stays with the authorization server
// that it was first used at, unless the config names another one. Endpoints are https, or http
// on this machine; they and issuers are printable ASCII, because terminals, browsers and logs
// show them. Redirects are followed only for metadata and within one origin. Responses are
// bounded.
//
// A server can make us send requests to private addresses only if all its own addresses are
// private; package ipscope decides which are. The check applies to the address that is dialled.
// Behind a proxy of the environment, it applies to the address that this machine knows for the
// name, if any, and a server that is reached through a proxy does not count as private.
//
// # Libraries
//
// golang.org/x/oauth2 builds authorization URLs and makes the token requests of all grants,
// through its clientcredentials package: only that package allows the parameter "resource"
// (RFC 8707) in a refresh. The official Go SDK's oauthex package parses challenges, reads and
// checks the metadata of authorization servers and registers clients. Its auth package is not
// used, because its handler keeps tokens in memory and refreshes without regard to other
// processes. The handler of mcp-go, our client library, is not used for the same reason: its
// store has no lock, a network error counts as a logout, and it knows neither client ID metadata
// documents, nor iss (RFC 9207), nor grants without a user. golang-jwt/jwt signs client
// assertions. gofrs/flock locks.
package login
