package upstream

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Bounds of the API's responses: bytes after decompression, and times.
const (
	MaxVersionBytes = 64 << 10
	MaxCatalogBytes = 1 << 20
	MaxAnswerBytes  = 50 << 20

	versionTimeout = 5 * time.Second
	catalogTimeout = 10 * time.Second
	maxRedirects   = 5
)

var errOtherOrigin = errors.New("the API redirects to another origin, which is not allowed")

func (u *Upstream) newClient() {
	u.client = &http.Client{}
	if u.opts.Client != nil {
		*u.client = *u.opts.Client
	} else {
		u.transport = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second,
			MaxIdleConnsPerHost: 16, MaxResponseHeaderBytes: 64 << 10}
		u.client.Transport = u.transport
	}
	u.client.Jar = nil // cookies set for one caller must not be sent for another
	u.client.CheckRedirect = u.checkRedirect
}

// checkRedirect keeps requests, and with them our headers and the caller's arguments, at the
// origin of the base URL.
func (u *Upstream) checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("the API redirected more than %d times", maxRedirects)
	}
	if origin(req.URL) != origin(u.base) {
		return errOtherOrigin
	}
	return nil
}

// origin is scheme, host and port.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// newRequest makes a request for an escaped path, with or without query, below the base URL.
func (u *Upstream) newRequest(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	target, err := url.Parse(u.base.Scheme + "://" + u.base.Host + u.base.EscapedPath() + path)
	if err != nil {
		return nil, errors.New("the path does not form a valid URL")
	}
	if target.Host != u.base.Host || target.Scheme != u.base.Scheme {
		return nil, errors.New("the path leads to a host other than the API's")
	}
	target.User = u.base.User
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), reader)
	if err != nil {
		return nil, errors.New("the path does not form a valid request")
	}
	for name, values := range u.opts.Header {
		req.Header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
		req.Header.Del("Host")
	}
	setDefault(req.Header, "User-Agent", "mcptrack")
	setDefault(req.Header, "Accept", "application/json, */*;q=0.5")
	return req, nil
}

// setDefault sets a header, unless h, which holds Options.Header, already has it.
func setDefault(h http.Header, name, value string) {
	if h.Get(name) == "" {
		h.Set(name, value)
	}
}

// response is a response of the API whose body was read completely.
type response struct {
	status int
	header http.Header
	body   []byte
}

// send sends a request and reads the response, whose body may have at most limit bytes after
// decompression. Its errors hold neither URL nor credentials.
func (u *Upstream) send(req *http.Request, limit int64) (response, error) {
	resp, err := u.client.Do(req)
	if err != nil {
		return response{}, u.plain(req.Context(), err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return response{}, u.plain(req.Context(), err)
	case int64(len(body)) > limit:
		return response{}, &tooLarge{limit}
	}
	return response{resp.StatusCode, resp.Header, body}, nil
}

// tooLarge means that a response exceeds its bound.
type tooLarge struct{ limit int64 }

func (e *tooLarge) Error() string {
	if e.limit >= 1<<20 {
		return fmt.Sprintf("the response is larger than %d MiB", e.limit>>20)
	}
	return fmt.Sprintf("the response is larger than %d KiB", e.limit>>10)
}

// plain removes the URL from an error of net/http, because the URL may hold credentials and the
// caller's arguments. If ctx has ended, it returns the cause of ctx instead.
func (u *Upstream) plain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return printable.Unnamed(err)
}

// get requests a path on a new connection: behind a load balancer, a reused connection would
// always reach the same backend. etag, unless "", is sent as If-None-Match. timeout bounds the
// request.
func (u *Upstream) get(ctx context.Context, path, etag string, limit int64, timeout time.Duration) (response, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no response within %s", timeout))
	defer cancel()
	req, err := u.newRequest(ctx, http.MethodGet, path, nil)
	if err != nil {
		return response{}, fmt.Errorf("GET %s: %w", path, err)
	}
	req.Close = true
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	a, err := u.send(req, limit)
	if err != nil {
		return a, fmt.Errorf("GET %s: %w", path, err)
	}
	return a, nil
}

