package process

import "os"

// pipe is one os.Pipe. They are ours and not exec's: cmd.StdoutPipe is closed by
// cmd.Wait while it is still being read, and cmd.Wait with copied writers waits
// for grandchildren.
type pipe struct{ r, w *os.File }

type pipes struct{ stdin, stdout, stderr pipe }

// newPipes returns pipes to be closed also if there is an error.
func newPipes() (*pipes, error) {
	ps := new(pipes)
	for _, p := range []*pipe{&ps.stdin, &ps.stdout, &ps.stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			return ps, err
		}
		p.r, p.w = r, w
	}
	return ps, nil
}

// closeChildEnds leaves the child as the only holder of its ends, so that its
// death is seen as EOF and EPIPE.
func (ps *pipes) closeChildEnds() {
	ps.stdin.r.Close()
	ps.stdout.w.Close()
	ps.stderr.w.Close()
}

// close closes all that was opened; Close on a nil *os.File is an error we may
// ignore.
func (ps *pipes) close() {
	for _, p := range []pipe{ps.stdin, ps.stdout, ps.stderr} {
		p.r.Close()
		p.w.Close()
	}
}
