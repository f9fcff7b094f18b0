//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

// result is what became of the rounds of one row on one way.
type result struct {
	rounds, lost, stale, duplicated, hung, leaked int
	slowest                                       time.Duration // from the end of the fault to the truth
}

func (r *result) add(o result) {
	r.rounds += o.rounds
	r.lost += o.lost
	r.stale += o.stale
	r.duplicated += o.duplicated
	r.hung += o.hung
	r.leaked += o.leaked
	r.slowest = max(r.slowest, o.slowest)
}

func (r *result) bad() bool { return r.lost+r.stale+r.duplicated+r.hung+r.leaked > 0 }

// report is the table.
type report struct {
	mu    sync.Mutex // guards what follows
	rows  map[string]*result
	order []string
	notes []string
}

func newReport() *report { return &report{rows: map[string]*result{}} }

// row adds the result of a round.
func (p *report) row(name, on string, r result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := fmt.Sprintf("%-44s\t%s", name, on)
	if p.rows[key] == nil {
		p.rows[key] = new(result)
		p.order = append(p.order, key)
	}
	p.rows[key].add(r)
}

// note keeps a line that explains a number, once.
func (p *report) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.notes) == 200 || slices.Contains(p.notes, line) {
		return
	}
	p.notes = append(p.notes, line)
	_, _ = fmt.Fprintln(os.Stderr, time.Now().Format(time.TimeOnly), line)
}

// print prints the table and reports whether all is well.
func (p *report) print() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	line := func(name string, r *result) {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%v\n", name, r.rounds, r.lost, r.stale, r.duplicated, r.hung, r.leaked, r.slowest.Round(10*time.Millisecond))
	}
	_, _ = fmt.Fprintln(w, "fault\ton\trounds\tlost\tstale\tduplicated\thung\tleaked\tslowest")
	var sum result
	slices.Sort(p.order)
	for _, key := range p.order {
		line(key, p.rows[key])
		sum.add(*p.rows[key])
	}
	line("all\t", &sum)
	_ = w.Flush()
	for _, n := range p.notes {
		_, _ = fmt.Println(n)
	}
	return sum.rounds > 0 && !sum.bad()
}
