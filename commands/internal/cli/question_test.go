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
		"\n\n\na\n":     {letter: 'a'},
		"\n\n\nR\n":     {letter: 'r'},
		"r\n":           {letter: 'r'},
		"\ns\n":         {letter: 's'},
		"\n\nq\n":       {letter: 'q'},
		"a\n\n\n\na\n":  {letter: 'a'},
		"\na\nx\ns\n":   {letter: 's'},
		"rs\nx\na\nr\n": {letter: 'q'},
		"":              {letter: 'q'},
	} {
		var shown strings.Builder
		env := &Env{Terminal: func() (*Terminal, error) {
			return &Terminal{Reader: strings.NewReader(typed), Writer: &shown, Columns: 80, Rows: 24}, nil
		}}
		letter, err := env.Choose(t.Context(), text, "approve, reject, skip or quit?", "arsq", "rsq")
		if letter != want.letter || !errors.Is(err, want.err) {
			t.Errorf("%q: %q, %v", typed, letter, err)
		}
		if asked := strings.Contains(shown.String(), "Enter one of r, s, q, or Enter for more: "); asked != strings.ContainsAny(strings.TrimSuffix(typed, "\na\n"), "ax") {
			t.Errorf("%q: %q", typed, shown.String())
		}
		if !strings.Contains(shown.String(), "-- Enter shows more, r, s, q answer now -- ") {
			t.Errorf("%q: %q", typed, shown.String())
		}
	}
	if _, err := (&Env{}).Choose(t.Context(), "", "?", "yn", "n"); !errors.Is(err, ErrNoTerminal) {
		t.Error(err)
	}
	if err := (&Env{Terminal: func() (*Terminal, error) {
		return &Terminal{Reader: strings.NewReader("q\n"), Writer: io.Discard, Rows: 10}, nil
	}}).Ask(t.Context(), text, "?"); !errors.Is(err, ErrDeclined) {
		t.Error(err)
	}
}

// TestTypedAhead: what was typed before a prompt does not answer it.
func TestTypedAhead(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("line\n", 30) // two pages
	for _, ask := range []func(*Env) error{
		func(e *Env) error { return e.Ask(t.Context(), text, "?") },
		func(e *Env) error {
			if letter, err := e.Choose(t.Context(), text, "?", "arsq", "rsq"); letter != 'q' || err != nil {
				return err
			}
			return ErrDeclined
		},
	} {
		var shown strings.Builder
		typed, flushed := strings.NewReader("\ny\na\n"), []string{}
		tty := &Terminal{Reader: typed, Writer: &shown, Columns: 80, Rows: 24}
		tty.Flush = func() {
			flushed = append(flushed, shown.String())
			_, _ = io.Copy(io.Discard, typed)
		}
		if err := ask(&Env{Terminal: func() (*Terminal, error) { return tty, nil }}); !errors.Is(err, ErrDeclined) {
			t.Errorf("%v after\n%s", err, &shown)
		}
		if len(flushed) < 2 || strings.Count(flushed[0], "line") >= 30 || strings.Count(flushed[1], "line") != 30 {
			t.Errorf("flushed at\n%q", flushed)
		}
	}
}
