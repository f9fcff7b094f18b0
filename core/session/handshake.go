package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

// probeTimeout limits server/discover, because some legacy servers do not respond to unknown
// methods.
const probeTimeout = 30 * time.Second

// detection determines a server's era as specified under basic/versioning (2026-07-28): it tries
// the modern era first, and then the legacy era unless the response is one that only modern servers
// give.
type detection struct {
	protocol config.Protocol
	known    Era // era of an earlier session; empty if there is none
	// modern and legacy try one era. modern may be called again after a timeout.
	modern func(ctx context.Context) (Info, error)
	legacy func(ctx context.Context, version string) (Info, error)
}

// run tries the eras in turn until one works.
func (d detection) run(ctx context.Context) (Info, error) {
	switch {
	case d.protocol == config.ProtocolModern:
		info, err := d.modern(ctx)
		return info, wrongEra(err)
	case d.protocol == config.ProtocolLegacy:
		info, err := d.legacy(ctx, mcp.LatestLegacy)
		return info, wrongEra(err)
	case d.known == EraLegacy:
		info, err := d.legacy(ctx, mcp.LatestLegacy)
		if err == nil || !turnedDown(err) {
			return info, err
		}
		info, modernErr := d.modern(ctx)
		if modernErr != nil {
			return Info{}, errors.Join(err, modernErr)
		}
		return info, nil
	}
	info, err := d.probe(ctx)
	if err == nil || ctx.Err() != nil || !mayBeLegacy(err) {
		return info, err
	}
	info, legacyErr := d.legacy(ctx, cmp.Or(newestOf(namedVersions(err), mcp.IsLegacy), mcp.LatestLegacy))
	switch {
	case legacyErr == nil:
		return info, nil
	case errors.Is(err, errDeadline) && turnedDown(legacyErr) && ctx.Err() == nil:
		if info, err = d.probe(ctx); err == nil { // the server was still starting before
			return info, nil
		}
		return Info{}, errors.Join(err, legacyErr)
	case !turnedDown(err):
		return Info{}, legacyErr
	}
	return Info{}, errors.Join(err, legacyErr)
}

// probe tries the modern era for a limited time.
func (d detection) probe(ctx context.Context) (Info, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, probePatience(ctx), errDeadline)
	defer cancel()
	return d.modern(ctx)
}

// wrongEra marks an error as [ErrEra] if the server rejected the handshake.
func wrongEra(err error) error {
	if err == nil || !turnedDown(err) {
		return err
	}
	return &eraError{err}
}

// eraError is the error from a handshake in the only era that was tried.
type eraError struct{ error }

func (e *eraError) Is(target error) bool { return target == ErrEra }
func (e *eraError) Unwrap() error        { return e.error }

// probePatience returns how long to wait for the response to server/discover: half of the time that is left. The
// legacy handshake has the other half.
func probePatience(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(probeTimeout, time.Until(deadline)/2)
	}
	return probeTimeout
}

// mayBeLegacy reports whether the error from server/discover may come from a legacy server, so that
// the legacy handshake must be tried. It returns false if only modern servers respond like this, if
// the server is unreachable, or if it requires something else first.
func mayBeLegacy(err error) bool {
	if notYet(err) {
		return false
	}
	if h, ok := errors.AsType[*HTTPError](err); ok && h.Status == http.StatusTooManyRequests {
		return false
	}
	if e, ok := errors.AsType[*InterruptedError](err); ok && !e.Sent {
		return false
	}
	if rpc, ok := errors.AsType[*RPCError](err); ok && (rpc.Code == mcp.CodeHeaderMismatch || rpc.Code == mcp.CodeMissingCapability) {
		return false
	}
	named := namedVersions(err)
	return len(named) == 0 || newestOf(named, mcp.IsLegacy) != ""
}

