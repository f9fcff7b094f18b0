package cli

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// TestChoose: each answer but the consent is accepted between two pages, and consent only after the last one.
func TestChoose(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("line\n", 70) // four pages
	for typed, want := range map[string]struct {
		letter byte
		err    error
	}{
		"\n\n\na\n": {letter: 'a'},
		"\n\n\nR\n": {letter: 'r'},
		"r\n":       {letter: 'r'},
		"\ns\n":     {letter: 's'},
		"\n\nq\n":   {letter: 'q'},
		"a\n":       {err: ErrDeclined},
		"\na\n":     {err: ErrDeclined},
		"x\n":       {err: ErrDeclined},
		"rs\n":      {err: ErrDeclined},
		"":          {letter: 'q'},
	} {
		var shown strings.Builder
		env := &Env{Terminal: func() (*Terminal, error) {
			return &Terminal{Reader: strings.NewReader(typed), Writer: &shown, Columns: 80, Rows: 24}, nil
		}}
		letter, err := env.Choose(t.Context(), text, "approve, reject, skip or quit?", "arsq")
		if letter != want.letter || !errors.Is(err, want.err) {
			t.Errorf("%q: %q, %v", typed, letter, err)
		}
		if !strings.Contains(shown.String(), "-- Enter shows more, r, s, q answer now -- ") {
			t.Errorf("%q: %q", typed, shown.String())
		}
	}
	if _, err := (&Env{}).Choose(t.Context(), "", "?", "yn"); !errors.Is(err, ErrNoTerminal) {
		t.Error(err)
	}
	if err := (&Env{Terminal: func() (*Terminal, error) {
		return &Terminal{Reader: strings.NewReader("q\n"), Writer: io.Discard, Rows: 10}, nil
	}}).Ask(t.Context(), text, "?"); !errors.Is(err, ErrDeclined) {
		t.Error(err)
	}
}
