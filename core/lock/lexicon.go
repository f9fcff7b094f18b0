package lock

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/printable"
)

// A folded text is ASCII: letters that only look like ASCII are replaced, hidden characters and
// apostrophes are left out, and other characters are a zero byte.
type folded struct {
	text string // with upper and lower case
	at   []int  // where each byte is in the original, and the end
}

func fold(s string) folded {
	text := make([]byte, 0, len(s))
	at := make([]int, 0, len(s)+1)
	for i, r := range s {
		c := byte(0)
		switch {
		case r == '\'' || r == '’':
			continue
		case r < utf8.RuneSelf:
			if c = byte(r); r < ' ' && r != '\n' && r != '\t' && r != '\r' {
				continue
			}
		case printable.Hidden(s, i):
			continue
		default:
			if plain, like := lookalike(r); like {
				c = plain
			}
		}
		text, at = append(text, c), append(at, i)
	}
	return folded{string(text), append(at, len(s))}
}

// A lexicon recognises words for secrets and phrases that instruct a model.
type lexicon struct {
	phrases map[string][][]step // by each first word
	secrets map[string][][]step
	literal []literal
}

// A step is one word of a phrase.
type step struct {
	words    []string // any of these
	optional bool
	gap      int // or up to so many words of any kind
}

// A literal is a name or tag that is more than words.
type literal struct{ kind, text string }

// match calls found for all that a text contains: what it is, a key that is the same for words in
// singular and plural, and the bytes of the folded text.
func (l lexicon) match(p folded, found func(kind, key string, from, to int)) {
	lower := strings.ToLower(p.text)
	for _, table := range []struct {
		kind    string
		phrases map[string][][]step
		camel   bool
	}{{Phrase, l.phrases, false}, {Secret, l.secrets, true}} {
		words := splitWords(p.text, lower, table.camel)
		for i, w := range words {
			for _, steps := range table.phrases[w.text] {
				if key, n := follow(steps, words[i:]); n > 0 {
					found(table.kind, key, w.from, words[i+n-1].to)
				}
			}
		}
	}
	for _, t := range l.literal {
		for from := 0; ; {
			i := strings.Index(lower[from:], t.text)
			if i < 0 {
				break
			}
			i += from
			from = i + len(t.text)
			inside := t.text[0] != '<' && isNamePart(t.text[len(t.text)-1]) && from < len(lower) && isNamePart(lower[from])
			if !inside && (t.text[0] == '<' || t.text[0] == '[' || i == 0 || !isNamePart(lower[i-1])) {
				found(t.kind, t.text, i, from)
			}
		}
	}
}

