package wire

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// closedInput is the input of a server that has closed it.
type closedInput struct{}

func (closedInput) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
func (closedInput) Close() error              { return nil }

// A server that closes its input, but not its output, gets no request any more: whoever waits
// for its answer is not left waiting.
func TestClosedInputEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := 0
		cfg := testConfig()
		cfg.WriteTimeout = func() time.Duration { return 10 * time.Second }
		cfg.Handler.Lost = func(error) { lost++ }
		r, w := io.Pipe()
		defer w.Close()
		c, err := OverIO(r, closedInput{}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(ErrClosed)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = c.Do(ctx, Request{ID: "1", Method: "tools/list"})
		if end, ok := errors.AsType[*EndError](err); !ok || ctx.Err() != nil || lost != 1 {
			t.Errorf("%v, lost %d times: %v", err, lost, end)
		}
	})
}
