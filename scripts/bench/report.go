//go:build linux

package main

import (
	"encoding/json"
	"errors"
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

	Seconds float64 `json:"seconds"` // of the whole run
}

// A row is one metric of one client. Lower is better, except for rates.
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

// fail notes that a scenario could not be measured, and the first line of why; not if err is nil.
func (r *report) fail(scenario string, err error) {
	if err == nil || slices.ContainsFunc(r.Failed, func(have string) bool { return strings.HasPrefix(have, scenario+": ") }) {
		return
	}
	why, _, _ := strings.Cut(err.Error(), "\n")
	r.Failed = append(r.Failed, fmt.Sprintf("%s: %.300s", scenario, why))
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
func (r *report) percentiles(scenario, unit, client string, values []float64) {
	slices.Sort(values)
	r.add(scenario, "p50", unit, client, values[len(values)/2])
	r.add(scenario, "p99", unit, client, values[len(values)*99/100])
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

// A limit is what mcptrack's median of a metric may be, or its ratio to that of another client.
type limit struct {
	value            float64
	scenario, metric string
	over             string // the other client; "" for none
	least            bool   // value is a lower limit
}

func atMost(value float64, scenario, metric string) limit {
	return limit{value: value, scenario: scenario, metric: metric}
}

func atLeast(value float64, scenario, metric string) limit {
	return limit{value: value, scenario: scenario, metric: metric, least: true}
}

func ratio(value float64, scenario, metric, over string) limit {
	return limit{value: value, scenario: scenario, metric: metric, over: over}
}

// check compares what was measured with limits. What was not measured misses none.
func (r *report) check(limits []limit) {
	for _, l := range limits {
		ours := r.find(l.scenario, l.metric, "mcptrack")
		if ours == nil {
			continue
		}
		g := goal{Name: l.scenario + ", " + l.metric, Value: ours.Median, Limit: l.value, Unit: ours.Unit, Least: l.least}
		if l.over != "" {
			other := r.find(l.scenario, l.metric, l.over)
			if other == nil || other.Median == 0 {
				continue
			}
			g.Name += " / " + l.over
			g.Value, g.Unit = ours.Median/other.Median, "×"
		}
		if g.Met = g.Value <= g.Limit; g.Least {
			g.Met = g.Value >= g.Limit
		}
		r.Goals = append(r.Goals, g)
	}
}

// verdict returns an error if a limit was missed or a scenario not measured.
func (r *report) verdict() error {
	missed := 0
	for _, g := range r.Goals {
		if !g.Met {
			missed++
		}
	}
	if missed+len(r.Failed) > 0 {
		return fmt.Errorf("%d limits missed, %d measurements failed", missed, len(r.Failed))
	}
	return nil
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
	for _, name := range r.Failed {
		fmt.Fprintf(table, "not measured: %s\n", name)
	}
	if r.Seconds > 0 {
		fmt.Fprintf(table, "the whole run took %v\n", time.Duration(r.Seconds*float64(time.Second)).Round(time.Second))
	}
	return table.Flush()
}

// write writes a file as JSON; "" is none.
func (r *report) write(file string) error {
	if file == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", "  ")
	return errors.Join(err, os.WriteFile(file, append(data, '\n'), 0o644))
}
