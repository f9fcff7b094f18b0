//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A report is what one run of the benchmark found.
type report struct {
	Time   time.Time `json:"time"`
	Go     string    `json:"go"`
	CPUs   int       `json:"cpus"`
	Load   float64   `json:"load"` // average of the minute before: what the machine did for others
	Rows   []*row    `json:"rows"`
	Goals  []goal    `json:"goals"`
	Failed []string  `json:"failed,omitempty"` // scenarios that could not be measured

	Notes   []string `json:"notes,omitempty"`   // what a reader of the rows must know
	LeftOut []string `json:"leftOut,omitempty"` // scenarios that were not to be measured
	Seconds float64  `json:"seconds"`           // of the whole run
}

// A row is one metric of one client. Lower is better, but for rates.
type row struct {
	Scenario string    `json:"scenario"`
	Metric   string    `json:"metric"`
	Unit     string    `json:"unit"`
	Client   string    `json:"client"`
	Median   float64   `json:"median"`
	Min      float64   `json:"min"`
	Values   []float64 `json:"values"`
}

// A goal compares ours with a limit, or the ratio of ours to another's.
type goal struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	Unit  string  `json:"unit"`            // of both; × for a ratio
	Least bool    `json:"least,omitempty"` // the limit is a lower one
	Met   bool    `json:"met"`
}

func newReport() *report {
	r := &report{Time: time.Now().UTC().Truncate(time.Millisecond), Go: runtime.Version(), CPUs: runtime.NumCPU()}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &r.Load)
	}
	return r
}

// fail notes that a scenario could not be measured, and why, in one line; not if err is
// nil.
func (r *report) fail(scenario string, err error) {
	if err == nil {
		return
	}
	if slices.ContainsFunc(r.Failed, func(have string) bool { return strings.HasPrefix(have, scenario+": ") }) {
		return // once is enough
	}
	why, rest, more := strings.Cut(err.Error(), "\n")
	if len(why) > 300 {
		why = why[:300] + "…"
	}
	if more {
		why += fmt.Sprintf(" (and %d more lines)", 1+strings.Count(rest, "\n"))
	}
	r.Failed = append(r.Failed, scenario+": "+why)
}

// add notes one more measured value.
func (r *report) add(scenario, metric, unit, client string, value float64) {
	at := r.find(scenario, metric, client)
	if at == nil {
		at = &row{Scenario: scenario, Metric: metric, Unit: unit, Client: client}
		r.Rows = append(r.Rows, at)
	}
	at.Values = append(at.Values, value)
	at.Median, at.Min = median(at.Values), slices.Min(at.Values)
}

// percentiles adds the 50th and the 99th percentile of values, which it sorts.
func (r *report) percentiles(scenario, prefix, unit, client string, values []float64) {
	slices.Sort(values)
	r.add(scenario, prefix+"p50", unit, client, values[len(values)/2])
	r.add(scenario, prefix+"p99", unit, client, values[len(values)*99/100])
}

func (r *report) find(scenario, metric, client string) *row {
	for _, have := range r.Rows {
		if have.Scenario == scenario && have.Metric == metric && have.Client == client {
			return have
		}
	}
	return nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// atMost sets an upper limit for mcptrack's median of a metric.
func (r *report) atMost(limit float64, scenario, metric string) {
	if ours := r.find(scenario, metric, "mcptrack"); ours != nil {
		r.goal(goal{Name: scenario + ", " + metric, Value: ours.Median, Limit: limit, Unit: ours.Unit})
	}
}

// atLeast sets a lower limit for mcptrack's median of a metric.
func (r *report) atLeast(limit float64, scenario, metric string) {
	if ours := r.find(scenario, metric, "mcptrack"); ours != nil {
		r.goal(goal{Name: scenario + ", " + metric, Value: ours.Median, Limit: limit, Unit: ours.Unit, Least: true})
	}
}

// ratio sets an upper limit for mcptrack's median divided by another client's.
func (r *report) ratio(limit float64, scenario, metric, other string) {
	r.quotient(scenario+", "+metric+" / "+other, limit, r.find(scenario, metric, "mcptrack"), r.find(scenario, metric, other))
}

// times sets an upper limit for mcptrack's median in one scenario divided by its median in another.
func (r *report) times(limit float64, scenario, base, metric string) {
	r.quotient(scenario+" / "+base+", "+metric, limit, r.find(scenario, metric, "mcptrack"), r.find(base, metric, "mcptrack"))
}

func (r *report) quotient(name string, limit float64, over, under *row) {
	if over != nil && under != nil && under.Median != 0 {
		r.goal(goal{Name: name, Value: over.Median / under.Median, Limit: limit, Unit: "×"})
	}
}

// difference sets an upper limit for mcptrack's median in one scenario minus its median in another.
func (r *report) difference(limit float64, scenario, base, metric string) {
	more, less := r.find(scenario, metric, "mcptrack"), r.find(base, metric, "mcptrack")
	if more != nil && less != nil {
		r.goal(goal{Name: scenario + " - " + base + ", " + metric, Value: more.Median - less.Median, Limit: limit, Unit: more.Unit})
	}
}

func (r *report) goal(g goal) {
	g.Met = g.Value <= g.Limit
	if g.Least {
		g.Met = g.Value >= g.Limit
	}
	r.Goals = append(r.Goals, g)
}

func (r *report) print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SCENARIO\tMETRIC\tCLIENT\tMEDIAN\tMIN\tRUNS")
	for _, have := range r.Rows {
		fmt.Fprintf(table, "%s\t%s\t%s\t%.4g %s\t%.4g\t%d\n",
			have.Scenario, have.Metric, have.Client, have.Median, have.Unit, have.Min, len(have.Values))
	}
	fmt.Fprintln(table, "\nGOAL\tVALUE\tLIMIT\t")
	for _, g := range r.Goals {
		verdict, sign := "met", "≤"
		if !g.Met {
			verdict = "MISSED"
		}
		if g.Least {
			sign = "≥"
		}
		fmt.Fprintf(table, "%s\t%.3g %s\t%s %.3g\t%s\n", g.Name, g.Value, g.Unit, sign, g.Limit, verdict)
	}
	if r.Load > 0.5 {
		fmt.Fprintf(table, "the machine was busy: load average %.1f before the start\n", r.Load)
	}
	for _, note := range r.Notes {
		fmt.Fprintln(table, note)
	}
	for _, name := range r.Failed {
		fmt.Fprintf(table, "not measured: %s\n", name)
	}
	if len(r.LeftOut) > 0 {
		fmt.Fprintf(table, "not measured: %s (left out)\n", strings.Join(r.LeftOut, ", "))
	}
	if r.Seconds > 0 {
		fmt.Fprintf(table, "the whole run took %v\n", time.Duration(r.Seconds*float64(time.Second)).Round(time.Second))
	}
	return table.Flush()
}

func (r *report) write(file string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}
