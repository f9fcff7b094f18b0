package config

// HTTP returns a server at a URL, for programs that have no config file. Everything on the server is
// tracked; all other fields have the values that they have for an entry {"url": URL} in a file. The
// URL is used as it is: it must be a valid http or https URL, and references in it are not expanded.
func HTTP(id, url string) Server {
	return tracked(Server{ID: id, Transport: TransportHTTP, Fallback: true, URL: NewSecret(url)})
}

// Stdio returns a server that is a program, for programs that have no config file. Everything on the
// server is tracked; all other fields have the values that they have for an entry {"command":
// COMMAND, "args": ARGS} in a file. The program is started in the working directory and inherits
// only variables such as PATH and HOME; add others to Env.
func Stdio(id, command string, args ...string) Server {
	return tracked(Server{ID: id, Transport: TransportStdio, Program: Program{Command: command, Args: args}})
}

// tracked sets the defaults of a server, and tracks everything on it.
func tracked(s Server) Server {
	s.Enabled, s.Protocol, s.RequestTimeout = true, ProtocolAuto, DefaultRequestTimeout
	s.Tracking = Tracking{
		TrackResources: true, TrackTools: true, TrackPrompts: true, TrackSkills: true, Read: ReadDigest, Mode: ModeAuto,
		PollInterval: DefaultPollInterval, SafetyInterval: DefaultSafetyInterval,
	}
	return s
}
