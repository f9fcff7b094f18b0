package config

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/mcptrack/mcptrack/core/config/tree"
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
func (e *entry) plaintext(name string, v *tree.Node, path pointer, where string) {
	raw := v.Text
	if tokenShaped(raw) || urlPassword(raw) || secretName(name) && literalSecret(raw) {
		e.warnSecret(v.Offset, path, where)
	}
}

// secretArgs reports the arguments that are or end in a secret.
func (e programKeys) secretArgs(args []*tree.Node) {
	texts := make([]string, len(args))
	for i, v := range args {
		texts[i] = v.Text
	}
	for i, at := range secretsInArgs(texts) {
		if at >= 0 {
			e.warnSecret(args[i].Offset, e.path.key("args").index(i), `"args"`)
		}
	}
}

// secretsInArgs returns where the secret begins in each argument, -1 if it has none:
// --token=VALUE, --token VALUE, NAME=VALUE, "Authorization: VALUE", and values that
// look like tokens by themselves.
func secretsInArgs(args []string) []int {
	at := make([]int, len(args))
	flag := "" // the name of an option that waits for its value
	for i, raw := range args {
		at[i] = -1
		name, value, hasValue := strings.Cut(raw, "=")
		if header, rest, isHeader := strings.Cut(raw, ": "); isHeader && !hasValue {
			name, value, hasValue = header, rest, true
		}
		switch {
		case hasValue && secretName(name) && literalSecret(value):
			at[i] = len(raw) - len(value)
		case tokenShaped(raw), urlPassword(raw), !strings.HasPrefix(raw, "-") && secretName(flag) && literalSecret(raw):
			at[i] = 0
		}
		flag = ""
		if strings.HasPrefix(raw, "-") && !hasValue {
			flag = raw
		}
	}
	return at
}

// urlPassword reports whether the text holds a URL with a password in it, such as
// postgres://user:password@host or redis://:password@host. Those over HTTP are the
// servers' own and have user names that are tokens; see secretURL.
func urlPassword(s string) bool {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme == "" {
		return false
	}
	authority, _, _ := strings.Cut(rest, "/")
	authority, _, _ = strings.Cut(authority, "?")
	at := strings.LastIndex(authority, "@")
	if at < 0 {
		return false
	}
	_, password, _ := strings.Cut(authority[:at], ":")
	return literalSecret(password)
}

// secretURL looks at a URL before expansion.
func (e remoteKeys) secretURL(raw string, f field) {
	if secretInURL(raw) {
		e.warnSecret(f.value.Offset, f.path, quote(f.name))
	}
}

// secretInURL reports whether the user info or the query of a URL has a secret.
func secretInURL(raw string) bool {
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
	return plain
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
	if value == "" || strings.Contains(value, "${") || strings.HasPrefix(value, "$") || lower == "true" || lower == "false" || lower == "null" {
		return false
	}
	return !placeholder(lower)
}

// placeholder reports whether a value in lower case is a note to put one there.
func placeholder(lower string) bool {
	for _, pair := range []string{"<>", "{}", "[]", "%%"} {
		if lower[0] == pair[0] && lower[len(lower)-1] == pair[1] {
			return true
		}
	}
	plain := plainKey(lower)
	for _, word := range []string{"your", "my", "replaceme", "replacewith", "changeme", "redacted", "placeholder", "example", "insert", "enter", "todo", "xxx", "secrethere", "tokenhere", "keyhere", "apikey"} {
		if strings.HasPrefix(plain, word) && word != "my" || strings.HasPrefix(lower, "my-") || strings.HasPrefix(lower, "my_") {
			return true
		}
	}
	return strings.Trim(lower, "x.*…-_0") == "" || strings.HasSuffix(plain, "here")
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
	case "token", "secret", "password", "passwd", "pwd", "pass", "passphrase", "pat", "apikey", "apitoken", "authtoken",
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
		{"sk-", 20}, {"sk_live_", 16}, {"sk_test_", 16}, {"rk_live_", 16}, {"pk_live_", 16}, {"whsec_", 20},
		{"ghp_", 30}, {"gho_", 30}, {"ghu_", 30}, {"ghs_", 30}, {"ghr_", 30}, {"github_pat_", 30},
		{"glpat-", 16}, {"glptt-", 16}, {"xoxb-", 20}, {"xoxp-", 20}, {"xoxa-", 20}, {"xoxc-", 20}, {"xapp-", 20}, {"AKIA", 16}, {"ASIA", 16},
		{"AIza", 30}, {"ya29.", 20}, {"GOCSPX-", 20}, {"npm_", 30}, {"hf_", 30}, {"figd_", 20}, {"lin_api_", 20}, {"ntn_", 30}, {"secret_", 40},
		{"dop_v1_", 40}, {"SG.", 40}, {"pypi-", 40}, {"tvly-", 20}, {"sbp_", 30}, {"sb_secret_", 20}, {"pplx-", 30}, {"gsk_", 30}, {"xai-", 30},
		{"fc-", 30}, {"apify_api_", 30}, {"r8_", 30}, {"dckr_pat_", 20}, {"shpat_", 30}, {"sntrys_", 30}, {"sntryu_", 30}, {"phx_", 30},
		{"glsa_", 30}, {"dapi", 32}, {"rnd_", 24}, {"ATATT3", 40}, {"CFPAT-", 30}, {"hvs.", 24}, {"nvapi-", 30}, {"re_", 30}, {"ctx7sk-", 20},
		{"BSA", 24}, {"eyJ", 60},
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

// secretShaped is tokenShaped for the name of a variable, where a token without a
// known prefix shows too: long and hexadecimal, or small and capital letters and
// digits in such disorder as no name has.
func secretShaped(name string) bool {
	if tokenShaped(name) {
		return true
	}
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return r >= 0x80 || r == '_' || !isTokenByte(byte(r)) }) {
		classes, turns, hexadecimal := map[byte]bool{}, 0, true
		for i := range len(part) {
			class := charClass(part[i])
			classes[class] = true
			if i > 0 && class != charClass(part[i-1]) {
				turns++
			}
			hexadecimal = hexadecimal && strings.IndexByte("0123456789abcdefABCDEF", part[i]) >= 0
		}
		if len(part) >= 20 && len(classes) >= 3 && 2*turns >= len(part) || len(part) >= 24 && hexadecimal && classes['0'] {
			return true
		}
	}
	return false
}

// charClass returns a representative of the letters or digits that c is one of.
func charClass(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return '0'
	case 'a' <= c && c <= 'z':
		return 'a'
	case 'A' <= c && c <= 'Z':
		return 'A'
	}
	return '-'
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
