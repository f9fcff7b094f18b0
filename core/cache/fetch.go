package cache

// Fetch is one request whose result is to be cached. It ends with exactly one call of
// Resource, Prompt, ToolResult, Refresh or Cancel.
type Fetch struct {
	session *Session
	key     key    // of the entry in which the result is stored
	uri     string // the resource that is read; "" for prompts and tools
	begun   uint64 // number of the fetch in its session; it rises

	// Guarded by the store's lock.
	outdated bool // an update of the resource was announced since the fetch began
	unwanted bool // the server no longer lists what is fetched
}

// Outcome says what the cache did with a result.
type Outcome uint8

// The outcomes.
const (
	// Stored: the result is cached.
	Stored Outcome = iota
	// Outdated: an update was announced since the request was sent. Fetch again.
	Outdated
	// Superseded: the result of a later request is cached already, the session is over,
	// or the server no longer offers what was fetched.
	Superseded
	// TooLarge: the result does not fit. The entry is removed.
	TooLarge
)

// Resource caches the content of a resource.
func (f *Fetch) Resource(r Resource) Outcome { return f.store(r) }

// Prompt caches a prompt.
func (f *Fetch) Prompt(p Prompt) Outcome { return f.store(p) }

// ToolResult caches the result of a tool.
func (f *Fetch) ToolResult(t ToolResult) Outcome { return f.store(t) }

// Cancel ends a fetch without a result.
func (f *Fetch) Cancel() {
	f.session.store.mu.Lock()
	defer f.session.store.mu.Unlock()
	f.end()
}

func (f *Fetch) store(v entry) Outcome {
	v = v.own()
	s := f.session.store
	s.mu.Lock()
	defer s.mu.Unlock()
	f.end()
	switch {
	case f.session.closed || f.unwanted:
		return Superseded
	case f.outdated:
		return Outdated
	}
	if el := f.session.items[f.key]; el != nil && el.Value.(*item).begun > f.begun {
		return Superseded
	}
	if v.bytes() > s.max/4 {
		f.session.drop(f.key)
		return TooLarge
	}
	s.put(f.session, f.key, v, f.begun)
	return Stored
}

// Replaced is an entry that Refresh updated, before and after.
type Replaced struct{ Was, Now Resource }

// Refresh updates the entries that have the content of the URI, under any key, with
// content that was read for another reason. It creates no entry, and outdated content
// changes nothing.
func (f *Fetch) Refresh(r Resource) []Replaced {
	s := f.session.store
	s.mu.Lock()
	defer s.mu.Unlock()
	f.end()
	if f.session.closed || f.outdated {
		return nil
	}
	var keys []key
	f.session.eachOf(f.uri, func(k key, it *item) {
		if it.begun <= f.begun {
			keys = append(keys, k)
		}
	})
	var out []Replaced
	for _, k := range keys {
		el := f.session.items[k]
		if el == nil {
			continue // evicted to make room for the previous one
		}
		was := el.Value.(*item).value.(Resource)
		now := r
		now.URI, now.Template, now.Params = was.URI, was.Template, was.Params
		if now.bytes() > s.max/4 {
			f.session.drop(k)
			continue
		}
		s.put(f.session, k, now, f.begun)
		out = append(out, Replaced{was.own().(Resource), now.own().(Resource)})
	}
	return out
}

// end removes the fetch from the session's fetches in flight. store.mu must be held.
func (f *Fetch) end() {
	delete(f.session.flights, f)
	if ix := f.session.byURI[f.uri]; f.uri != "" && ix != nil {
		delete(ix.flights, f)
		f.session.tidy(f.uri)
	}
}
