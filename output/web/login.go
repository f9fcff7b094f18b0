package web

import (
	"embed"
	"html/template"
	"net/http"
	"strings"
	"time"
)

// A browser cannot add a header to an EventSource, so people log in: a form turns the
// token into a cookie that scripts cannot read and other sites cannot send.
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
		if err := r.ParseForm(); err != nil || r.PostForm.Get("token") == "" { // does not count as a wrong token
			s.loginPage(w, http.StatusBadRequest, loginForm{"Enter the token.", "/"})
			return
		}
		next := nextPage(r.PostFormValue("next"))
		token := strings.TrimSpace(r.PostFormValue("token"))
		result, found := s.checkToken(r, token)
		switch result {
		case wrongToken:
			s.loginPage(w, http.StatusUnauthorized, loginForm{"This token is wrong.", next})
			return
		case notChecked:
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

// logout ends the login of the request. The cookie is invalid afterwards, also for
// other programs that copied it.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	for _, c := range r.CookiesNamed(s.cookieName(r)) {
		s.tickets.revoke(c.Value, time.Now())
	}
	http.SetCookie(w, s.cookie(r, "", -time.Second))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// cookieName is the name of the cookie of a login. It contains the port of the listener, as
// browsers send a cookie to all ports of its host: other servers there have cookies of their
// own. Over HTTPS it begins with __Host-, so that no service without HTTPS, and no other host
// of the domain, can set it.
func (s *Server) cookieName(r *http.Request) string {
	name := "mcptrack-" + s.addr.port
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

// nextPage returns the page to show after the login: the dashboard with the given
// query, never another site.
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

func loginTemplate() *template.Template {
	return template.Must(template.ParseFS(assets, "assets/login.html"))
}

func loginStyle(w http.ResponseWriter, r *http.Request) {
	http.ServeFileFS(w, r, assets, "assets/login.css")
}
