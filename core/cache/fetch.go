package cache

// Fetch is one request whose answer is to be kept. It ends with Store, Refresh or
// Cancel, exactly one of them, and is of no use after that.
type Fetch struct {
	shelf *Shelf
	key   key
	uri   string
	begun uint64

	// Guarded by the store's lock.
	outdated bool // an update was announced since it began
	unwanted bool // what it fetches is not offered any more
}

// Outcome is what became of an answer.
type Outcome uint8

// The outcomes.
const (
	// Stored: it is kept.
	Stored Outcome = iota
	// Outdated: an update was announced since the request was sent. Fetch again.
	Outdated
	// Superseded: the answer to a later request is kept already, or the session is
	// over, or what was fetched is no longer offered.
	Superseded
	// TooLarge: it does not fit. What was kept before is forgotten.
	TooLarge
)

// Resource keeps the content of a resource.
func (f *Fetch) Resource(r Resource) Outcome { return f.store(r) }

// Prompt keeps a prompt.
func (f *Fetch) Prompt(p Prompt) Outcome { return f.store(p) }

// ToolResult keeps the result of a tool.
func (f *Fetch) ToolResult(t ToolResult) Outcome { return f.store(t) }

// Cancel ends a fetch that brought nothing.
func (f *Fetch) Cancel() {
	f.shelf.store.mu.Lock()
	defer f.shelf.store.mu.Unlock()
	f.end()
}

func (f *Fetch) store(v entry) Outcome {
	v = v.own()
	s := f.shelf.store
	s.mu.Lock()
	defer s.mu.Unlock()
	f.end()
	switch {
	case f.shelf.closed || f.unwanted:
		return Superseded
	case f.outdated:
		return Outdated
	}
	if el := f.shelf.items[f.key]; el != nil && el.Value.(*item).begun > f.begun {
		return Superseded
	}
	if v.bytes() > s.max/4 {
		f.shelf.drop(f.key)
		return TooLarge
	}
	s.put(f.shelf, f.key, v, f.begun)
	return Stored
}

// Replaced is an entry that Refresh renewed.
type Replaced struct{ Was, Now Resource }

// Refresh renews what is kept of the URI, under whatever key, with content that was
// read for another reason. What is not kept is not begun to be kept, and an answer
// that is outdated changes nothing.
func (f *Fetch) Refresh(r Resource) []Replaced {
	s := f.shelf.store
	s.mu.Lock()
	defer s.mu.Unlock()
	f.end()
	if f.shelf.closed || f.outdated {
		return nil
	}
	var keys []key
	f.shelf.eachOf(f.uri, func(k key, it *item) {
		if it.begun <= f.begun {
			keys = append(keys, k)
		}
	})
	var out []Replaced
	for _, k := range keys {
		el := f.shelf.items[k]
		if el == nil {
			continue // evicted to make room for the one before
		}
		was := el.Value.(*item).value.(Resource)
		now := r
		now.URI, now.Template, now.Params = was.URI, was.Template, was.Params
		if now.bytes() > s.max/4 {
			f.shelf.drop(k)
			continue
		}
		s.put(f.shelf, k, now, f.begun)
		out = append(out, Replaced{was.own().(Resource), now.own().(Resource)})
	}
	return out
}

// end needs the lock.
func (f *Fetch) end() {
	delete(f.shelf.flights, f)
	if ix := f.shelf.byURI[f.uri]; f.uri != "" && ix != nil {
		delete(ix.flights, f)
		f.shelf.tidy(f.uri)
	}
}
