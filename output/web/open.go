package web

import "net/http"

// Open is a handler for [Server.Handle] that needs no token: what it serves is public, or
// its requests prove in another way that they may be made, such as by a signature, which the
// handler checks. All other checks and limits are those of clients that are not trusted.
type Open struct {
	http.Handler
	// MaxBody limits the bytes of a request's body; values below 64 KiB mean 64 KiB.
	MaxBody int64
}

// openFor returns the handler of a request if that is an Open, else nil. It asks the mux that
// serves the request, so that no request for another handler goes without a token.
func openFor(mux *http.ServeMux, r *http.Request) *Open {
	h, _ := mux.Handler(r)
	if o, ok := h.(Open); ok {
		return &o
	}
	return nil
}
