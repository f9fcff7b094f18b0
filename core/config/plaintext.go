package config

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/tailscale/hujson"
)

// useVariable is the advice for every secret that stands in the file itself.
const useVariable = "put it into an environment variable and write ${NAME}"

// warnSecret reports a secret in the text of the file. The value is never shown.
func (e *entry) warnSecret(offset int, path pointer, where string) {
	e.warnAt(offset, path, CodeSecret, fmt.Sprintf("%s has a secret in plain text in %s", e.label, where), useVariable)
}

// plaintext looks at a named value (a header, an environment variable): it is a
// secret if the name says so or the value has the form of a known kind of token.
// What comes through a reference is not in the file and is not looked at.
func (e *entry) plaintext(name string, v *hujson.Value, path pointer, where string) {
	raw := text(v)
	if tokenShaped(raw) || secretName(name) && literalSecret(raw) {
		e.warnSecret(v.StartOffset, path, where)
	}
}

// secretArgs looks at arguments: --token=VALUE, --token VALUE, NAME=VALUE,
// "Authorization: VALUE", and values that look like tokens by themselves.
func (e *entry) secretArgs(args []*hujson.Value) {
	flag := "" // the name of an option that waits for its value
	for i, v := range args {
		raw := text(v)
		name, value, hasValue := strings.Cut(raw, "=")
		if header, rest, isHeader := strings.Cut(raw, ": "); isHeader && !hasValue {
			name, value, hasValue = header, rest, true
		}
		plain := tokenShaped(raw) || hasValue && secretName(name) && literalSecret(value)
		if !strings.HasPrefix(raw, "-") && flag != "" {
			plain = plain || secretName(flag) && literalSecret(raw)
		}
		flag = ""
		if strings.HasPrefix(raw, "-") && !hasValue {
			flag = raw
		}
		if plain {
			e.warnSecret(v.StartOffset, e.path.key("args").index(i), `"args"`)
		}
	}
}

// secretURL looks at the user info and the query of a URL before expansion.
func (e *entry) secretURL(raw string, f field) {
	_, rest, _ := strings.Cut(raw, "://")
	rest, _, _ = strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	authority, _, _ := strings.Cut(rest, "/")
	plain := tokenShaped(raw)
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		user, password, hasPassword := strings.Cut(authority[:at], ":")
		plain = plain || hasPassword && literalSecret(password) || !hasPassword && literalSecret(user)
	}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		plain = plain || (secretName(name) || strings.EqualFold(name, "key")) && literalSecret(value)
	}
	if plain {
		e.warnSecret(f.value.StartOffset, f.path, quote(f.name))
	}
}

// literalSecret reports whether a value of which the name says that it is secret
// really is one: not a reference, not empty, not a placeholder.
func literalSecret(value string) bool {
	value = strings.TrimSpace(value)
	for _, scheme := range []string{"bearer ", "basic ", "token "} {
		if len(value) >= len(scheme) && strings.EqualFold(value[:len(scheme)], scheme) {
			value = strings.TrimSpace(value[len(scheme):])
		}
	}
	lower := strings.ToLower(value)
	switch {
	case value == "", strings.Contains(value, "${"), lower == "true", lower == "false", lower == "null":
		return false
	case strings.HasPrefix(value, "<") && strings.HasSuffix(value, ">"), strings.HasPrefix(lower, "your"),
		strings.Trim(lower, "x.*…") == "":
		return false
	}
	return true
}

// secretName reports whether a name ends in the words of a secret: API_KEY,
// githubToken, X-Auth-Token, but not MAX_TOKENS or PASSWORD_FILE.
func secretName(name string) bool {
	words := nameWords(name)
	if len(words) == 0 {
		return false
	}
	last, before := words[len(words)-1], ""
	if len(words) > 1 {
		before = words[len(words)-2]
	}
	switch last {
	case "token", "secret", "password", "passwd", "pwd", "passphrase", "pat", "apikey", "apitoken", "authtoken",
		"credential", "credentials", "authorization", "bearer", "cookie", "jwt", "accesskey", "secretkey", "privatekey":
		return true
	case "key":
		switch before {
		case "api", "access", "secret", "private", "auth", "encryption", "signing", "master", "service", "account", "license":
			return true
		}
	}
	return false
}

// nameWords splits a name at everything but letters and digits and where a small
// letter meets a capital, and returns the last words in lower case.
func nameWords(name string) []string {
	if len(name) > 256 {
		name = name[len(name)-256:]
	}
	var b strings.Builder
	small := false
	for _, r := range name {
		if small && unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		small = unicode.IsLower(r)
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			b.WriteRune(unicode.ToLower(r))
		} else {
			b.WriteByte(' ')
		}
	}
	return strings.Fields(b.String())
}

// tokenShaped reports whether the text holds something that can hardly be
// anything but a credential.
func tokenShaped(s string) bool {
	if strings.Contains(s, "-----BEGIN ") && strings.Contains(s, "PRIVATE KEY-----") {
		return true
	}
	for _, shape := range []struct {
		prefix string
		least  int // characters after the prefix
	}{
		{"sk-", 20}, {"sk_live_", 16}, {"sk_test_", 16}, {"rk_live_", 16},
		{"ghp_", 30}, {"gho_", 30}, {"ghu_", 30}, {"ghs_", 30}, {"ghr_", 30}, {"github_pat_", 30},
		{"glpat-", 16}, {"xoxb-", 20}, {"xoxp-", 20}, {"xoxa-", 20}, {"xapp-", 20}, {"AKIA", 16}, {"ASIA", 16},
		{"AIza", 30}, {"ya29.", 20}, {"npm_", 30}, {"hf_", 30}, {"figd_", 20}, {"lin_api_", 20}, {"ntn_", 30},
		{"dop_v1_", 40}, {"SG.", 40}, {"pypi-", 40}, {"tvly-", 20}, {"eyJ", 60},
	} {
		for rest := s; ; {
			i := strings.Index(rest, shape.prefix)
			if i < 0 {
				break
			}
			after := rest[i+len(shape.prefix):]
			// "-" may also end the ":-" before a default.
			if (i == 0 || !isTokenByte(rest[i-1]) || strings.HasSuffix(rest[:i], ":-")) && tokenLength(after) >= shape.least {
				return true
			}
			rest = after
		}
	}
	return false
}

func isTokenByte(c byte) bool {
	return c == '-' || c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func tokenLength(s string) int {
	n := 0
	for n < len(s) && (isTokenByte(s[n]) || s[n] == '.') {
		n++
	}
	return n
}
