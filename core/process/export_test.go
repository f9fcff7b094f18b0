package process

// Pid is the process id of the direct child.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Skipped is the number of stdout lines skipped so far.
func (p *Process) Skipped() int { return int(p.stdout.skipped.Load()) }
