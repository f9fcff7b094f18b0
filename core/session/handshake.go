package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcptrack/mcptrack/core/config"
)

const (
	methodInitialize = "initialize"
	methodDiscover   = "server/discover"
	methodListen     = "subscriptions/listen"

	modernVersion = mcp.ProtocolVersion20260728
	legacyVersion = mcp.LATEST_LEGACY_PROTOCOL_VERSION
)

// versionError is a server that answered but speaks nothing that we speak.
type versionError struct {
	method    string
	supported []string // as the server says; may be empty
}

func (e *versionError) Error() string {
	if len(e.supported) == 0 {
		return e.method + ": the server names no protocol version"
	}
	return fmt.Sprintf("%s: the server speaks only %.200q", e.method, strings.Join(e.supported, ", "))
}

// initialize performs the handshake of the legacy era.
func (s *Session) initialize(ctx context.Context, tr transport.Interface, version string) (Info, error) {
	raw, err := s.sendUnbounded(ctx, tr, version, s.nextID(), methodInitialize, map[string]any{
		"protocolVersion": version,
		"clientInfo":      s.client,
		"capabilities":    struct{}{}, // none: nobody here can sample, elicit or name roots
	})
	if err != nil {
		return Info{}, fmt.Errorf("initialize: %w", err)
	}
	var r struct {
		ProtocolVersion string          `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
		ServerInfo      clientInfo      `json:"serverInfo"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return Info{}, fmt.Errorf("initialize: malformed result: %w", err)
	}
	if !speaksLegacy(r.ProtocolVersion) {
		return Info{}, &versionError{methodInitialize, []string{r.ProtocolVersion}}
	}
	if h, ok := tr.(transport.HTTPConnection); ok {
		h.SetProtocolVersion(r.ProtocolVersion)
	}
	x := new(exchange)
	err = tr.SendNotification(withExchange(ctx, x), mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION,
		Notification: mcp.Notification{Method: "notifications/initialized"}})
	if err != nil {
		return Info{}, fmt.Errorf("initialized: %w", s.requestError(ctx, x, err))
	}
	return s.newInfo(EraLegacy, r.ProtocolVersion, r.ServerInfo, r.Capabilities), nil
}

// discover asks a server of the modern era what it is. Success alone proves
// nothing: some servers answer although they refuse every other request of the
// era, so the versions that they name are what counts.
func (s *Session) discover(ctx context.Context, tr transport.Interface) (Info, error) {
	h, isHTTP := tr.(transport.HTTPConnection)
	if isHTTP {
		h.SetProtocolVersion(modernVersion)
	}
	info, err := s.tryDiscover(ctx, tr)
	if err != nil && isHTTP {
		h.SetProtocolVersion("")
	}
	return info, err
}

func (s *Session) tryDiscover(ctx context.Context, tr transport.Interface) (Info, error) {
	raw, err := s.sendUnbounded(ctx, tr, modernVersion, s.nextID(), methodDiscover, nil)
	if err != nil {
		return Info{}, fmt.Errorf("discover: %w", err)
	}
	var r struct {
		SupportedVersions []string        `json:"supportedVersions"`
		Capabilities      json.RawMessage `json:"capabilities"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return Info{}, fmt.Errorf("discover: malformed result: %w", err)
	}
	if !slices.Contains(r.SupportedVersions, modernVersion) {
		return Info{}, &versionError{methodDiscover, r.SupportedVersions}
	}
	var meta struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	var server clientInfo
	if json.Unmarshal(raw, &meta) == nil {
		_ = json.Unmarshal(meta.Meta[mcp.MetaKeyServerInfo], &server)
	}
	return s.newInfo(EraModern, modernVersion, server, r.Capabilities), nil
}

func (s *Session) newInfo(era Era, version string, server clientInfo, caps json.RawMessage) Info {
	return Info{
		Era: era, ProtocolVersion: version,
		ServerName: s.redact.text(server.Name), ServerVersion: s.redact.text(server.Version),
		Capabilities: parseCapabilities(caps), RawCapabilities: caps,
	}
}

func speaksLegacy(version string) bool {
	return mcp.IsValidProtocolVersion(version) && !mcp.IsModernProtocol(version)
}

// newestOf returns the newest of the versions that pass; versions are dates.
func newestOf(versions []string, pass func(string) bool) string {
	newest := ""
	for _, v := range versions {
		if pass(v) && v > newest {
			newest = v
		}
	}
	return newest
}

// namedVersions returns the versions that a server named when it turned down the
// one that it was spoken to in.
func namedVersions(err error) []string {
	if v, ok := errors.AsType[*versionError](err); ok {
		return v.supported
	}
	rpc, ok := errors.AsType[*RPCError](err)
	if !ok || rpc.Code != codeUnsupportedVersion {
		return nil
	}
	var data struct {
		Supported []string `json:"supported"`
	}
	_ = json.Unmarshal(rpc.Data, &data)
	return data.Supported
}

// turnedDown reports whether a server refused a handshake as such, so that the
// other era may be tried; as opposed to a server that cannot be reached, is too
// slow, or wants credentials first.
func turnedDown(err error) bool {
	if errors.Is(err, ErrAuth) {
		return false
	}
	if _, ok := errors.AsType[*RetryAfter](err); ok {
		return false
	}
	if h, ok := errors.AsType[*HTTPError](err); ok {
		return h.Status >= 400 && h.Status < 500 && h.Status != http.StatusTooManyRequests
	}
	if _, ok := errors.AsType[*versionError](err); ok {
		return true
	}
	return isAnswer(err)
}

// modernFirst reports whether the modern era should be tried before the legacy
// one. Legacy comes first for servers that nobody knows yet: of those that speak
// both, most deliver more in legacy, and some die of an unknown first message.
func modernFirst(p config.Protocol, era Era) bool {
	return p == config.ProtocolModern || p != config.ProtocolLegacy && era == EraModern
}
