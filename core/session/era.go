package session

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// probeTimeout bounds server/discover for a server that may be of the legacy era: some of those
// answer no method that they do not know.
const probeTimeout = 5 * time.Second

// detection determines the era of a server as basic/versioning says (2026-07-28): the modern
// era first, and the legacy one unless the answer is one that only modern servers give.
type detection struct {
	protocol config.Protocol
	known    Era // of an earlier session; "": none
	// modern and legacy try one era. modern may be called again after it ran into a timeout.
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
		if info, err = d.probe(ctx); err == nil { // it was too slow before: it had to start first
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

// wrongEra makes an error one that is [ErrEra], if the server turned the handshake down.
func wrongEra(err error) error {
	if err == nil || !turnedDown(err) {
		return err
	}
	return &eraError{err}
}

// eraError is the error of a handshake in the only era that was tried.
type eraError struct{ error }

func (e *eraError) Is(target error) bool { return target == ErrEra }
func (e *eraError) Unwrap() error        { return e.error }

// probePatience is how long to wait for the answer to server/discover: never so long that no
// time is left for the legacy handshake.
func probePatience(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(probeTimeout, time.Until(deadline)/2)
	}
	return probeTimeout
}

// mayBeLegacy reports whether the error of server/discover can come from a server of the legacy
// era, which must then be tried. It is false if only modern servers answer like that, if the
// server cannot be reached, or if it requires something else first.
func mayBeLegacy(err error) bool {
	if errors.Is(err, ErrAuth) {
		return false
	}
	if _, ok := errors.AsType[*RetryAfter](err); ok {
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

// turnedDown reports whether a server refused the handshake as such, so that the other era may
// be tried. It is false if the server cannot be reached, is too slow, or requires credentials
// first.
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
