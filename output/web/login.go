package web

import (
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"fmt"
	"html"
	"maps"
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

//go:embed assets/login.css assets/icon.svg
var assets embed.FS

// loginHTML is the login page. Its arguments are a problem and the next page, both HTML.
//
//go:embed assets/login.html
var loginHTML string

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		loginPage(w, http.StatusOK, "", nextPage(r.URL.Query().Get("next")))
	case http.MethodPost:
		r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
		if err := r.ParseForm(); err != nil || r.PostForm.Get("token") == "" { // not counted as a wrong token
			loginPage(w, http.StatusBadRequest, "Enter the token.", "/")
			return
		}
		next := nextPage(r.PostFormValue("next"))
		text := strings.TrimSpace(r.PostFormValue("token"))
		found, refused := s.checkToken(r, text)
		if refused != 0 {
			problem := "The token is wrong."
			if refused == http.StatusTooManyRequests {
				w.Header().Set("Retry-After", retryAfter)
				problem = "Too many wrong tokens. Try again in a few seconds."
			}
			loginPage(w, refused, problem, next)
			return
		}
		http.SetCookie(w, s.cookie(r, s.logins.begin(time.Now(), found), cookieAge))
		http.Redirect(w, r, next, http.StatusSeeOther)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		plain(w, http.StatusMethodNotAllowed, "method not allowed")
	}
}

// logout ends the login of the request, so that copies of its cookie are invalid as well.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	for _, c := range r.CookiesNamed(s.cookieName(r)) {
		s.logins.end(c.Value)
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

func loginPage(w http.ResponseWriter, status int, problem, next string) {
	if problem != "" {
		problem = `<p role="alert">` + html.EscapeString(problem) + "</p>"
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, loginHTML, problem, html.EscapeString(next))
}

func loginStyle(w http.ResponseWriter, r *http.Request) {
	http.ServeFileFS(w, r, assets, "assets/login.css")
}

// icon serves the icon of every page. Browsers also ask for it if an answer is a text, such as an error.
func icon(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "image/svg+xml")
	http.ServeFileFS(w, r, assets, "assets/icon.svg")
}

const maxLogins = 10_000

// logins contains who is logged in.
type logins struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]login // by the digest of the cookie
}

type login struct {
	token [sha256.Size]byte // the digest of the token of the login
	end   time.Time
}

func newLogins() *logins { return &logins{all: map[[sha256.Size]byte]login{}} }

// begin returns the cookie of a new login with a token, which is valid for cookieAge. If there are too many
// logins, another one ends.
func (l *logins) begin(now time.Time, of token) (cookie string) {
	cookie = rand.Text()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) >= maxLogins {
		maps.DeleteFunc(l.all, func(_ [sha256.Size]byte, in login) bool { return now.After(in.end) })
	}
	for other := range l.all {
		if len(l.all) < maxLogins {
			break
		}
		delete(l.all, other)
	}
	l.all[digest(cookie)] = login{of.digest, now.Add(cookieAge)}
	return cookie
}

// token returns the digest of the token of a login, or the zero value if there is no such login.
func (l *logins) token(cookie string, now time.Time) (d [sha256.Size]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if in := l.all[digest(cookie)]; now.Before(in.end) {
		d = in.token
	}
	return d
}

func (l *logins) end(cookie string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, digest(cookie))
}
