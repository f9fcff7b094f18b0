package lines

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// Screen is a terminal whose last lines stay below everything that is printed. It is safe for
// concurrent use.
type Screen struct {
	w io.Writer

	mu     sync.Mutex // guards the rest, and writing
	bottom []string   // as it is on the terminal
}

// NewScreen returns a screen without lines at its bottom.
func NewScreen(w io.Writer) *Screen { return &Screen{w: w} }

// Print prints whole lines, and replaces those at the bottom, none of which may be wider
// than the terminal.
func (s *Screen) Print(text string, bottom []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	erase := s.erase()
	s.bottom = bottom
	if _, err := io.WriteString(s.w, erase+text+s.drawn()); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}

// Beside returns a writer for another stream to the same terminal, such as stderr, to
// which whole lines are written.
func (s *Screen) Beside(w io.Writer) io.Writer { return beside{s, w} }

type beside struct {
	s *Screen
	w io.Writer
}

func (b beside) Write(text []byte) (int, error) {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	if len(b.s.bottom) == 0 {
		return b.w.Write(text)
	}
	_, _ = io.WriteString(b.s.w, b.s.erase()) // if it fails, so does the next Print
	n, err := b.w.Write(text)
	_, _ = io.WriteString(b.s.w, b.s.drawn())
	return n, err
}

// erase returns what removes the lines at the bottom: cursor to the first column, as the
// terminal may have echoed ^C, and up, and clear from there.
func (s *Screen) erase() string {
	if len(s.bottom) == 0 {
		return ""
	}
	return fmt.Sprintf("\r\x1b[%dA\x1b[J", len(s.bottom))
}

func (s *Screen) drawn() string {
	var b strings.Builder
	for _, line := range s.bottom {
		b.WriteString(line + "\n")
	}
	return b.String()
}
