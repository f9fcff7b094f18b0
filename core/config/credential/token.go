package credential

import "strings"

// A shape describes a known type of token: its prefix, and the minimum number of characters after
// the prefix.
type shape struct {
	prefix string
	least  int
}

// shapes yields the known types of tokens.
func shapes(yield func(shape) bool) {
	for _, s := range [...]shape{
		{"sk-", 20}, {"sk_live_", 16}, {"sk_test_", 16}, {"rk_live_", 16}, {"pk_live_", 16}, {"whsec_", 20},
		{"ghp_", 30}, {"gho_", 30}, {"ghu_", 30}, {"ghs_", 30}, {"ghr_", 30}, {"github_pat_", 30},
		{"glpat-", 16}, {"glptt-", 16}, {"gldt-", 16}, {"glrt-", 16}, {"xoxb-", 20}, {"xoxp-", 20}, {"xoxa-", 20}, {"xoxc-", 20}, {"xoxd-", 20}, {"xapp-", 20},
		{"AKIA", 16}, {"ASIA", 16}, {"AIza", 30}, {"ya29.", 20}, {"GOCSPX-", 20}, {"npm_", 30}, {"hf_", 30}, {"figd_", 20}, {"lin_api_", 20},
		{"ntn_", 30}, {"secret_", 40}, {"dop_v1_", 40}, {"SG.", 40}, {"pypi-", 40}, {"tvly-", 20}, {"sbp_", 30}, {"sb_secret_", 20}, {"pplx-", 30},
		{"gsk_", 30}, {"xai-", 30}, {"fc-", 30}, {"apify_api_", 30}, {"r8_", 30}, {"dckr_pat_", 20}, {"shpat_", 30}, {"shpss_", 30}, {"sntrys_", 30},
		{"sntryu_", 30}, {"phx_", 30}, {"glsa_", 30}, {"glc_", 30}, {"dapi", 32}, {"rnd_", 24}, {"ATATT3", 40}, {"ATCTT3", 40}, {"CFPAT-", 30}, {"hvs.", 24},
		{"hvb.", 24}, {"nvapi-", 30}, {"re_", 30}, {"ctx7sk-", 20}, {"BSA", 24}, {"eyJ", 60}, {"jina_", 30}, {"pcsk_", 30}, {"csk-", 30}, {"tgp_v1_", 30},
		{"fw_", 20}, {"nfp_", 30}, {"PMAK-", 30}, {"lsv2_pt_", 30}, {"lsv2_sk_", 30}, {"NRAK-", 20}, {"dt0c01.", 40}, {"xkeysib-", 40}, {"pat-na1-", 30},
		{"rpa_", 30}, {"e2b_", 30}, {"bb_live_", 20}, {"napi_", 40}, {"pscale_tkn_", 30}, {"dp.st.", 30}, {"dp.pt.", 30}, {"sha256~", 30},
	} {
		if !yield(s) {
			return
		}
	}
}

// shortest is the length of the shortest known token.
const shortest = 19

// Token reports whether a text contains a token of a known type or a private key.
func Token(s string) bool {
	f := finder{text: s}
	f.tokens(part{0, len(s)})
	return len(f.found) > 0
}

// tokens finds tokens of known types and private keys.
func (f *finder) tokens(p part) {
	text := f.of(p)
	if len(text) < shortest {
		return
	}
	if i := strings.Index(text, "-----BEGIN "); i >= 0 && strings.Contains(text[i:], "PRIVATE KEY-----") {
		f.add(part{p.from + i, p.to}, "")
	}
	for shape := range shapes {
		for from := 0; ; {
			i := strings.Index(text[from:], shape.prefix)
			if i < 0 {
				break
			}
			start := from + i
			body := start + len(shape.prefix)
			from = body
			// A preceding "-" may be the end of ":-", which introduces a default value.
			if start > 0 && isTokenByte(text[start-1]) && !strings.HasSuffix(text[:start], ":-") {
				continue
			}
			from += tokenLength(text[body:]) // a token cannot contain another token
			if from-body >= shape.least && !placeholder(text[body:from]) {
				f.add(part{p.from + start, p.from + from}, "")
			}
		}
	}
}

// Doubtful reports whether the name of a variable may actually be a credential: it starts like a
// token, even if it is short, or it looks random. A name in upper case with underscores is allowed
// to start like a token.
func Doubtful(name string) bool {
	if Token(name) || disordered(name) {
		return true
	}
	if snake(name) || strings.HasPrefix(name, "npm_config_") || strings.HasPrefix(name, "npm_package_") {
		return false
	}
	for shape := range shapes {
		if strings.HasPrefix(name, shape.prefix) {
			return true
		}
	}
	return false
}

// Certain reports whether the name of a variable is certainly a credential: it contains a complete
// token, or looks random.
func Certain(name string) bool { return Token(name) || disordered(name) }

// disordered reports whether a part of a name looks random: long and hexadecimal, or long with an
// unusual mixture of lower-case letters, upper-case letters and digits.
func disordered(name string) bool {
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return r >= 0x80 || r == '_' || !isTokenByte(byte(r)) }) {
		classes, turns, hexadecimal := mixture(part)
		if len(part) >= 20 && classes >= 3 && 2*turns >= len(part) || len(part) >= 24 && hexadecimal && strings.ContainsAny(part, "0123456789") {
			return true
		}
	}
	return false
}

// mixture returns the number of character classes in a text and the number of changes between
// classes, and reports whether all characters are hexadecimal digits.
func mixture(s string) (classes, turns int, hexadecimal bool) {
	var seen [128]bool
	hexadecimal = true
	for i := range len(s) {
		class := charClass(s[i])
		if !seen[class] {
			seen[class] = true
			classes++
		}
		if i > 0 && class != charClass(s[i-1]) {
			turns++
		}
		hexadecimal = hexadecimal && strings.IndexByte("0123456789abcdefABCDEF", s[i]) >= 0
	}
	return classes, turns, hexadecimal
}

// charClass returns a character that represents the class of c: 0 for digits, A for upper case, a
// for lower case, and - for all others.
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

func notToken(r rune) bool { return r >= 0x80 || !isTokenByte(byte(r)) }

func tokenLength(s string) int {
	n := 0
	for n < len(s) && (isTokenByte(s[n]) || s[n] == '.') {
		n++
	}
	return n
}
