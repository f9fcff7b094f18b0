package vault

import (
	"fmt"
	"io/fs"
	"net/url"
	"strconv"
	"strings"
)

const (
	scheme = "vault://"

	recentURI    = scheme + "recent"
	statsURI     = scheme + "stats"
	tagsURI      = scheme + "tags"
	tagsFullURI  = scheme + "tags?mode=full"
	structureURI = scheme + "structure"
	notePrefix   = scheme + "note/"
	folderPrefix = scheme + "folder/"

	maxURI       = 8192
	defaultLimit = 20
	maxLimit     = 100
)

// kind identifies the kind of a resource.
type kind int

const (
	kindRecent kind = iota
	kindStats
	kindTags
	kindStructure
	kindNote
	kindFolder
	kindSkill // a file of a skill
)

// target is a parsed URI. It is comparable: equal targets refer to the same content.
type target struct {
	kind          kind
	path          string // path of a note or folder; "" is the root folder. Of a file of a skill: its path in URIs, see skillSet
	full          bool   // mode=full in vault://recent or vault://tags
	limit, offset int    // parameters of vault://recent; 0 for other resources
}

// uriError reports an invalid URI.
type uriError struct{ why string }

func (e *uriError) Error() string { return "Invalid resource URI format: " + e.why }

func badURI(why string, args ...any) error { return &uriError{fmt.Sprintf(why, args...)} }

// parseURI parses a URI and decodes percent-encoding once. All text after note/ or folder/ is the
// path, including question marks, because clients that expand the URI templates do not encode them.
func parseURI(uri string) (t target, err error) {
	if len(uri) > maxURI {
		return t, badURI("more than %d bytes", maxURI)
	}
	if rest, ok := strings.CutPrefix(uri, notePrefix); ok {
		t.kind = kindNote
		t.path, err = decodePath(rest)
		return t, err
	}
	if rest, ok := strings.CutPrefix(uri, folderPrefix); ok {
		t.kind = kindFolder
		if rest != "" {
			t.path, err = decodePath(strings.TrimSuffix(rest, "/"))
		}
		return t, err
	}
	if rest, ok := strings.CutPrefix(uri, skillScheme); ok {
		t.kind = kindSkill
		t.path, err = decodePath(rest)
		return t, err
	}
	rest, ok := strings.CutPrefix(uri, scheme)
	if !ok {
		return t, badURI("it does not start with %s or %s", scheme, skillScheme)
	}
	name, query, hasQuery := strings.Cut(rest, "?")
	switch name {
	case "recent":
		t = target{kind: kindRecent, limit: defaultLimit}
	case "stats":
		t.kind = kindStats
	case "tags":
		t.kind = kindTags
	case "structure":
		t.kind = kindStructure
	default:
		return t, badURI("unknown resource")
	}
	if hasQuery {
		err = t.parseQuery(query)
	}
	return t, err
}

// parseQuery parses the query parameters of the resource. Each may occur only once.
func (t *target) parseQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return badURI("the query is malformed")
	}
	for key, value := range values {
		if len(value) != 1 {
			return badURI("duplicate parameter %q", key)
		}
		n, err := strconv.Atoi(value[0])
		switch {
		case key == "mode" && t.kind == kindRecent && value[0] == "preview":
		case key == "mode" && t.kind == kindTags && value[0] == "summary":
		case key == "mode" && (t.kind == kindRecent || t.kind == kindTags) && value[0] == "full":
			t.full = true
		case key == "limit" && t.kind == kindRecent && err == nil && 1 <= n && n <= maxLimit:
			t.limit = n
		case key == "offset" && t.kind == kindRecent && err == nil && 0 <= n:
			t.offset = n
		default:
			return badURI("%s does not support %s=%s", t.uri(), strconv.QuoteToASCII(key), strconv.QuoteToASCII(value[0]))
		}
	}
	return nil
}

// decodePath decodes the path in a URI. The result is a relative path with slashes that cannot
// refer to anything outside the vault.
func decodePath(text string) (string, error) {
	p, err := url.PathUnescape(text)
	if err != nil {
		return "", badURI("percent signs must be followed by two hexadecimal digits")
	}
	return p, checkPath(p)
}

func checkPath(p string) error {
	switch {
	case p == "":
		return badURI("the path is empty")
	case !printableName(p):
		return badURI("the path contains control characters or invalid UTF-8")
	case strings.Contains(p, `\`):
		return badURI("the path contains a backslash")
	case p == "." || !fs.ValidPath(p): // this includes "..", "a//b", "/a" and "a/"
		return badURI("the path is outside the vault")
	}
	return nil
}

// encodePath encodes a path for use in a URI, like the expansion of {+path} in a template, but it
// also encodes "?", "#" and brackets.
func encodePath(p string) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(p)+8)
	for i := range len(p) {
		c := p[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~!$&'()*+,;=:@/", c) >= 0 {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(b)
}

func noteURI(p string) string   { return notePrefix + encodePath(p) }
func folderURI(p string) string { return folderPrefix + encodePath(p) }

// uri returns the canonical URI of a target.
func (t target) uri() string {
	switch t.kind {
	case kindRecent:
		query := url.Values{}
		if t.full {
			query.Set("mode", "full")
		}
		if t.limit != defaultLimit {
			query.Set("limit", strconv.Itoa(t.limit))
		}
		if t.offset != 0 {
			query.Set("offset", strconv.Itoa(t.offset))
		}
		if len(query) > 0 {
			return recentURI + "?" + query.Encode()
		}
		return recentURI
	case kindStats:
		return statsURI
	case kindTags:
		if t.full {
			return tagsFullURI
		}
		return tagsURI
	case kindStructure:
		return structureURI
	case kindNote:
		return noteURI(t.path)
	case kindSkill:
		return skillURI(t.path)
	}
	return folderURI(t.path)
}
