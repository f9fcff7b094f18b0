package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

// versionError is the error for a server that answered, but supports no version that we
// support.
type versionError struct {
	method    string
	supported []string // as listed by the server; may be empty
}

func (e *versionError) Error() string {
	if len(e.supported) == 0 {
		return e.method + ": the server names no protocol version"
	}
	return fmt.Sprintf("%s: the server speaks only %.200q", e.method, strings.Join(e.supported, ", "))
}

// handshake determines the era and version of a server, over one connection.
type handshake struct {
	conn     *wire.Conn
	requests *requester
	redact   redactor
}

func newHandshake(s *Session, conn *wire.Conn) *handshake {
	return &handshake{conn: conn, requests: &s.requests, redact: s.redact}
}

// legacy performs the handshake of the legacy era, if necessary again in another version that the
// server names.
func (h *handshake) legacy(ctx context.Context, version string) (Info, error) {
	info, err := h.initialize(ctx, version)
	if named := namedVersions(err); !slices.Contains(named, mcp.ModernVersion) {
		if v := newestOf(named, mcp.IsLegacy); v != "" && v != version {
			return h.initialize(ctx, v)
		}
	}
	return info, err
}

// initialize performs the handshake of the legacy era in one version.
func (h *handshake) initialize(ctx context.Context, version string) (Info, error) {
	raw, err := h.requests.send(ctx, h.conn, version, h.requests.nextID(), mcp.MethodInitialize, map[string]any{
		"protocolVersion": version,
		"clientInfo":      h.requests.client,
		"capabilities":    h.requests.capabilities(),
	})
	if err != nil {
		return Info{}, fmt.Errorf("initialize: %w", err)
	}
	var r struct {
		ProtocolVersion string             `json:"protocolVersion"`
		Capabilities    json.RawMessage    `json:"capabilities"`
		ServerInfo      mcp.Implementation `json:"serverInfo"`
		Instructions    string             `json:"instructions"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return Info{}, fmt.Errorf("initialize: malformed result: %w", err)
	}
	if !mcp.IsLegacy(r.ProtocolVersion) {
		return Info{}, &versionError{mcp.MethodInitialize, []string{r.ProtocolVersion}}
	}
	h.conn.SetProtocolVersion(r.ProtocolVersion)
	if err := h.conn.Notify(ctx, mcp.NotificationInitialized, nil); err != nil {
		return Info{}, fmt.Errorf("initialized: %w", err)
	}
	return h.newInfo(EraLegacy, r.ProtocolVersion, r.ServerInfo, r.Capabilities, r.Instructions), nil
}

// discover sends server/discover. Success alone proves nothing, because some servers answer it
// and then refuse every other request of the modern era: what counts are the versions in the
// answer.
func (h *handshake) discover(ctx context.Context) (Info, error) {
	h.conn.SetProtocolVersion(mcp.ModernVersion)
	info, err := h.tryDiscover(ctx)
	if err != nil {
		h.conn.SetProtocolVersion("")
	}
	return info, err
}

func (h *handshake) tryDiscover(ctx context.Context) (Info, error) {
	raw, err := h.requests.send(ctx, h.conn, mcp.ModernVersion, h.requests.nextID(), mcp.MethodDiscover, nil)
	if err != nil {
		return Info{}, fmt.Errorf("discover: %w", err)
	}
	var r struct {
		SupportedVersions []string        `json:"supportedVersions"`
		Capabilities      json.RawMessage `json:"capabilities"`
		Instructions      string          `json:"instructions"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return Info{}, fmt.Errorf("discover: malformed result: %w", err)
	}
	if !slices.Contains(r.SupportedVersions, mcp.ModernVersion) {
		return Info{}, &versionError{mcp.MethodDiscover, r.SupportedVersions}
	}
	var meta struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	var server mcp.Implementation
	if json.Unmarshal(raw, &meta) == nil {
		_ = json.Unmarshal(meta.Meta[mcp.MetaServerInfo], &server)
	}
	info := h.newInfo(EraModern, mcp.ModernVersion, server, r.Capabilities, r.Instructions)
	if newestOf(r.SupportedVersions, mcp.IsLegacy) != "" {
		info.Other = EraLegacy
	}
	return info, nil
}

const maxInstructions = 64 << 10

func (h *handshake) newInfo(era Era, version string, server mcp.Implementation, caps json.RawMessage, instructions string) Info {
	return Info{
		Era: era, ProtocolVersion: version,
		ServerName: h.redact.text(server.Name), ServerVersion: h.redact.text(server.Version),
		Capabilities: mcp.ParseCapabilities(caps), RawCapabilities: caps,
		Instructions: strings.ToValidUTF8(instructions[:min(len(instructions), maxInstructions)], ""),
	}
}

// newestOf returns the newest version for which pass is true; versions are dates.
func newestOf(versions []string, pass func(string) bool) string {
	newest := ""
	for _, v := range versions {
		if pass(v) && v > newest {
			newest = v
		}
	}
	return newest
}

// namedVersions returns the versions that a server listed when it rejected the requested one.
func namedVersions(err error) []string {
	if v, ok := errors.AsType[*versionError](err); ok {
		return v.supported
	}
	rpc, ok := errors.AsType[*RPCError](err)
	if !ok || rpc.Code != mcp.CodeUnsupportedVersion {
		return nil
	}
	var data struct {
		Supported []string `json:"supported"`
	}
	_ = json.Unmarshal(rpc.Data, &data)
	return data.Supported
}
