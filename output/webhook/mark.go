package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/mcptrack/mcptrack/core/config"
)

// mark is how far the deliveries of a webhook are, as it is stored. It has neither the
// URL nor the secret.
type mark struct {
	Key    string `json:"key"` // of the URL and what selects events
	URL    string `json:"url"` // a digest
	Cursor string `json:"cursor"`
	GapDue bool   `json:"gapDue,omitempty"`
	// Sent and Held are those of the settler; Held by the ids of the events.
	Sent map[string]string `json:"sent,omitempty"`
	Held []string          `json:"held,omitempty"`
}

// newMark names a webhook.
func newMark(w config.Webhook) mark {
	digest := func(v any) string {
		data, _ := json.Marshal(v) // strings always encode
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:16])
	}
	url := w.URL.Reveal()
	return mark{Key: digest([]any{url, w.Format, w.Types, w.Servers, w.URIs}), URL: digest(url)}
}

// takeLocked takes the mark of a webhook out of those that are stored. If it is not the
// exact one it is the earliest of its URL, as the filters were changed.
func (h *Hooks) takeLocked(id mark, exact bool) (mark, bool) {
	at := -1
	for i, m := range h.marks {
		switch {
		case exact && m.Key == id.Key:
			at = i
		case !exact && m.URL == id.URL && (at < 0 || earlier(m.Cursor, h.marks[at].Cursor)):
			at = i
		}
	}
	if at < 0 {
		return mark{}, false
	}
	m := h.marks[at]
	h.marks = slices.Delete(h.marks, at, at+1)
	return m, true
}
