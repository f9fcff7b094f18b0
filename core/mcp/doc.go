// Package mcp holds the vocabulary of the Model Context Protocol: what our client
// side (core/session) and our server side (core/mcpserver) must spell alike. It has
// names, codes and the shapes of a few messages, and no behaviour beyond reading
// and writing them.
//
// Two eras are spoken. The legacy era is 2024-11-05 to 2025-11-25: an initialize
// handshake, resources/subscribe, and over HTTP a GET stream for notifications.
// The modern era is 2026-07-28: server/discover, subscriptions/listen, and the
// protocol version in _meta of every request.
//
// Source: https://modelcontextprotocol.io/specification, one directory per version.
package mcp