// turnedDown reports whether a server rejected the handshake itself, so that the other era may be
// tried. It returns false if the server is unreachable, is slow, or requires credentials first.
func turnedDown(err error) bool {
	if notYet(err) {
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

// versionError reports that a server responded but supports none of mcptrack's protocol versions.
type versionError struct {
	method    string
	supported []string // as listed by the server; may be empty
}

func (e *versionError) Error() string {
	if len(e.supported) == 0 {
		return "the server did not specify a protocol version in its response to " + e.method
	}
	if e.method == mcp.MethodInitialize && e.supported[0] == mcp.ModernVersion {
		return "the server answered initialize with the protocol version " + mcp.ModernVersion + ", which has no initialize"
	}
	return fmt.Sprintf("the server supports only the protocol version %.200q, which mcptrack does not", strings.Join(e.supported, ", "))
}

// handshake determines a server's era and version over one connection.
type handshake struct {
	s    *Session
	conn *wire.Conn
}

// legacy performs the legacy handshake. If the server requests another supported version, it
// repeats the handshake with that version.
func (h handshake) legacy(ctx context.Context, version string) (Info, error) {
	info, err := h.initialize(ctx, version)
	if v := legacyInstead(err, version); v != "" {
		return h.initialize(ctx, v)
	}
	return info, err
}

// initialize performs the legacy handshake in one version.
func (h handshake) initialize(ctx context.Context, version string) (Info, error) {
	raw, err := h.s.send(ctx, h.conn, version, h.s.nextID(), mcp.MethodInitialize, map[string]any{
		"protocolVersion": version,
		"clientInfo":      h.s.client,
		"capabilities":    h.s.capabilities,
	})
	if err != nil {
		return Info{}, err
	}
	var r map[string]json.RawMessage
	if err := json.Unmarshal(raw, &r); err != nil {
		return Info{}, fmt.Errorf("the response to initialize is malformed: %w", err)
	}
	agreed := textOf(r["protocolVersion"])
	switch {
	case agreed == "":
		return Info{}, &versionError{method: mcp.MethodInitialize}
	case !mcp.IsLegacy(agreed):
		return Info{}, &versionError{mcp.MethodInitialize, []string{agreed}}
	}
	h.conn.SetProtocolVersion(agreed)
	// A server that refuses the notification has answered initialize, so the session exists.
	if err := h.conn.Notify(ctx, mcp.NotificationInitialized, nil); err != nil && !isRefusal(err) {
		return Info{}, err
	}
	return h.newInfo(EraLegacy, agreed, implementationOf(r["serverInfo"]), r["capabilities"], textOf(r["instructions"])), nil
}

// textOf returns the text in JSON; empty if it is not a string. A server whose name or instructions have
// another type can be used all the same.
func textOf(raw json.RawMessage) (text string) {
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

func implementationOf(raw json.RawMessage) mcp.Implementation {
	var is map[string]json.RawMessage
	_ = json.Unmarshal(raw, &is) // stays empty if it is not an object
	return mcp.Implementation{Name: textOf(is["name"]), Title: textOf(is["title"]), Version: textOf(is["version"])}
}

// discover sends server/discover. The versions in the response decide whether the server is modern,
// because some servers answer server/discover but reject every other modern request.
func (h handshake) discover(ctx context.Context) (info Info, err error) {
	h.conn.SetProtocolVersion(mcp.ModernVersion)
	defer func() {
		if err != nil {
			h.conn.SetProtocolVersion("")
		}
	}()
	raw, err := h.s.send(ctx, h.conn, mcp.ModernVersion, h.s.nextID(), mcp.MethodDiscover, nil)
	if err != nil {
		return Info{}, err
	}
	return h.discovered(raw)
}

// discovered returns what a response to server/discover says.
func (h handshake) discovered(raw json.RawMessage) (info Info, err error) {
	var r struct {
		SupportedVersions []string        `json:"supportedVersions"`
		Capabilities      json.RawMessage `json:"capabilities"`
		Instructions      json.RawMessage `json:"instructions"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return Info{}, fmt.Errorf("the response to server/discover is malformed: %w", err)
	}
	if !slices.Contains(r.SupportedVersions, mcp.ModernVersion) {
		return Info{}, &versionError{mcp.MethodDiscover, r.SupportedVersions}
	}
	var meta struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(raw, &meta) // stays empty if _meta is not an object
	info = h.newInfo(EraModern, mcp.ModernVersion, implementationOf(meta.Meta[mcp.MetaServerInfo]), r.Capabilities, textOf(r.Instructions))
	if newestOf(r.SupportedVersions, mcp.IsLegacy) != "" {
		info.Other = EraLegacy
	}
	return info, nil
}

const maxInstructions = 64 << 10

func (h handshake) newInfo(era Era, version string, server mcp.Implementation, caps json.RawMessage, instructions string) Info {
	return Info{
		Era: era, ProtocolVersion: version,
		ServerName: h.s.redact.text(server.Name), ServerTitle: h.s.redact.text(server.Title), ServerVersion: h.s.redact.text(server.Version),
		Capabilities: mcp.ParseCapabilities(caps), RawCapabilities: caps,
		Instructions: strings.ToValidUTF8(instructions[:min(len(instructions), maxInstructions)], ""),
	}
}

// legacyInstead returns the legacy version to try after a server has rejected the given one, or an
// empty string if there is none.
func legacyInstead(err error, version string) string {
	named := namedVersions(err)
	if v := newestOf(named, mcp.IsLegacy); v != version && !slices.Contains(named, mcp.ModernVersion) {
		return v
	}
	return ""
}

// newestOf returns the newest version for which pass returns true. Versions are dates.
func newestOf(versions []string, pass func(string) bool) string {
	newest := ""
	for _, v := range versions {
		if pass(v) && v > newest {
			newest = v
		}
	}
	return newest
}

// namedVersions returns the versions that a server listed when it rejected the requested version.
func namedVersions(err error) []string {
	if v, ok := errors.AsType[*versionError](err); ok {
		return v.supported
	}
	rpc, ok := errors.AsType[*RPCError](err)
	if !ok {
		return nil
	}
	var data struct { // of CodeUnsupportedVersion and, in the legacy era, of any code
		Supported []string `json:"supported"`
	}
	_ = json.Unmarshal(rpc.Data, &data)
	return data.Supported
}
