package cli

import (
	"context"
	"errors"
	"testing"
)

func TestWhileRunningReturnsTheFirstFailure(t *testing.T) {
	broken := errors.New("broken")
	untilEnd := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	fails := func(context.Context) error { return broken }
	ends := func(context.Context) error { return nil }
	ready := make(chan struct{})
	close(ready)
	for name, c := range map[string]struct {
		run, serve func(context.Context) error
		want       error
	}{
		"what keeps it up to date fails": {fails, untilEnd, broken},
		"what keeps it up to date ends":  {ends, untilEnd, nil},
		"serving fails":                  {untilEnd, fails, broken},
		"serving ends":                   {untilEnd, ends, nil},
	} {
		if err := WhileRunning(t.Context(), c.run, ready, c.serve); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	if err := WhileRunning(ctx, untilEnd, nil, untilEnd); err != nil {
		t.Errorf("interrupted: %v", err)
	}
}
