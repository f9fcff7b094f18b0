package servercard

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/mcptrack/mcptrack/core/mcp"
)

// maxAge is how many seconds clients may use a document without asking for it again.
const maxAge = "3600"

// Own is a server of ours, as its card describes it.
type Own struct {
	Name        string // without a namespace
	Title       string
	Description string // at most 100 characters
	Version     string
	Path        string // of the endpoint, such as /mcp
	Token       bool   // clients need a token
}

// Routes returns the handlers of the server's documents by path: its card, at the location that MCP
// reserves and at the location of earlier drafts, and the catalog of its host. The documents are public: they
// contain the address by which the request came, which base returns as scheme, host and port, and
// otherwise nothing but o. The handlers answer GET and HEAD; CORS is left to the caller.
func (o Own) Routes(base func(*http.Request) string) map[string]http.Handler {
	card := document(CardType, func(q *http.Request) any { return o.card(base(q)) })
	return map[string]http.Handler{
		o.Path + Suffix: card,
		CardPath:        card,
		CatalogPath:     document(CatalogType, func(q *http.Request) any { return o.catalog(base(q)) }),
	}
}

// card returns the card of the server at scheme://host:port.
func (o Own) card(base string) Card {
	remote := Remote{Type: StreamableHTTP, URL: base + o.Path, SupportedProtocolVersions: mcp.Versions()}
	if o.Token {
		remote.Headers = []Header{{Name: "Authorization",
			Input:     Input{Description: "A token of this server.", IsRequired: true, IsSecret: true, Value: "Bearer {token}"},
			Variables: map[string]Input{"token": {Description: "A token of this server.", IsRequired: true, IsSecret: true}}}}
	}
	return Card{Schema: Schema, Name: "io.github.mcptrack/" + o.Name, Version: o.Version, Title: o.Title, Description: o.Description,
		WebsiteURL: "https://github.com/mcptrack/mcptrack", Remotes: []Remote{remote}}
}

type aiCatalog struct {
	SpecVersion string         `json:"specVersion"`
	Entries     []catalogEntry `json:"entries"`
}

type catalogEntry struct {
	Identifier string `json:"identifier"`
	Type       string `json:"type"`
	URL        string `json:"url"`
}

func (o Own) catalog(base string) aiCatalog {
	identifier := base + o.Path
	if u, err := url.Parse(base); err == nil {
		if _, err := netip.ParseAddr(u.Hostname()); err != nil { // urn:air is for domains
			identifier = "urn:air:" + u.Hostname() + ":mcp:" + o.Name
		}
	}
	return aiCatalog{"1.0", []catalogEntry{{identifier, CardType, base + o.Path + Suffix}}}
}

// document returns the handler of a document.
func document(mediaType string, make func(*http.Request) any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method != http.MethodGet && q.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		text, err := json.Marshal(make(q))
		if err != nil {
			http.Error(w, "internal error", http.StatusInternalServerError)
			return
		}
		sum := sha256.Sum256(text)
		tag := `"` + hex.EncodeToString(sum[:16]) + `"`
		h := w.Header()
		h.Set("Content-Type", mediaType)
		h.Set("Cache-Control", "public, max-age="+maxAge)
		h.Set("ETag", tag)
		for known := range strings.SplitSeq(q.Header.Get("If-None-Match"), ",") {
			if known = strings.TrimPrefix(strings.TrimSpace(known), "W/"); known == tag || known == "*" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
		}
		_, _ = w.Write(append(text, '\n'))
	})
}
