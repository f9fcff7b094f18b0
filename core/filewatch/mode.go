package filewatch

// The kinds of [Mode].
const (
	// ModeInotify: events of the operating system, with slow polls as a net.
	// (Inotify is the Linux name; it stands for kqueue and others elsewhere.)
	ModeInotify = "inotify"
	// ModePoll: events cannot be relied upon. Those that come all the same are
	// used, but changes are promised only by the next poll.
	ModePoll = "poll"
)

// A Mode is how changes are found, and why not in the better way.
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
