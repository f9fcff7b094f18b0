package reload

import (
	"net/url"
	"slices"

	"github.com/mcptrack/mcptrack/core/config"
)

// A Hold decides which entries of the file wait for the user's approval.
//
// A server that waits gets [config.Server.Unapproved]. If another entry with its ID was in use, that
// one stays in use, and is Superseded. A webhook that waits is among those that cannot be used; one that
// was in use with the same URL stays in use in its place.
type Hold struct {
	// Approved returns the digests of the intents that are approved now. It is called on Run's
	// goroutine for every new content, and again when File changes. nil: all are approved.
	Approved func() map[string]bool
	// File is where approvals are stored; "": nowhere.
	File string
	// Commands holds back commands that were not running until a Kick: the operator's word.
	Commands bool
	// Hint says how to approve what Approved does not, for people.
	Hint string
}

// waiting is an entry that waits, for the log.
type waiting struct {
	key       string // differs if the entry differs
	subject   []any  // attributes that say what waits
	meanwhile string // what happens until it is approved
	hint      string
}

// hold returns what to apply of the next config while the running one is in use, and what waits.
// Nothing waits for a nil Hold.
func (h *Hold) hold(running, next *config.Config, kicked bool) (*config.Config, []waiting) {
	if h == nil {
		return next, nil
	}
	out := *next
	out.Servers, out.Webhooks = make([]config.Server, 0, len(next.Servers)), slices.Clone(next.Webhooks)
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
	used := map[string]bool{} // webhooks in use that the file still has, or that stay in use in place of another
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
	return &out, held
}

// kickHint is what starts a command that Commands holds back.
const kickHint = "send SIGHUP to start it"

// starts reports whether a server is a command that is not running. old is the entry in use, if it
// is known. A server that is not tracked may be run by the gateway, which is not known here: it
// counts as running while its entry stays untracked, and as not running when it becomes tracked.
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
