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
	"github.com/mcptrack/mcptrack/core/uri"
)

// Limits for responses from the API: sizes in bytes after decompression, and timeouts.
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
		u.client.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second,
			MaxIdleConnsPerHost: 16, MaxResponseHeaderBytes: 64 << 10}
	}
	u.client.Jar = nil // cookies set for one caller must not be sent on behalf of another
	u.client.CheckRedirect = u.checkRedirect
}

// checkRedirect allows only redirects to the origin of the base URL, because requests contain our
// headers and the caller's arguments.
func (u *Upstream) checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("the API redirected more than %d times", maxRedirects)
	}
	if origin(req.URL) != origin(u.base) {
		return errOtherOrigin
	}
	return nil
}

// origin returns the scheme, host and port of a URL.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// newRequest creates a request for an escaped path, which may include a query, relative to the base
// URL.
func (u *Upstream) newRequest(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	target, err := url.Parse(u.base.Scheme + "://" + u.base.Host + u.base.EscapedPath() + path)
	if err != nil {
		return nil, errors.New("the path does not form a valid URL")
	}
	if target.Host != u.base.Host || target.Scheme != u.base.Scheme {
		return nil, errors.New("the path refers to a host other than the API's")
	}
	target.User, target.RawQuery = u.base.User, uri.Query(target.RawQuery)
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

// setDefault sets a header unless h, which contains Options.Header, already contains it.
func setDefault(h http.Header, name, value string) {
	if h.Get(name) == "" {
		h.Set(name, value)
	}
}

// response is an HTTP response from the API, with its complete body.
type response struct {
	status int
	header http.Header
	body   []byte
}

// send sends a request and reads the response, whose body may have at most limit bytes after
// decompression. Its errors contain neither the URL nor credentials.
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

// tooLarge is the error for a response that exceeds its size limit.
type tooLarge struct{ limit int64 }

func (e *tooLarge) Error() string {
	if e.limit >= 1<<20 {
		return fmt.Sprintf("the response is larger than %d MiB", e.limit>>20)
	}
	return fmt.Sprintf("the response is larger than %d KiB", e.limit>>10)
}

// plain removes the URL from an error returned by net/http, because the URL may contain credentials
// and the caller's arguments. If ctx has ended, plain returns the cause of ctx instead.
func (u *Upstream) plain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return printable.Unnamed(err)
}

// get sends a GET request for a path on a new connection, because behind a load balancer, a reused
// connection would always reach the same backend. If etag is not empty, it is sent as
// If-None-Match. timeout limits the time for the request.
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

// statusError returns the error for a GET response with an unexpected status.
func statusError(path string, status int) error {
	return fmt.Errorf("GET %s: HTTP %s", path, statusText(status))
}

func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

// serverVersion is the decoded version document of the API.
type serverVersion struct {
	build   string // empty if the document has none
	members map[string]json.RawMessage
}

// fetchVersion requests the API's version document. The build is empty if the API has no such
// route, or if the response is not a version document. If the API is unreachable, fetchVersion
// returns an error.
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
	// The build is displayed and logged, and an API may echo the credentials that it received.
	if json.Unmarshal([]byte(u.redact.text(string(a.body))), &v.members) != nil {
		return serverVersion{}, nil
	}
	v.build = v.text("build")
	return v, nil
}

// text returns a member that is a string or a number as text, or "" if it has another type.
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

// bounded shortens a text from the API so that it fits into a log line.
func bounded(s string) string { return printable.Line(s, 128) }

// minSecret is the minimum length of a header value that is redacted, because replacing every "1",
// for example, would only garble messages.
const minSecret = 4

// redactor removes the credentials that are sent to the API from the text of its responses, because
// responses may echo the request.
type redactor struct {
	secrets *strings.Replacer
	longest int // length of the longest secret, in bytes
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
	// Replace longer secrets first: otherwise a secret that starts with a shorter one would only be
	// redacted in part.
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

// body returns about the first limit bytes of a response, without credentials.
func (r redactor) body(b []byte, limit int) string {
	if len(b) <= limit {
		return r.text(string(b))
	}
	s := r.text(string(b[:limit]))
	return s[:max(0, len(s)-r.longest)] // truncation may have split a secret
}
