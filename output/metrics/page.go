package metrics

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Handler returns the HTTP handler for scrapes. It answers in the text format, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/), which every scraper accepts.
func (m *Metrics) Handler() http.Handler {
	inFlight := make(chan struct{}, 4) // one element for each scrape; never closed
	return http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case inFlight <- struct{}{}:
			defer func() { <-inFlight }()
		default:
			http.Error(w, "Limit of concurrent requests reached (4), try again later.", http.StatusServiceUnavailable)
			return
		}
		p := page{}
		m.opts.read(p)
		m.observed(p)
		p.runtime(m.started)
		p.process()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		p.write(w)
	}), 10*time.Second, "Exceeded configured timeout of 10s.\n")
}

// page contains the metrics of one scrape, by name.
type page map[string]*metric

type metric struct {
	help, kind string
	series     []string // the lines of each series
}

// gauge adds a series. labels contains names, in alphabetical order, and values alternately.
func (s page) gauge(name, help string, value float64, labels ...string) {
	s.add(name, help, "gauge", value, labels...)
}

// counter adds a series; see gauge.
func (s page) counter(name, help string, value uint64, labels ...string) {
	s.add(name, help, "counter", float64(value), labels...)
}

func (s page) add(name, help, kind string, value float64, labels ...string) {
	s.lines(name, help, kind, sample(name, value, pairs(labels)))
}

// lines adds a series that consists of several samples.
func (s page) lines(name, help, kind string, samples ...string) {
	if s[name] == nil {
		s[name] = &metric{help: help, kind: kind}
	}
	s[name].series = append(s[name].series, strings.Join(samples, ""))
}

// write writes the metrics in the order of their names, and the series in the order of their labels.
func (s page) write(to io.Writer) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		m := s[name]
		slices.Sort(m.series)
		_, err := io.WriteString(to, "# HELP "+name+" "+m.help+"\n# TYPE "+name+" "+m.kind+"\n"+strings.Join(m.series, ""))
		if err != nil {
			return // the scraper has left
		}
	}
}

// pairs returns labels as text that begins with a comma.
func pairs(labels []string) string {
	var b strings.Builder
	for i := 0; i+1 < len(labels); i += 2 {
		value := strings.ReplaceAll(strings.ToValidUTF8(labels[i+1], "\uFFFD"), `\`, `\\`)
		value = strings.ReplaceAll(strings.ReplaceAll(value, "\n", `\n`), `"`, `\"`)
		b.WriteString(`,` + labels[i] + `="` + value + `"`)
	}
	return b.String()
}

// sample returns the line of a sample.
func sample(name string, value float64, pairs string) string {
	if pairs != "" {
		pairs = "{" + pairs[1:] + "}"
	}
	return name + pairs + " " + number(value) + "\n"
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// histogram counts observations by the smallest bound that is not less, or else in the element after
// the last bound.
type histogram struct {
	counts [16]uint64 // has an element more than there are bounds
	sum    float64
}

func (h *histogram) observe(v float64, bounds []float64) {
	i, _ := slices.BinarySearch(bounds, v)
	h.counts[i]++
	h.sum += v
}

func (s page) histogram(name, help string, h histogram, bounds []float64, labels ...string) {
	var samples []string
	count, of := uint64(0), pairs(labels)
	for i := range len(bounds) + 1 {
		le := "+Inf"
		if i < len(bounds) {
			le = number(bounds[i])
		}
		count += h.counts[i]
		samples = append(samples, sample(name+"_bucket", float64(count), of+`,le="`+le+`"`))
	}
	s.lines(name, help, "histogram", append(samples, sample(name+"_sum", h.sum, of), sample(name+"_count", float64(count), of))...)
}
