package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A browser cannot add a header to an EventSource, so people log in: a form exchanges the token
// for a cookie that scripts cannot read and other sites cannot send.
const (
	cookieAge = 12 * time.Hour
	maxLogin  = 8 << 10 // bytes of the form
)

//go:embed assets
var assets embed.FS

// loginForm is the data of the login page.
type loginForm struct{ Problem, Next string }

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		s.loginPage(w, http.StatusOK, loginForm{Next: nextPage(r.URL.Query().Get("next"))})
	case http.MethodPost:
		r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
		if err := r.ParseForm(); err != nil || r.PostForm.Get("token") == "" { // not counted as a wrong token
			s.loginPage(w, http.StatusBadRequest, loginForm{"Enter the token.", "/"})
			return
		}
		next := nextPage(r.PostFormValue("next"))
		text := strings.TrimSpace(r.PostFormValue("token"))
		result, found := s.checkToken(r, text)
		switch result {
		case wrongToken:
			s.loginPage(w, http.StatusUnauthorized, loginForm{"The token is wrong.", next})
			return
		case tooMany:
			w.Header().Set("Retry-After", retryAfter)
			s.loginPage(w, http.StatusTooManyRequests, loginForm{"Too many wrong tokens. Try again in a few seconds.", next})
			return
		case rightToken:
		}
		http.SetCookie(w, s.cookie(r, s.tickets.issue(time.Now(), found), cookieAge))
		http.Redirect(w, r, next, http.StatusSeeOther)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		plain(w, http.StatusMethodNotAllowed, "method not allowed")
	}
}

// logout revokes the login of the request, so that copies of its cookie are invalid as well.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	for _, c := range r.CookiesNamed(s.cookieName(r)) {
		s.tickets.revoke(c.Value, time.Now())
	}
	http.SetCookie(w, s.cookie(r, "", -time.Second))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// cookieName returns the name of the login cookie. It contains the port of the listener, since
// browsers send a cookie to all ports of its host, and servers there must not share one. Over
// HTTPS it begins with __Host-, so that neither a service without HTTPS nor another host of the
// domain can set it.
func (s *Server) cookieName(r *http.Request) string {
	name := "mcptrack-" + s.port
	if s.scheme(r) == "https" {
		name = "__Host-" + name
	}
	return name
}

func (s *Server) cookie(r *http.Request, value string, age time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: s.cookieName(r), Value: value, Path: "/", MaxAge: int(age.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.scheme(r) == "https",
	}
}

// nextPage returns the page to show after the login: the dashboard, with the query of text if
// text is a page of the dashboard; never another site.
func nextPage(text string) string {
	if strings.HasPrefix(text, "/?") {
		return text
	}
	return "/"
}

func (s *Server) loginPage(w http.ResponseWriter, status int, form loginForm) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = s.page.Execute(w, form)
}

func loginStyle(w http.ResponseWriter, r *http.Request) {
	http.ServeFileFS(w, r, assets, "assets/login.css")
}

const (
	ticketID   = 16                       // size in bytes
	ticketTag  = 16                       // size in bytes
	ticketBody = 8 + ticketID + ticketTag // size in bytes: expiry time, id, tag of the token
	ticketSize = ticketBody + sha256.Size // size in bytes, including the signature
	maxRevoked = 10_000                   // number of revoked ids
)

// tickets issues and checks the values of login cookies. A ticket consists of its expiry time, a
// random id and a tag of the token of the login, signed with a key of this process. It is invalid
// once that token is removed. Only revoked ids are stored; if there are too many, the key
// changes, which ends all logins.
type tickets struct {
	mu      sync.Mutex
	key     [32]byte
	revoked map[[ticketID]byte]time.Time // expiry times of revoked tickets, by id
}

func newTickets() *tickets {
	t := &tickets{revoked: make(map[[ticketID]byte]time.Time)}
	_, _ = rand.Read(t.key[:]) // never fails
	return t
}

// issue returns a ticket for a login with a token. It is valid for cookieAge.
func (t *tickets) issue(now time.Time, of token) string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, ticketSize), uint64(now.Add(cookieAge).Unix()))
	b = b[:8+ticketID]
	_, _ = rand.Read(b[8:]) // never fails
	t.mu.Lock()
	defer t.mu.Unlock()
	b = append(b, t.tag(of)...)
	return base64.RawURLEncoding.EncodeToString(append(b, t.sign(b)...))
}

// sign returns the signature of b. mu must be held.
func (t *tickets) sign(b []byte) []byte {
	mac := hmac.New(sha256.New, t.key[:])
	mac.Write(b)
	return mac.Sum(nil)
}

// tag identifies the token of a ticket without revealing it. mu must be held.
func (t *tickets) tag(of token) []byte { return t.sign(of.digest[:])[:ticketTag] }

// valid returns the token of a ticket; ok is false unless the ticket was issued here for one of
// the tokens, and has neither expired nor been revoked.
func (t *tickets) valid(text string, now time.Time, tokens tokenSet) (of token, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, id, tag, ok := t.open(text, now)
	if _, revoked := t.revoked[id]; !ok || revoked {
		return token{}, false
	}
	for _, of := range tokens {
		if hmac.Equal(tag, t.tag(of)) {
			return of, true
		}
	}
	return token{}, false
}

// open returns the expiry time, id and tag of a ticket; ok is false if its signature is wrong or
// it has expired. mu must be held.
func (t *tickets) open(text string, now time.Time) (end time.Time, id [ticketID]byte, tag []byte, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != ticketSize || !hmac.Equal(t.sign(b[:ticketBody]), b[ticketBody:]) {
		return end, id, nil, false
	}
	end = time.Unix(int64(binary.BigEndian.Uint64(b)), 0)
	copy(id[:], b[8:])
	return end, id, b[8+ticketID : ticketBody], now.Before(end)
}

// revoke makes a ticket invalid.
func (t *tickets) revoke(text string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	end, id, _, ok := t.open(text, now)
	if !ok {
		return
	}
	if len(t.revoked) >= maxRevoked {
		for id, end := range t.revoked {
			if now.After(end) {
				delete(t.revoked, id)
			}
		}
	}
	if len(t.revoked) >= maxRevoked {
		clear(t.revoked)
		_, _ = rand.Read(t.key[:])
		return
	}
	t.revoked[id] = end
}
