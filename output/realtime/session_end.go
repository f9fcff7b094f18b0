package realtime

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/core/printable"
)

// ErrEnded is the error of [Session.Run] when the call or session that it was attached to has
// ended.
var ErrEnded = errors.New("the session has ended")

// afterError decides what follows the error of a connection. If end is not nil, Run returns
// it; otherwise Run connects again, after next, or after the usual wait if next is 0. age is
// the time since Run began.
func (s *Session) afterError(err error, age time.Duration) (next time.Duration, end error) {
	if h, ok := errors.AsType[*handshakeError](err); ok {
		switch {
		case h.status == http.StatusNotFound && s.opts.Call && s.conv.snapshot().Connections > 0:
			return 0, ErrEnded
		case h.status == http.StatusNotFound && s.opts.Call && age < callGrace:
			return time.Second, nil
		case h.status == http.StatusRequestTimeout, h.status == http.StatusTooEarly, h.status == http.StatusTooManyRequests:
		case h.status < 500:
			return 0, &RefusedError{Status: h.status, Message: h.message}
		}
		return min(h.retryAfter, lastWait), nil
	}
	if errors.Is(err, errClosed) {
		return 0, ErrEnded
	}
	ce, _ := errors.AsType[websocket.CloseError](err)
	s.conv.mu.Lock()
	why, refusal := cmp.Or(s.conv.fatal, printable.Line(ce.Reason, 200)), s.conv.dialect.api().refusal
	s.conv.mu.Unlock()
	switch {
	case ce.Code == websocket.StatusNormalClosure, ce.Code == websocket.StatusGoingAway:
		if s.opts.Call {
			return 0, ErrEnded
		}
	case ce.Code == 3000, ce.Code == 3003: // unauthorized, forbidden: the registry of RFC 6455, §11.7
		return 0, &RefusedError{Status: int(ce.Code), Message: why}
	case ce.Code >= 4000 && ce.Code < 5000 && !mayPass(why), final(why), refusal != 0 && ce.Code == refusal:
		return 0, &RefusedError{Status: max(int(ce.Code), 0), Message: why}
	}
	return 0, nil
}

// mayPass reports whether the reason in a close frame names a condition that may pass.
func mayPass(why string) bool {
	var e serverEvent
	e.Error.Code = strings.ToLower(why)
	return transient(e)
}

// atItsLimit reports whether the endpoint ended a session with the code that it uses when the
// maximum duration of a session is reached.
func atItsLimit(err error) bool { return websocket.CloseStatus(err) == websocket.StatusGoingAway }
