package config

import (
	"fmt"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// add reads the entry as a server and adds it to the config. It reads all keys even after an
// error, so that all problems are reported at once.
func (e *entry) add(id string) {
	if e.visit != nil {
		e.visit(e, id)
		return
	}
	s := Server{ID: id}
	e.server, e.missing = &s, (*clauses)(&s.Missing)
	s.Enabled = e.enabled() && !e.off(id) // first, because a disabled server may lack anything
	s.Description = e.description()
	e.expander.secrets = nil
	e.expander.forgetUses() // of the description, which nothing is sent
	e.transport(&s)
	programKeys{e}.stdio(&s)
	remoteKeys{e}.remote(&s)
	oauthKeys{e}.oauth(&s)
	s.OnConnect = trackingKeys{e}.onConnect()
	s.Events = eventKeys{e}.events()
	s.Secrets = e.expander.secrets
	trackingKeys{e}.tracking(&s)
	e.catalog(&s)
	e.noteUnsupported()
	e.unknownKeys(e.object, e.path, e.label, serverKeys(), foreignKeys())
	s.Intent = e.intent(id, effectiveKeys())
	e.config.Servers = append(e.config.Servers, s)
}

// isBuiltin reports whether the entry stands for a built-in part of its host, which no other
// program can reach.
func (e *entry) isBuiltin() bool {
	if f, ok := e.field("type"); ok { // the word "builtin" in Goose; Claude Code and others use "type" for the transport
		for _, name := range []string{"builtin", "platform", "frontend", "inlinepython", "sdk", "inmemory", "claudeaiproxy", "sseide", "wside"} {
			if plainKey(f.value.Text) == name {
				return true
			}
		}
	}
	_, hasURL := remoteKeys{e}.findURL()
	if e.members["command"] != nil || e.members["cmd"] != nil || hasURL {
		return false
	}
	if f, ok := e.field("source"); ok && f.value.Text == "extension" { // Zed
		return true
	}
	if _, ok := e.field("uses"); ok { // Continue
		e.warnAt(e.object.Offset, e.path, CodeUnsupported, e.label+` has "uses" and is skipped; mcptrack does not fetch blocks from the hub of Continue`, "")
		return true
	}
	if !strings.HasPrefix(string(e.path), "/context_servers/") {
		return false
	}
	e.warnAt(e.object.Offset, e.path, CodeUnsupported,
		e.label+` has neither "command" nor "url" and is skipped; only an extension of Zed can start it`, "")
	return true
}

// description reads the text that describes the server. References that cannot be replaced stay
// in it: a description is no reason to call a server unusable.
func (e *entry) description() string {
	f, ok := e.find("description")
	if !ok {
		return ""
	}
	if f.value.Kind != tree.String {
		e.invalid(f, "string", "")
		return ""
	}
	if value, errs := e.expander.expand(f.value.Text); len(errs) == 0 {
		return value
	}
	return f.value.Text
}

// enabled reads "enabled" and its opposite, "disabled".
func (e *entry) enabled() bool {
	enabled, disabled := e.boolean("enabled", true), e.boolean("disabled", false)
	on, hasOn := e.find("enabled")
	off, hasOff := e.find("disabled")
	if !hasOff {
		return enabled
	}
	if !hasOn {
		return !disabled
	}
	if on.value.Kind == tree.Bool && off.value.Kind == tree.Bool && enabled == disabled {
		later := off
		if on.key > off.key {
			later = on
		}
		e.errorAt(later.key, later.path, CodeConflict,
			fmt.Sprintf(`%s has "enabled" and "disabled" that contradict each other`, e.label), "keep one of them")
	}
	return enabled
}
