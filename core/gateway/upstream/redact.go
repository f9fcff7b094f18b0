package upstream

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// minSecret is the length below which a header value is not redacted: replacing every
// "1" would only garble messages.
const minSecret = 4

// redactor removes the credentials that are sent to the API from texts in its answers, which
// may echo the request.
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
	// The longest first: otherwise a value that begins with a shorter one would be
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

// body returns the beginning of an answer without credentials: at most about limit bytes.
func (r redactor) body(b []byte, limit int) string {
	if len(b) <= limit {
		return r.text(string(b))
	}
	s := r.text(string(b[:limit]))
	return s[:max(0, len(s)-r.longest)] // the cut may have split a secret
}
