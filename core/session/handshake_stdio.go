package session

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// anyEra determines the era of a server on stdio, without starting its process again.
func (h *handshake) anyEra(ctx context.Context, protocol config.Protocol, known Era) (Info, error) {
	version := mcp.LatestLegacy
	var first error
	if modernFirst(protocol, known) {
		dctx, cancel := ctx, context.CancelFunc(func() {})
		if protocol != config.ProtocolModern {
			dctx, cancel = context.WithTimeoutCause(ctx, probeTimeout, errDeadline)
		}
		info, err := h.discover(dctx)
		cancel()
		if err == nil || protocol == config.ProtocolModern || ctx.Err() != nil {
			return info, err
		}
		if !turnedDown(err) && !errors.Is(err, errDeadline) {
			return Info{}, err
		}
		first = err
		version = cmp.Or(newestOf(namedVersions(err), mcp.IsLegacy), version)
	}
	info, err := h.initialize(ctx, version)
	if err == nil || protocol == config.ProtocolLegacy || !turnedDown(err) {
		return info, err
	}
	if v := newestOf(namedVersions(err), mcp.IsLegacy); v != "" && v != version && !slices.Contains(namedVersions(err), mcp.ModernVersion) {
		return h.initialize(ctx, v)
	}
	if first != nil {
		return Info{}, errors.Join(first, err)
	}
	if info, derr := h.discover(ctx); derr == nil {
		return info, nil
	} else {
		return Info{}, errors.Join(err, derr)
	}
}