func isNamePart(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' || c == '-' }

// A word is a run of letters and digits of a folded text, in lower case.
type word struct {
	text     string
	from, to int
}

// splitWords returns the words of a text. If camel, names such as apiKey and APIKey are two words.
func splitWords(text, lower string, camel bool) []word {
	var words []word
	start := -1
	end := func(i int) {
		if start >= 0 {
			words = append(words, word{lower[start:i], start, i})
		}
		start = -1
	}
	isUpper := func(i int) bool { return 'A' <= text[i] && text[i] <= 'Z' }
	for i := range len(text) {
		switch {
		case !isLetter(text[i]) && !isDigit(text[i]):
			end(i)
		case start < 0:
			start = i
		case camel && isUpper(i) && (!isUpper(i-1) || i+1 < len(text) && 'a' <= text[i+1] && text[i+1] <= 'z'):
			end(i)
			start = i
		}
	}
	end(len(text))
	return words
}

// follow returns how many words the steps match from the first word on, and the key of the match; 0
// if they do not.
func follow(steps []step, words []word) (key string, n int) {
	if len(steps) == 0 {
		return "", 0
	}
	s, rest := steps[0], steps[1:]
	if s.gap > 0 {
		for skip := range min(s.gap, len(words)) + 1 {
			if key, n := follow(rest, words[skip:]); n > 0 {
				return key, skip + n
			}
		}
		return "", 0
	}
	if len(words) > 0 && slices.Contains(s.words, words[0].text) {
		name := strings.TrimSuffix(words[0].text, "s")
		if len(rest) == 0 {
			return name, 1
		}
		if key, n := follow(rest, words[1:]); n > 0 {
			return name + key, 1 + n
		}
	}
	if s.optional {
		return follow(rest, words)
	}
	return "", 0
}

// newLexicon returns the lexicon. In a phrase, a|b is either word, a? may be missing, and *3 is up to
// three words of any kind.
func newLexicon() lexicon {
	const (
		user  = "user|users|human|customer|anyone"
		rules = "instruction|instructions|prompt|prompts|directive|directives|guideline|guidelines|rules|guardrails"
	)
	l := lexicon{phrases: map[string][][]step{}, secrets: map[string][][]step{}}
	for _, p := range []string{
		// Other instructions do not hold.
		"ignore|disregard|forget *3 previous|prior|above|earlier|preceding|your|system|safety|original|existing|other *2 " + rules,
		"ignore|disregard|forget|override|bypass all|any|the|these|those? *1 instruction|instructions|directives|guardrails",
		"override|bypass *3 previous|prior|your|system|safety *2 " + rules,
		"regardless|irrespective of *2 instruction|instructions|directives|guidelines",
		"not|never|dont follow|obey *2 previous|prior|above|earlier|original|system|user|users|your *1 instruction|instructions|rules|guidelines",
		"system|developer prompt|prompts",
		"your system|developer message|instructions",
		"hidden|secret instruction|instructions",
		"new|updated|real instructions for? you|the? model|assistant|ai",
		"you are now a|an|the|in|acting",
		"act|behave as *2 administrator|root|dan|jailbroken",
		"do anything now", "jailbreak|jailbroken", "unrestricted|god mode",
		"system|instruction|instructions override|directive",
		// The user does not get to know.
		"not|never|dont|without|avoid *1 tell|telling|mention|mentioning|inform|informing|notify|notifying|reveal|revealing|disclose|disclosing|alert|alerting|warn|warning *6 " + user,
		"no need to mention|tell|inform|notify",
		"not|never|dont *1 let *2 " + user + " know|see|notice",
		"not|never|dont mention that|this|it|anything|why",
		user + " must|should|need|can|will|does? not|never|dont know|see|notice|find",
		"secret|hidden|invisible|confidential|quiet from|to the|your? " + user,
		"secretly|silently|covertly|quietly *1 read|send|upload|forward|include|pass|call|execute|run|copy|add|append|post|collect",
		"without *2 " + user + " *1 knowing|knowledge|noticing|consent|permission|approval|confirmation",
		"without asking|telling|informing|notifying|alerting *3 " + user,
		// Something is to be read or sent on the side.
		"before|when|prior|after to? using|calling|invoking|running|executing|use|call *1 this|any|the|other tool|tools|function *2 please|first|you|must|always? read|open|access|retrieve|fetch|cat|list|send|load|collect",
		"send|forward|upload|post|transmit|pass|copy|include|submit *3 entire|full|whole|complete|conversation *1 conversation|chat|transcript|history|context",
		"exfiltrate|exfiltrates|exfiltrating",
		// One tool speaks about others.
		"any|every|all|another|other other? tool|tools|function *2 is|are called|invoked|used",
		"before|after *2 any|every|all other tool|tools",
		"must|always also *1 call|send|invoke|execute|forward|cc|bcc",
		"takes|has|have precedence|priority over *2 other|all|any tool|tools|instructions",
	} {
		addPhrase(l.phrases, p)
	}
	for _, p := range []string{
		"password|passwords|passwd|passphrase|passphrases|passcode|passcodes",
		"credential|credentials", "secrets",
		"api key|keys", "apikey|apikeys", "apitoken|accesstoken|authtoken",
		"api|access|auth|authentication|authorization|bearer|refresh|session|secret|oauth|oauth2|identity|personal|bot|login|security|user|service|deploy|github|slack token|tokens",
		"personal access token|tokens", "access|secret|private|ssh|gpg|pgp|encryption|decryption|signing|master|license key|keys",
		"client|app|shared|signing|webhook|consumer secret", "secret access key|keys",
		"session|login|auth|authentication|browser cookie|cookies", "authorization header|headers",
		"seed|recovery|mnemonic phrase|phrases|words", "keychain", "keyring",
		"id rsa|dsa|ecdsa|ed25519",
		"known hosts", "authorized keys",
	} {
		addPhrase(l.secrets, p)
	}
	for _, t := range []string{"<important", "</important", "<system>", "<system_", "<system-", "</system", "<hidden", "<instructions", "</instructions", "<<sys", "<|im_", "<|system",
		"<|user", "<|assistant", "<|endoftext", "[inst]", "[/inst]", "<tool_call", "<function_call", "[system]"} {
		l.literal = append(l.literal, literal{Phrase, t})
	}
	for _, t := range []string{".env", ".ssh", ".aws", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".kube", ".gnupg", ".docker/config.json",
		".bash_history", ".zsh_history", "/etc/passwd", "/etc/shadow", "mcp.json", "claude_desktop_config.json", "wallet.dat", ".cursor"} {
		l.literal = append(l.literal, literal{Secret, t})
	}
	return l
}

func addPhrase(table map[string][][]step, phrase string) {
	var steps []step
	for f := range strings.FieldsSeq(phrase) {
		if f[0] == '*' {
			steps = append(steps, step{gap: int(f[1] - '0')})
			continue
		}
		alternatives, optional := strings.CutSuffix(f, "?")
		steps = append(steps, step{words: strings.Split(alternatives, "|"), optional: optional})
	}
	for i, s := range steps {
		for _, first := range s.words {
			table[first] = append(table[first], steps[i:])
		}
		if !s.optional {
			break
		}
	}
}
