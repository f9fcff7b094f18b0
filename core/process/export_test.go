package process

// Pid is the process id of the direct child.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Noise is the number of stdout lines skipped so far.
func (p *Process) Noise() int { return int(p.stdout.skipped.Load()) }
