package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

// refusal is why a request is not answered as asked.
type refusal struct {
	status  int
	message string
}

func (r *refusal) Error() string { return r.message }

// missing returns the refusal of a request for something that there is not.
func missing(message string) error { return &refusal{http.StatusNotFound, message} }

// answers serves what f returns as JSON, with hidden characters escaped, or the message of its error.
type answers func(*http.Request) (any, error)

func (f answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v, err := f(r)
	if err != nil {
		refuse(w, err)
		return
	}
	body, err := json.Marshal(v)
	if err != nil {
		refuse(w, errors.New("the response cannot be encoded"))
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(printable.JSON(body), '\n'))
}

func refuse(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if refused, ok := errors.AsType[*refusal](err); ok {
		code = refused.status
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	body, _ := json.Marshal(map[string]string{"error": err.Error()})
	_, _ = w.Write(append(body, '\n'))
}

const (
	// maxScans limits concurrent reads of the log; scanTime bounds each of them.
	maxScans = 2
	scanTime = 20 * time.Second
)

// scan makes f, which reads the log, wait for its turn and limits its time.
func (d *Dashboard) scan(f func(context.Context, *http.Request) (any, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		ctx, cancel := context.WithTimeout(r.Context(), scanTime)
		defer cancel()
		select {
		case d.scans <- struct{}{}:
			defer func() { <-d.scans }()
		case <-ctx.Done():
			return nil, &refusal{http.StatusServiceUnavailable, "too many requests for the history"}
		}
		v, err := f(ctx, r)
		_, refused := errors.AsType[*refusal](err)
		switch {
		case err == nil || refused:
			return v, err
		case errors.Is(err, context.DeadlineExceeded):
			return nil, &refusal{http.StatusGatewayTimeout, "reading the log took too long"}
		}
		return nil, &refusal{http.StatusServiceUnavailable, "the log cannot be read: " + printable.Reason(err, 300)}
	}
}
