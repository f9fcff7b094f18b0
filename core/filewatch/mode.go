package filewatch

// The kinds of [Mode].
const (
	// ModeInotify: events of the operating system, with slow polls as a fallback.
	// (Inotify is the Linux API; elsewhere it means kqueue and others.)
	ModeInotify = "inotify"
	// ModePoll: events are unreliable. They are still used, but a change is certain to
	// be found only by the next poll.
	ModePoll = "poll"
)

// A Mode is how changes are found.
type Mode struct {
	Kind   string // ModeInotify or ModePoll
	Reason string // why ModePoll; empty otherwise
}

// String returns the kind, followed by the reason if there is one.
func (m Mode) String() string {
	if m.Reason == "" {
		return m.Kind
	}
	return m.Kind + ": " + m.Reason
}