// statusError is the error of a GET with an unexpected status.
func statusError(path string, status int) error {
	return fmt.Errorf("GET %s: HTTP %s", path, statusText(status))
}

func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

// serverVersion is the API's version document.
type serverVersion struct {
	build   string // "" if it has none
	members map[string]json.RawMessage
}

// fetchVersion requests the API's version document. If the API has no such route, or the
// response is not a version document, the build is ""; if the API is down, it returns an error.
func (u *Upstream) fetchVersion(ctx context.Context) (serverVersion, error) {
	const path = "/api/version"
	a, err := u.get(ctx, path, "", MaxVersionBytes, versionTimeout)
	if _, large := errors.AsType[*tooLarge](err); large {
		return serverVersion{}, nil
	}
	switch {
	case err != nil:
		return serverVersion{}, err
	case slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusNotImplemented}, a.status):
		return serverVersion{}, nil
	case a.status != http.StatusOK:
		return serverVersion{}, statusError(path, a.status)
	}
	var v serverVersion
	// The build is shown and logged, and an API may echo what it was sent.
	if json.Unmarshal([]byte(u.redact.text(string(a.body))), &v.members) != nil {
		return serverVersion{}, nil
	}
	v.build = v.text("build")
	return v, nil
}

// text returns a member that is a string or a number as text; "" for a member of another type.
func (v serverVersion) text(name string) string {
	var s string
	var n json.Number
	switch raw := v.members[name]; {
	case json.Unmarshal(raw, &s) == nil:
		return strings.TrimSpace(s)
	case json.Unmarshal(raw, &n) == nil:
		return n.String()
	}
	return ""
}

// bounded shortens a text of the API for a line of a log.
func bounded(s string) string { return printable.Line(s, 128) }

// minSecret is the minimum length of a header value that is redacted: replacing every "1" would
// only garble messages.
const minSecret = 4

// redactor removes the credentials that are sent to the API from the texts of its responses,
// which may echo the request.
type redactor struct {
	secrets *strings.Replacer
	longest int // bytes of the longest secret
}

func newRedactor(base *url.URL, header http.Header, secrets []string) redactor {
	values := slices.Clone(secrets)
	for name, list := range header {
		switch http.CanonicalHeaderKey(name) {
		case "Accept", "Content-Type", "Host", "User-Agent":
			continue
		}
		for _, v := range list {
			values = append(append(values, v), strings.Fields(v)...)
		}
	}
	if base.User != nil {
		password, _ := base.User.Password()
		basic := base64.StdEncoding.EncodeToString([]byte(base.User.Username() + ":" + password))
		values = append(values, base.User.Username(), password, basic, strings.TrimRight(basic, "="))
	}
	var forms []string
	for _, v := range values {
		if len(v) < minSecret || strings.EqualFold(v, "Bearer") || strings.EqualFold(v, "Basic") {
			continue
		}
		quoted := strings.Trim(quoted(v), `"`)
		forms = append(forms, v, quoted, strings.ReplaceAll(quoted, "/", `\/`), url.QueryEscape(v), url.PathEscape(v))
	}
	// The longest first: otherwise a value that begins with a shorter value would be
	// redacted only in part.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, f := range forms {
		pairs = append(pairs, f, "[redacted]")
	}
	r := redactor{secrets: strings.NewReplacer(pairs...)}
	if len(forms) > 0 {
		r.longest = len(forms[0])
	}
	return r
}

func (r redactor) text(s string) string { return r.secrets.Replace(s) }

// body returns the beginning of a response without credentials: at most about limit bytes.
func (r redactor) body(b []byte, limit int) string {
	if len(b) <= limit {
		return r.text(string(b))
	}
	s := r.text(string(b[:limit]))
	return s[:max(0, len(s)-r.longest)] // the truncation may have split a secret
}
