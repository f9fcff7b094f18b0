package credential

import (
	"slices"
	"strings"
	"unicode"

	"github.com/mcptrack/mcptrack/core/suggest"
)

// strength describes how likely a value is to be a secret, judging by its name.
type strength int

const (
	ordinary strength = iota // the name does not indicate a credential
	perhaps                  // a credential if the value looks like one: OPENAI_KEY
	weak                     // may be a credential or a setting: AUTH
	strong                   // always a credential: API_TOKEN
)

// Named reports whether a name suggests that its value is or may be a credential.
func Named(name string) bool { return kind(name) != ordinary }

// kind returns the strength of a name, based on its last words: API_KEY, githubToken, X-Auth-Token
// and PGPASSWORD are secrets; MAX_TOKENS and PASSWORD_FILE are not.
func kind(name string) strength {
	words := Words(name)
	word := func(fromEnd int) string {
		if i := len(words) - 1 - fromEnd; i >= 0 {
			return words[i]
		}
		return ""
	}
	last, before := word(0), word(1)
	switch last {
	case "":
		return ordinary
	case "token", "secret", "password", "passwd", "pwd", "pass", "passphrase", "passcode", "pat", "credential", "credentials", "creds",
		"authorization", "bearer", "cookie", "cookies", "jwt", "mnemonic":
		return strong
	case "auth":
		return weak
	case "access":
		if before == "x" {
			return weak
		}
	case "id":
		if before == "key" && (word(2) == "access" || word(2) == "secret") {
			return weak
		}
	case "key", "keys":
		return kindOfKey(before)
	}
	for _, end := range []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "secretkey", "privatekey", "authkey",
		"accountkey", "encryptionkey", "signingkey", "licensekey", "subscriptionkey", "masterkey", "apikeys", "dbpass", "sshpass", "userpass"} {
		if strings.HasSuffix(last, end) {
			return strong
		}
	}
	return ordinary
}

// kindOfKey returns the strength of a name that ends in "key", based on the preceding word.
func kindOfKey(before string) strength {
	switch before {
	case "api", "access", "secret", "private", "auth", "encryption", "signing", "master", "service", "account", "license", "subscription", "admin":
		return strong
	case "x":
		return weak
	case "public", "pub", "primary", "foreign", "sort", "partition", "cache", "group", "row", "object", "s3", "bucket", "registry", "hot",
		"shortcut", "map", "config", "translation", "json", "lookup", "index", "metric", "feature", "project", "issue", "space", "host",
		"kms", "routing", "file", "path", "column", "field", "event", "message", "storage", "idempotency", "item", "tag", "board", "by":
		return ordinary
	}
	return perhaps
}

