package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strings"
	"time"
)

// A browser cannot give EventSource a header, so people log in: the token typed
// into a form becomes a cookie that scripts cannot read and other sites cannot
// send. The cookie holds the time of its end, signed with a key of this run; it
// says nothing of the token, and there is nothing to keep per login.
const (
	cookieName = "mcptrack"
	cookieAge  = 12 * time.Hour
)

const loginPage = `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>mcptrack: log in</title>
<form method="post" action="/login">
<p><label>Token <input name="token" type="password" autocomplete="current-password" required autofocus></label>
<button>Log in</button></p>
</form></html>
`

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(loginPage))
	case http.MethodPost:
		if !s.opts.Token.Is(strings.TrimSpace(r.PostFormValue("token"))) {
			plain(w, http.StatusUnauthorized, "this is not the token")
			return
		}
		http.SetCookie(w, &http.Cookie{
			Name: cookieName, Value: s.ticket(time.Now().Add(cookieAge)), Path: "/",
			MaxAge: int(cookieAge.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
		})
		http.Redirect(w, r, "/", http.StatusSeeOther)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		plain(w, http.StatusMethodNotAllowed, "method not allowed")
	}
}

// ticket is the value of a cookie that is good until end.
func (s *Server) ticket(end time.Time) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(end.Unix()))
	mac := hmac.New(sha256.New, s.key[:])
	mac.Write(b)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(b))
}

// ticketValid reports whether this server made the ticket and it is not over.
func (s *Server) ticketValid(text string, now time.Time) bool {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != 8+sha256.Size {
		return false
	}
	mac := hmac.New(sha256.New, s.key[:])
	mac.Write(b[:8])
	return hmac.Equal(mac.Sum(nil), b[8:]) && now.Before(time.Unix(int64(binary.BigEndian.Uint64(b)), 0))
}

// authorized reports whether the request has the token or a login.
func (s *Server) authorized(r *http.Request) bool {
	if values := r.Header.Values("Authorization"); len(values) > 0 {
		scheme, token, _ := strings.Cut(values[0], " ")
		return len(values) == 1 && strings.EqualFold(scheme, "Bearer") && s.opts.Token.Is(strings.TrimSpace(token))
	}
	for _, c := range r.CookiesNamed(cookieName) {
		if s.ticketValid(c.Value, time.Now()) {
			return true
		}
	}
	return false
}
