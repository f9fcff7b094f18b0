package textindex

import (
	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
)

// English is an [Options.Term] for English: it returns "" for stop words, else the stem, so
// that "notes" finds "note". Words with characters other than a to z are returned unchanged.
func English(word string) string {
	if stopWord(word) {
		return ""
	}
	for i := range len(word) {
		if word[i] < 'a' || word[i] > 'z' {
			return word
		}
	}
	env := snowballstem.NewEnv(word)
	english.Stem(env)
	return env.Current()
}

func stopWord(word string) bool {
	switch word {
	case "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "do", "does", "each", "for", "from",
		"has", "have", "how", "if", "in", "into", "is", "it", "its", "may", "more", "must", "no", "not", "of", "on", "one",
		"only", "or", "other", "out", "same", "should", "so", "some", "such", "than", "that", "the", "their", "them", "then",
		"there", "these", "they", "this", "those", "to", "up", "use", "used", "using", "was", "we", "were", "what", "when",
		"where", "which", "who", "will", "with", "would", "you", "your":
		return true
	}
	return false
}
