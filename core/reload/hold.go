package reload

import (
	"net/url"
	"slices"

	"github.com/mcptrack/mcptrack/core/config"
)

// A Hold determines which entries of the config file must wait for the user's approval.
//
// A server that waits has [config.Server.Unapproved] set. If an entry with the same ID is in use,
// that entry stays in use and is marked as Superseded. A webhook that waits has
// [config.Webhook.Missing] set, unless a webhook with the same URL is in use, which then stays in
// use; likewise a hook that waits, by its ID.
type Hold struct {
	// Approved returns the digests of the approved intents. Run calls it on its own goroutine
	// whenever the content of the config or File changes. If it is nil, all intents are approved.
	Approved func() map[string]bool
	// File is the file in which approvals are stored; empty if they are not stored.
	File string
	// Commands holds back commands that are not already running until an operator requests a Kick.
	Commands bool
	// Hint tells the user how to approve an entry.
	Hint string
}

// waiting describes an entry that waits for approval, for use in the log.
type waiting struct {
	key       string // identifies the entry and its content
	subject   []any  // log attributes of the entry
	meanwhile string // what happens until the entry is approved
	hint      string
}

// hold returns the config to apply in place of next, given that running is in use, and the entries
// that must wait. If the Hold is nil, no entries wait.
func (h *Hold) hold(running, next *config.Config, kicked bool) (*config.Config, []waiting) {
	if h == nil {
		return next, nil
	}
	out := next.With(make([]config.Server, 0, len(next.Servers)))
	out.Webhooks = slices.Clone(next.Webhooks)
	var held []waiting
	approved := func(*config.Intent) bool { return true }
	if h.Approved != nil {
		digests := h.Approved()
		approved = func(in *config.Intent) bool { return in == nil || digests[in.Digest] }
	}
	for _, srv := range next.Servers {
		old, known := running.Server(srv.ID)
		hint := ""
		switch {
		case !srv.Enabled:
		case !approved(srv.Intent):
			hint = h.Hint
		case h.Commands && !kicked && starts(srv, old, known):
			hint = kickHint
		}
		if hint != "" {
			w := waiting{srv.ID + " " + hint + " " + digestOf(srv.Intent), []any{"server", srv.ID, "command", srv.CommandLine()}, "the server is not connected", hint}
			if srv.Transport != config.TransportStdio {
				w.subject[2], w.subject[3] = "url", srv.Endpoint()
			}
			if known && old.Enabled && old.Unusable() == nil {
				w.meanwhile = "the server stays connected as before"
				srv, srv.Superseded = old, true
			}
			srv.Unapproved = hint
			held = append(held, w)
		}
		out.Servers = append(out.Servers, srv)
	}
	used := map[string]bool{} // webhooks that are in the file or stay in use
	for _, hook := range next.Webhooks {
		used[digestOf(hook.Intent)] = true
	}
	for i, hook := range next.Webhooks {
		if approved(hook.Intent) {
			continue
		}
		w := waiting{"webhook " + digestOf(hook.Intent), []any{"webhook", hostOf(hook)}, "no events are sent to it", h.Hint}
		was := slices.IndexFunc(running.Webhooks, func(o config.Webhook) bool {
			return o.URL == hook.URL && len(o.Missing) == 0 && !used[digestOf(o.Intent)]
		})
		if was >= 0 {
			w.meanwhile = "events are sent to it as before"
			out.Webhooks[i] = running.Webhooks[was]
			used[digestOf(running.Webhooks[was].Intent)] = true
		} else {
			out.Webhooks[i].Missing = append(slices.Clone(hook.Missing), (&config.UnapprovedError{Hint: h.Hint}).Error())
		}
		held = append(held, w)
	}
	out.Hooks = slices.Clone(next.Hooks)
	for i, hook := range next.Hooks {
		if approved(hook.Intent) {
			continue
		}
		w := waiting{"hook " + hook.ID + " " + digestOf(hook.Intent), []any{"hook", hook.ID}, "it accepts no messages", h.Hint}
		was := slices.IndexFunc(running.Hooks, func(o config.Hook) bool { return o.ID == hook.ID && len(o.Missing) == 0 })
		if was >= 0 {
			w.meanwhile = "it accepts messages as before"
			out.Hooks[i] = running.Hooks[was]
		} else {
			out.Hooks[i].Missing = append(slices.Clone(hook.Missing), (&config.UnapprovedError{Hint: h.Hint}).Error())
		}
		held = append(held, w)
	}
	out.Clients = slices.Clone(next.Clients)
	for i, client := range next.Clients {
		if approved(client.Intent) {
			continue
		}
		w := waiting{"client " + client.Name + " " + digestOf(client.Intent), []any{"client", client.Name}, "it is refused", h.Hint}
		was := slices.IndexFunc(running.Clients, func(o config.Client) bool { return o.Name == client.Name && len(o.Missing) == 0 })
		if was >= 0 {
			w.meanwhile = "it sees the same as before"
			out.Clients[i] = running.Clients[was]
		} else {
			out.Clients[i].Missing = append(slices.Clone(client.Missing), (&config.UnapprovedError{Hint: h.Hint}).Error())
		}
		held = append(held, w)
	}
	return out, held
}

// kickHint is the hint for a command that is held back because of Commands.
const kickHint = "send SIGHUP to start it"

// starts reports whether applying srv would start a command that is not running. old is the entry
// in use; known is false if there is none. Whether the gateway runs an untracked server is unknown
// here: it is assumed to be running while its entry stays untracked, and not to be running when it
// becomes tracked.
func starts(srv, old config.Server, known bool) bool {
	runs := known && old.SameConnection(srv) && (old.Tracked() || !srv.Tracked())
	return srv.Transport == config.TransportStdio && !runs
}

func hostOf(w config.Webhook) string {
	if u, err := url.Parse(w.URL.Reveal()); err == nil {
		return u.Host
	}
	return ""
}

func digestOf(in *config.Intent) string {
	if in == nil {
		return ""
	}
	return in.Digest
}
