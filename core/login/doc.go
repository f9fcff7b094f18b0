// Package login obtains the tokens of servers that want OAuth, keeps them, and renews
// them once for all processes of a user.
//
// A [Store] keeps logins. A [Flow] is one login with a browser; a [TokenSource] supplies the
// header of the requests to one server, and renews its token.
//
// # Where a token goes
//
// A token belongs to the URL of the server that it was obtained for, and to the issuer and the
// client that it was obtained from. The caller of a [TokenSource] sends it to that server's origin
// only and follows no redirect. No error or log record of this package contains it.
//
// # Promises
//
//   - One renewal: a process that finds a token expired or refused takes the lock file of
//     the server's logins, reads the login again, and renews it only if its token is still
//     the same.
//   - A new token is on disk before it is used. If a process dies after the authorization
//     server answered and before the token is stored, the token is lost; the next process
//     reports that, because a mark was written before the request.
//   - Only a refusal by the authorization server ends a login. After any other failure the
//     login is unchanged, and the renewal can be tried again.
//   - Only [Store.Delete] deletes logins.
//
// # What is trusted
//
// The server's URL and the config are; whatever the server or the authorization server
// answers is not. Metadata of the server comes from its own origin and must be about it;
// metadata of an authorization server must name the issuer that it was requested for, and
// PKCE with S256. Metadata at an address in the config may name any issuer, so an assertion for
// its token endpoint is valid there only. A client in the config stays with the
// authorization server that it was used at first, unless the config names another one. Endpoints are https, or http on this machine; they and issuers are printable ASCII,
// as terminals, browsers and logs show them. Redirects are followed
// within one origin only, and only where metadata is read. Answers are bounded.
//
// Only a server all of whose addresses are private can make us send requests to private
// addresses; package ipscope says which those are. What is checked is the address that is
// dialled. Through a proxy of the environment it is the address that this machine knows for the
// name, if any, and a server that is reached so does not count as private.
//
// # Libraries
//
// golang.org/x/oauth2 builds authorization URLs and makes token requests: of all grants
// through its clientcredentials package, because only that one allows the parameter
// "resource" (RFC 8707) in a refresh. The official Go SDK's oauthex package parses
// challenges, reads and checks the metadata of authorization servers and registers clients;
// its auth package is not used, as its handler keeps tokens in memory and refreshes
// without regard to other processes. For the same reason the handler of mcp-go, our
// client library, is not used: its store has no lock, a network error counts as a
// logout, and it knows neither client ID metadata documents, nor iss (RFC 9207), nor
// grants without a user. golang-jwt/jwt signs client assertions. gofrs/flock locks.
package login
