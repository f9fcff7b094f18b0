package process

// Skipped is the number of stdout lines skipped so far.
func (p *Process) Skipped() int { return int(p.stdout.skipped.Load()) }
