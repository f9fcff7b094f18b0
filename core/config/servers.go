package config

// Stdio returns a server that is started with a command and its arguments. The command is searched
// in PATH. Everything that the server offers is tracked.
func Stdio(id, command string, args ...string) Server {
	s := tracked(id, TransportStdio)
	s.Command, s.Args = command, args
	return s
}

// HTTP returns a server that is reached at a URL over Streamable HTTP, or over legacy SSE if it
// supports nothing else. Everything that the server offers is tracked.
func HTTP(id, url string) Server {
	s := tracked(id, TransportHTTP)
	s.URL, s.Fallback = NewSecret(url), true
	return s
}

// tracked returns a server with the defaults of a config file, on which everything is tracked.
func tracked(id string, transport Transport) Server {
	s := Server{ID: id, Enabled: true, Transport: transport, Protocol: ProtocolAuto, RequestTimeout: DefaultRequestTimeout,
		Tracking: Tracking{Read: ReadDigest, Mode: ModeAuto, PollInterval: DefaultPollInterval, SafetyInterval: DefaultSafetyInterval}}
	s.TrackAll()
	return s
}
