package wire

import (
	"context"
	"io"
	"net/http"
)

// Credentials supply the header Authorization where it changes while a connection lives.
// They are sent to the origin of the endpoint only.
type Credentials struct {
	// Header returns the value of the header, "" for none. With an error the request is
	// not sent.
	Header func(ctx context.Context) (string, error)
	// Refused is called when the server refused a request with status 401 or 403. If it fails,
	// the request fails with its error.
	Refused func(ctx context.Context, r Refusal) (Advice, error)
}

// Refusal is a server's response that refused the credentials, or their absence.
type Refusal struct {
	Header    string   // the Authorization header that was sent, "" for none
	Status    int      // 401 or 403
	Challenge []string // the values of WWW-Authenticate
}

// Advice is what to do about a refusal.
type Advice struct {
	Again  bool   // send the request again, with a new header
	Said   string // why the server refused, printable
	Remedy string // what the user can do, printable
}

// authorized sends a request with the credentials, twice if they were renewed because the
// server refused them.
func (g *guard) authorized(q *http.Request, x *exchange) (*http.Response, error) {
	if g.credentials == nil {
		p, err := g.base.RoundTrip(q)
		if err == nil && unauthorized(p) {
			x.advise(Advice{}, p)
		}
		return p, err
	}
	for again := false; ; again = true {
		header, err := g.credentials.Header(q.Context())
		if err != nil {
			return nil, x.refuse(err, q)
		}
		q.Header.Del("Authorization")
		if header != "" {
			q.Header.Set("Authorization", header)
		}
		x.sentCredentials(header != "")
		p, err := g.base.RoundTrip(q)
		if err != nil || !unauthorized(p) {
			return p, err
		}
		advice, err := g.credentials.Refused(q.Context(), Refusal{header, p.StatusCode, p.Header.Values("WWW-Authenticate")})
		if err != nil {
			_ = p.Body.Close()
			return nil, x.refuse(err, nil)
		}
		x.advise(advice, p)
		if !advice.Again || again || q.Body != nil && q.GetBody == nil {
			return p, nil
		}
		_, _ = io.CopyN(io.Discard, p.Body, maxPeek) // so that the connection can be used again
		_ = p.Body.Close()
		if q.GetBody != nil {
			if q.Body, err = q.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

func unauthorized(p *http.Response) bool {
	return p.StatusCode == http.StatusUnauthorized || p.StatusCode == http.StatusForbidden
}

// refuse makes the exchange fail with an error. q is the request if it will not be sent:
// its body is closed; nil if it was sent.
func (x *exchange) refuse(err error, q *http.Request) error {
	if q != nil && q.Body != nil {
		_ = q.Body.Close()
	}
	x.fail(err)
	return err
}

func (x *exchange) advise(a Advice, p *http.Response) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.said, x.remedy, x.challenge = a.Said, a.Remedy, p.Header.Values("WWW-Authenticate")
}
