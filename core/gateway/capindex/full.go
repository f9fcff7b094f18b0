package capindex

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// MaxFull bounds the full document, in bytes.
const MaxFull = 2 << 20

const (
	vocabulary     = 200      // keywords in the full document
	roomVocabulary = 16 << 10 // bytes for the keywords
	maxProse       = 1000     // characters of a description
)

// full returns the document that lists every element.
func full(v View, g *generation) stamped {
	p := &page{limit: MaxFull}
	p.WriteString("# Capability index: full\n\nGenerated: ")
	before := p.String()
	p.Reset()
	p.limit -= len(before) + len(time.RFC3339)
	p.WriteString("\n\n" + warning)
	counts := v.counts()
	p.WriteString("\n" + plural(counts["servers"], "server"))
	for _, k := range kinds() {
		p.WriteString(", " + plural(counts[string(k)], noun(k)))
	}
	p.WriteString(".\n")
	const reserve = roomVocabulary + 1024 // bytes for the sections after the elements
	shown, next := 0, 0
	room := true
	for i := range v.Servers {
		srv := &v.Servers[i]
		room = room && p.fits("\n## Server "+code(srv.ID, 128)+"\n"+about(srv), reserve)
		for kind := catalog.Kind(""); next < len(g.elements) && g.elements[next].server == srv; next++ {
			e, head := &g.elements[next], ""
			if e.kind != kind {
				kind = e.kind
				head = fmt.Sprintf("\n### %s\n", plural(srv.count(kind), noun(kind)))
			}
			if room = room && p.fits(head+e.markdown(), reserve); room {
				shown++
			}
		}
	}
	if hidden := len(g.elements) - shown; !room {
		fmt.Fprintf(p, "\n… and %s more, for which there is no room here.\n", plural(hidden, "element"))
	}
	p.covers(v)
	if keywords := g.index.Keywords(vocabulary); len(keywords) > 0 {
		sizes := g.index.Stats()
		fmt.Fprintf(p, "\n## Vocabulary\n\n%s in %s; the most common:\n\n", plural(sizes.Terms, "term"), plural(sizes.Documents, "document"))
		p.list(roomVocabulary, keywordLines(keywords))
	}
	return stamped{before, p.String()}
}

// about returns a line with a server's name, version and state, "" if none is known.
func about(srv *Server) string {
	var parts []string
	if srv.Name != "" {
		parts = append(parts, strings.TrimSpace(prose(srv.Name, 100)+" "+prose(srv.Version, 40)))
	}
	if srv.State != "" {
		parts = append(parts, prose(srv.State, 20))
	}
	if total(srv) == 0 {
		parts = append(parts, "nothing is offered")
	}
	if parts == nil {
		return ""
	}
	return "\n" + strings.Join(parts, ", ") + "\n"
}

// markdown returns one element with its description and parameters.
func (e *element) markdown() string {
	var b strings.Builder
	b.WriteString("\n#### " + code(e.key, 512) + "\n")
	if e.Description != "" {
		b.WriteString("\n" + prose(e.Description, maxProse) + "\n")
	}
	var facts []string
	fact := func(name, value string) { facts = append(facts, "- "+name+": "+value) }
	if e.Title != "" {
		fact("title", prose(e.Title, 200))
	}
	if e.Name != "" && e.Name != e.key {
		fact("name", code(e.Name, 200))
	}
	if len(e.params) > 0 {
		var params []string
		for _, param := range e.params {
			text := code(param.Name, 100)
			if param.Type != "" {
				text += " " + prose(param.Type, 20)
			}
			if param.Required {
				text += " (required)"
			}
			params = append(params, text)
		}
		fact("parameters", strings.Join(params, ", "))
	}
	if e.MimeType != "" {
		fact("type", code(e.MimeType, 100))
	}
	if e.Size != nil {
		fact("size", plural(int(*e.Size), "byte"))
	}
	if len(facts) > 0 {
		b.WriteString("\n" + strings.Join(facts, "\n") + "\n")
	}
	return b.String()
}

// covers writes the number of listed resources for each template, judged by the literal
// text before its first expression.
func (p *page) covers(v View) {
	var lines []string
	for i := range v.Servers {
		srv := &v.Servers[i]
		keys := srv.Lists[catalog.Resources].Keys()
		for _, it := range srv.Lists[catalog.Templates] {
			prefix, _, found := strings.Cut(it.Key, "{")
			if !found || prefix == "" {
				continue
			}
			from, _ := slices.BinarySearch(keys, prefix)
			n := 0
			for _, key := range keys[from:] {
				if !strings.HasPrefix(key, prefix) {
					break
				}
				n++
			}
			if n > 0 {
				lines = append(lines, fmt.Sprintf("- %s of %s: %s", code(it.Key, 200), code(srv.ID, 64), plural(n, "listed resource")))
			}
		}
	}
	if len(lines) > 0 {
		p.WriteString("\n## Templates and the resources below them\n\n")
		p.list(roomVocabulary/2, lines)
	}
}
