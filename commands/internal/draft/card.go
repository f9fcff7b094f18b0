package draft

import (
	"errors"
	"fmt"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/servercard"
)

// maxID is the maximum length of an id made from a card, in bytes.
const maxID = 60

// AddCards adds the servers of the cards that were found for an address: an entry for each remote over
// Streamable HTTP, or else over SSE. What the user has to supply becomes a variable. Nothing of a card
// can become a reference to another variable or to a file: see [variableName]. It returns the ids of
// those servers whose host the card, and not the user, chose.
func (d *Draft) AddCards(address servercard.Address, cards []servercard.Located) (chosen []string) {
	for _, c := range cards {
		source := Source{Host: printable.Line(address.URL.Host, 200), File: c.From, Valid: true, Servers: []string{}, Refused: c.Refused}
		for _, r := range preferred(c.Usable) {
			e := cardEntry{remote: r, from: c.From}
			srv, err := e.server(cardID(c.Card, address.URL.Hostname()), address.URL.Hostname())
			if err != nil {
				source.Refused = append(source.Refused, err.Error())
				continue
			}
			id, isNew := d.entries.add(srv, address.URL.Hostname())
			if source.Servers = append(source.Servers, id); isNew {
				d.Variables = append(d.Variables, e.variables...)
				if example, _ := r.Example(); example != nil {
					chosen = append(chosen, id)
				}
			}
		}
		source.Valid = len(source.Servers) > 0
		d.Sources = append(d.Sources, source)
	}
	return chosen
}

// preferred returns the remotes over Streamable HTTP, or those over SSE if there are no others.
func preferred(all []servercard.Remote) (some []servercard.Remote) {
	for _, kind := range []string{servercard.StreamableHTTP, servercard.SSE} {
		for _, r := range all {
			if r.Type == kind {
				some = append(some, r)
			}
		}
		if len(some) > 0 {
			break
		}
	}
	return some
}

// cardID returns an id for the server of a card: the last part of its name, unless that says nothing.
func cardID(c *servercard.Card, host string) string {
	space, name, _ := strings.Cut(c.Name, "/")
	for _, id := range []string{name, space[strings.LastIndexByte(space, '.')+1:], host} {
		id = strings.Trim(strings.Map(func(r rune) rune {
			if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.", r) {
				return r
			}
			return -1
		}, id), "-_.")
		switch strings.ToLower(id) {
		case "", "mcp", "server", "mcp-server", "api", "app":
		default:
			return id[:min(len(id), maxID)]
		}
	}
	return "server"
}

// cardEntry converts one remote to an entry.
type cardEntry struct {
	remote    servercard.Remote
	from      string // URL of the card
	host      string // to which the values of variables are sent
	variables []Variable
}

func (e *cardEntry) server(id, source string) (config.Imported, error) {
	example, err := e.remote.Example()
	if err != nil {
		return config.Imported{}, err
	}
	if e.host = source; example != nil {
		e.host = example.Hostname()
	}
	address, _, err := e.filled(e.remote.URL, e.remote.Variables)
	if err != nil {
		return config.Imported{}, fmt.Errorf("the URL of a remote %w", err)
	}
	keys := config.Keys{}
	if e.remote.Type == servercard.SSE {
		keys = append(keys, config.Key{Name: "type", Value: string(config.TransportSSE)})
	}
	keys = append(keys, config.Key{Name: "url", Value: address})
	headers := map[string]any{}
	var seen []string
	for _, h := range e.remote.Headers {
		name := textproto.CanonicalMIMEHeaderKey(h.Name)
		if slices.Contains(seen, name) {
			return config.Imported{}, fmt.Errorf("header %s occurs twice", printable.Line(h.Name, 60))
		}
		seen = append(seen, name)
		value, ok, err := e.header(h)
		if err != nil {
			return config.Imported{}, fmt.Errorf("header %s %w", printable.Line(h.Name, 60), err)
		}
		if ok {
			headers[h.Name] = value
		}
	}
	if len(headers) > 0 {
		keys = append(keys, config.Key{Name: "headers", Value: headers})
	}
	return config.Imported{ID: id, Enabled: true, Keys: keys}, nil
}