// Words splits a name at characters that are not letters or digits, and between a lower-case and an
// upper-case letter. It returns the words in lower case and only considers the last 256 bytes of
// the name.
func Words(name string) []string {
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

// literal reports whether value is an actual secret, rather than empty, a reference, a path or a
// placeholder.
func literal(value string) bool {
	lower := strings.ToLower(value)
	switch {
	case lower == "" || strings.Contains(value, "${") || strings.HasPrefix(value, "$"), isPath(value):
		return false
	case slices.Contains([]string{"true", "false", "null", "none", "nil", "yes", "no", "on", "off", "0", "1", "n/a", "tbd", "unset", "not-set", "not_set"}, lower):
		return false
	}
	for _, scheme := range []string{"op://", "bws://", "vault:", "keychain:", "keyring:", "doppler:", "ssm:", "file:", "env:", "pass:"} { // reference schemes of other programs
		if strings.HasPrefix(lower, scheme) {
			return false
		}
	}
	return !placeholder(value)
}

// isPath reports whether a value is the path of a file that contains a secret.
func isPath(value string) bool {
	if strings.ContainsAny(value, "+=\n") {
		return false
	}
	for _, ext := range []string{".json", ".pem", ".key", ".p8", ".p12", ".pfx", ".crt", ".txt", ".env", ".yaml", ".yml", ".toml"} {
		if strings.HasSuffix(strings.ToLower(value), ext) {
			return true
		}
	}
	for _, start := range []string{"~/", "./", "../", `~\`, `.\`} {
		if strings.HasPrefix(value, start) {
			return true
		}
	}
	drive := len(value) > 3 && value[1] == ':' && (value[2] == '\\' || value[2] == '/')
	return drive || strings.HasPrefix(value, "/") && strings.Count(value, "/") >= 2
}

// placeholder reports whether a value only indicates where to put a secret. It may start like a
// token: sk-your-key.
func placeholder(value string) bool {
	if note(value) {
		return true
	}
	for shape := range shapes {
		if rest, ok := strings.CutPrefix(value, shape.prefix); ok && note(rest) {
			return true
		}
	}
	return false
}

// note reports whether the whole value is a placeholder.
func note(value string) bool {
	lower := strings.ToLower(value)
	if lower == "" {
		return true
	}
	for _, pair := range []string{"<>", "{}", "[]", "%%", "()"} {
		if lower[0] == pair[0] && lower[len(lower)-1] == pair[1] {
			return true
		}
	}
	if strings.HasSuffix(lower, "...") || strings.HasSuffix(lower, "…") { // the value ends in an ellipsis
		return true
	}
	if snake(value) && kind(value) != ordinary { // the name of a variable instead of its value
		return true
	}
	plain := strings.Trim(suggest.Plain(value), "[]<>{}.*…•")
	for _, start := range []string{"your", "replaceme", "replacewith", "changeme", "redacted", "placeholder", "example", "insert", "enter", "todo", "xxx",
		"secrethere", "tokenhere", "keyhere", "apikey", "puty", "pasteyour", "addyour", "dummy", "fixme"} {
		if strings.HasPrefix(plain, start) {
			return true
		}
	}
	for _, within := range []string{"placeholder", "redacted", "replace_with", "replace-with", "replace_me", "replace-me", "changeme", "change_me", "change-me",
		"_your_", "-your-", "_your-", "-your_", "<your"} {
		if strings.Contains(lower, within) {
			return true
		}
	}
	if slices.Contains([]string{"password", "passwd", "pass", "secret", "token", "key", "accesstoken", "authtoken", "bearer", "basic", "mysecret", "mypassword", "mytoken", "mykey"}, plain) {
		return true
	}
	return strings.HasPrefix(lower, "my-") || strings.HasPrefix(lower, "my_") || strings.Trim(lower, "x.*…•-_0") == "" ||
		strings.HasSuffix(plain, "here") || strings.HasSuffix(plain, "example") || strings.HasSuffix(plain, "examplekey")
}

// snake reports whether a value looks like the name of an environment variable: upper-case letters
// and digits with underscores.
func snake(value string) bool {
	return strings.Contains(value, "_") && strings.IndexFunc(value, func(r rune) bool {
		return !(r == '_' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9')
	}) < 0
}

// setting reports whether a value is a short number, a URL, or a word for a type of authentication
// or access, such as "oauth".
func setting(value string) bool {
	if len(value) <= 6 && strings.Trim(value, "0123456789") == "" || strings.Contains(value, "://") {
		return true
	}
	words := `none basic bearer oauth oauth1 oauth2 oauth21 token jwt digest ntlm kerberos negotiate iam sso apikey anonymous local default pat ldap saml oidc
		openid openidconnect cert certificate mtls tls ssl auto automatic required optional enabled disabled enable disable user password azure google
		github gitlab aws gcloud adc device devicecode browser interactive serviceaccount managedidentity clientcredentials authorizationcode
		scramsha256 scramsha1 md5 trust peer cli azcli env environment file keyring keychain session cookie header query firebase auth0 okta keycloak
		clerk supabase cognito entra hmac sigv4 awssigv4 xoauth2 plain login crammd5 read write readonly readwrite rw ro full public private internal
		admin guest all any me self static dynamic custom proxy forward passthrough both never always prompt`
	return slices.Contains(strings.Fields(words), suggest.Plain(value))
}

// opaque reports whether a value looks like more than a plain word.
func opaque(value string) bool {
	if len(value) < 6 || strings.ContainsAny(value, " \t") {
		return false
	}
	classes := map[byte]bool{}
	for i := range len(value) {
		classes[charClass(value[i])] = true
	}
	return classes['0'] || classes['a'] && classes['A'] || strings.ContainsAny(value, "!@#$%^&*=")
}
