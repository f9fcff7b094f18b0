package process

import "os"

// pipe is one os.Pipe. The pipes of os/exec are not used: cmd.Wait closes cmd.StdoutPipe while
// it is still being read, and waits for grandchildren if it copies to writers.
type pipe struct{ r, w *os.File }

type pipes struct{ stdin, stdout, stderr pipe }

// newPipes opens the pipes. The caller must close them, even if there is an error.
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

// closeChildEnds closes our copies of the child's ends, so that its death gives EOF and EPIPE.
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