// header returns the value of a header, or false if the header is optional and has no value.
func (e *cardEntry) header(h servercard.Header) (value string, ok bool, err error) {
	if strings.Trim(h.Name, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return "", false, errors.New("has an invalid name")
	}
	before := len(e.variables)
	if h.Value != "" {
		value, asked, err := e.filled(h.Value, h.Variables)
		if asked == optional && !h.IsRequired {
			e.variables = e.variables[:before]
			return "", false, err
		}
		return value, true, err
	}
	if value, asked := e.input(h.Name, h.Input); asked != optional || h.IsRequired {
		return value, true, literal(value, asked == nothing)
	}
	e.variables = e.variables[:before]
	return "", false, nil
}

// asking says what a text asks the user for.
type asking int

const (
	nothing  asking = iota
	optional        // a value that need not be set
	required        // a value
)

// filled returns a text with its variables replaced by fixed values, defaults, or references.
func (e *cardEntry) filled(text string, inputs map[string]servercard.Input) (out string, most asking, err error) {
	if err := literal(servercard.Expand(text, func(string) string { return "" }), true); err != nil {
		return "", nothing, err
	}
	out = servercard.Expand(text, func(name string) string {
		value, asked := e.input(name, inputs[name])
		if asked == nothing && err == nil {
			err = literal(value, true)
		}
		most = max(most, asked)
		return value
	})
	// A reference may not arise from a fixed text and a value that follows it.
	if plain := servercard.Expand(text, func(name string) string {
		if in := inputs[name]; fixed(in) != "" {
			return fixed(in)
		}
		return " "
	}); err == nil {
		err = literal(plain, true)
	}
	return out, most, err
}

// fixed returns the value that is written for an input, or "" if the user has to supply it.
func fixed(in servercard.Input) string {
	if in.Value == "" && !in.IsSecret {
		return in.Default
	}
	return in.Value
}

// input returns the fixed value of an input, or a reference to its variable.
func (e *cardEntry) input(name string, in servercard.Input) (string, asking) {
	if value := fixed(in); value != "" {
		return value, nothing
	}
	v := Variable{Name: variableName(e.host, name), File: e.from, About: about(name, in)}
	if !slices.Contains(e.variables, v) {
		e.variables = append(e.variables, v)
	}
	if in.IsRequired {
		return "${" + v.Name + "}", required
	}
	return "${" + v.Name + "}", optional
}

// about describes the value that the user has to supply.
func about(name string, in servercard.Input) string {
	text := name
	for _, more := range []string{in.Description, in.Placeholder} {
		if more != "" && len(text) < 200 {
			text += ": " + more
		}
	}
	if len(in.Choices) > 0 {
		text += "; one of " + strings.Join(in.Choices[:min(len(in.Choices), 8)], ", ")
	}
	return printable.Line(printable.Flat(text), 300)
}

// literal refuses a text of a card that would be a reference in a config, or that no URL or header can
// contain. own is false if the text is a reference that the draft made.
func literal(text string, own bool) error {
	switch {
	case own && strings.Contains(text, "${"):
		return errors.New("contains a reference to a variable or a file of this machine")
	case strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0:
		return errors.New("contains control characters")
	}
	return nil
}

// variableName returns the name of the variable for a value that is sent to a host. It contains the host,
// so that a card cannot ask for the variable of another host, and a prefix, so that it cannot ask for a
// variable of another program. One underscore stands for a dot, three for a hyphen, and only two end the
// host: a name has no two in a row.
func variableName(host, name string) string {
	words := func(s, hyphen string) string {
		var b strings.Builder
		for _, r := range s {
			switch {
			case 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_':
				b.WriteRune(r)
			case r == '-':
				b.WriteString(hyphen)
			default:
				b.WriteByte('_')
			}
		}
		return strings.ToUpper(b.String())
	}
	of := "MCP_" + words(host, "___") + "__"
	name = strings.Join(strings.FieldsFunc(words(name, "_"), func(r rune) bool { return r == '_' }), "_")
	if name == "" || credential.Doubtful(of+name) { // a name that looks like a token is a reference to none
		name = "SECRET"
	}
	return of + name
}

// AddURL adds the endpoint of a server, without a card.
func (d *Draft) AddURL(address *url.URL) error {
	if err := literal(address.String(), true); err != nil {
		return fmt.Errorf("the URL %w", err)
	}
	d.entries.add(config.Imported{ID: address.Hostname(), Enabled: true, Keys: config.Keys{{Name: "url", Value: address.String()}}}, "")
	return nil
}
