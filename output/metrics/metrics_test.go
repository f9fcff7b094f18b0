package metrics

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v4"

	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/webhook"
)

func example() *Metrics {
	return New(Options{Version: "1.2.3",
		Snapshot: func() *status.Snapshot {
			resources := make([]status.ResourceStatus, 10_000)
			for i := range resources {
				resources[i].URI = fmt.Sprintf("file:///%d\"}\n", i)
			}
			return &status.Snapshot{Servers: []status.ServerStatus{{ID: "docs", State: event.Ready, Resources: resources,
				Counts: status.Counts{Signals: 7, Folded: 3, Unknown: 1, Missed: 2, Dropped: map[string]uint64{"foreign": 2}}}}}
		},
		Journal: func() journal.StoreStats { return journal.StoreStats{Stored: 5, Syncs: 2, SyncTime: time.Second} },
		Clients: func() Clients { return Clients{Connected: 3, Slow: 1} },
		Cluster: func() (status.Cluster, bool) {
			return status.Cluster{Processes: 2, Unfollowed: []string{"docs"}}, true
		},
		Deliveries: func() []webhook.Deliverer {
			return []webhook.Deliverer{{Source: webhook.FromConfig, Process: "a:1", Own: true}, {Source: webhook.FromSubscription, Process: "b:2"}}
		},
		Webhooks: func() map[webhook.Source]webhook.Stats {
			return map[webhook.Source]webhook.Stats{webhook.FromConfig: {Active: 2, Taken: 8, Failed: 1, Lag: 2 * time.Second}}
		},
		Streams: func() int { return 6 }, StrayAnswers: func() uint64 { return 7 },
		LockChanges: func() map[string][]guard.Change {
			return map[string][]guard.Change{"docs": make([]guard.Change, 3), "web": nil}
		},
		Reloads: func() status.Reloads { return status.Reloads{Reloaded: 2, Rejected: 1, Good: true} },
	})
}

func scraped(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestScrape(t *testing.T) {
	m := example()
	m.Delivered(3 * time.Millisecond)
	text := scraped(t, m)
	for _, want := range []string{
		`mcptrack_info{version="1.2.3"} 1`, `mcptrack_server_state{server="docs",state="Ready"} 1`, `mcptrack_server_state{server="docs",state="Backoff"} 0`,
		`mcptrack_server_resources{server="docs"} 10000`, `mcptrack_notifications_total{server="docs"} 7`, `mcptrack_missed_changes_total{server="docs"} 2`, `mcptrack_dropped_total{reason="foreign",server="docs"} 2`,
		`mcptrack_dropped_total{reason="not_followed",server="docs"} 1`, `mcptrack_journal_stored_total 5`, `mcptrack_journal_sync_seconds_total 1`,
		`mcptrack_servers_unfollowed 1`, `mcptrack_waiting_for_leases 0`, `mcptrack_clients 3`, `mcptrack_clients_closed_total{reason="slow"} 1`, `mcptrack_config_last_reload_successful 1`, `mcptrack_lock_changes{server="docs"} 3`, `mcptrack_lock_changes{server="web"} 0`,
		`mcptrack_webhook_lease{source="config"} 1`, `mcptrack_webhook_lease{source="subscription"} 0`,
		`mcptrack_webhooks{source="config",state="active"} 2`, `mcptrack_webhook_attempts_total{outcome="taken",source="config"} 8`,
		`mcptrack_webhook_attempts_total{outcome="failed",source="config"} 1`, `mcptrack_webhook_lag_seconds{source="config"} 2`, `mcptrack_event_streams 6`, `mcptrack_stray_answers_total 7`,
		`mcptrack_delivery_latency_seconds_bucket{le="0.005"} 1`, `go_goroutines`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if n := strings.Count(text, "mcptrack_server"); n > 30 {
		t.Errorf("%d lines about one server: series must not grow with its resources", n)
	}
}

// Prometheus' own parser reads what we write: every series once, in families that are sorted, with the labels
// that were given and buckets that only grow.
func TestTextFormat(t *testing.T) {
	m := example()
	hostile := "a\"}\n\\b, x=\"1\" \xff"
	m.Called(calls.Call{ServerID: "docs", Tool: hostile, Outcome: calls.OK, Duration: time.Minute})
	m.Called(calls.Call{ServerID: "docs", Tool: hostile, Outcome: calls.OK, Duration: time.Hour})
	m.Delivered(5 * time.Millisecond)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(scraped(t, m)))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for name, family := range families {
		if family.GetHelp() == "" || family.GetType() == dto.MetricType_UNTYPED {
			t.Errorf("%s has no help or no type", name)
		}
		for _, s := range family.GetMetric() {
			key := fmt.Sprint(name, s.GetLabel())
			if seen[key] {
				t.Errorf("%s occurs twice", key)
			}
			seen[key] = true
			if !slices.IsSortedFunc(s.GetLabel(), func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) }) {
				t.Errorf("the labels of %s are not in order", key)
			}
			for i, b := range s.GetHistogram().GetBucket() {
				if i > 0 && b.GetCumulativeCount() < s.GetHistogram().GetBucket()[i-1].GetCumulativeCount() {
					t.Errorf("the buckets of %s shrink", key)
				}
			}
		}
	}
	called := families["mcptrack_call_seconds"].GetMetric()[0]
	if tool := called.GetLabel()[2].GetValue(); tool != strings.ToValidUTF8(hostile, "\uFFFD") || called.GetHistogram().GetSampleCount() != 2 || called.GetHistogram().GetSampleSum() != 3660 {
		t.Errorf("%q: %v", tool, called)
	}
	if b := called.GetHistogram().GetBucket(); len(b) != 16 || b[13].GetCumulativeCount() != 0 || b[14].GetCumulativeCount() != 1 {
		t.Errorf("the bound of 60 s includes 60 s: %v", b)
	}
	for _, name := range []string{"go_goroutines", "go_memstats_heap_inuse_bytes", "process_start_time_seconds"} {
		if v := families[name].GetMetric()[0].GetGauge().GetValue(); v <= 0 {
			t.Errorf("%s is %v", name, v)
		}
	}
	if runtime.GOOS == "linux" {
		gauge := func(name string) float64 { return families[name].GetMetric()[0].GetGauge().GetValue() }
		resident, virtual := gauge("process_resident_memory_bytes"), gauge("process_virtual_memory_bytes")
		if resident < 1<<20 || virtual < resident || virtual > 1<<50 || gauge("process_open_fds") < 3 || gauge("process_max_fds") < gauge("process_open_fds") {
			t.Errorf("resident %v, virtual %v", resident, virtual)
		}
		if families["process_cpu_seconds_total"].GetMetric()[0].GetCounter().GetValue() <= 0 {
			t.Error("no processor time was used")
		}
	}
}

// No more than four scrapes run at a time.
func TestHandler(t *testing.T) {
	scraping, release := make(chan struct{}, 9), make(chan struct{})
	m := New(Options{Streams: func() int { scraping <- struct{}{}; <-release; return 1 }})
	handler := m.Handler()
	get := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w
	}
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() { get() })
		<-scraping
	}
	if w := get(); w.Code != http.StatusServiceUnavailable {
		t.Errorf("the fifth scrape: %d", w.Code)
	}
	close(release)
	running.Wait()
	if w := get(); w.Code != 200 || w.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" || !strings.Contains(w.Body.String(), "\nmcptrack_event_streams 1\n") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

// TestDashboardAndAlerts: what we ship for Grafana and Prometheus can be parsed and
// names only metrics that there are.
func TestDashboardAndAlerts(t *testing.T) {
	have := scraped(t, example())
	var exprs []string
	var dashboard struct {
		Title  string `json:"title"`
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(file(t, "dashboard.json"), &dashboard); err != nil || len(dashboard.Panels) < 6 {
		t.Fatalf("%d panels, %v", len(dashboard.Panels), err)
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			exprs = append(exprs, target.Expr)
		}
	}
	var alerts struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(file(t, "alerts.yaml"), &alerts); err != nil {
		t.Fatal(err)
	}
	for _, g := range alerts.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || r.Annotations["summary"] == "" {
				t.Errorf("%+v", r)
			}
			exprs = append(exprs, r.Expr)
		}
	}
	if len(exprs) < 12 {
		t.Fatalf("only %d expressions", len(exprs))
	}
	var seen []string
	for _, e := range exprs {
		if strings.Count(e, "(") != strings.Count(e, ")") {
			t.Errorf("parentheses of %s", e)
		}
		names := regexp.MustCompile(`mcptrack_[a-z_]+`).FindAllString(e, -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric", e)
		}
		for _, name := range names {
			if !regexp.MustCompile(`(?m)^` + name + `[{ ]`).MatchString(have) {
				t.Errorf("%s: there is no %s", e, name)
			}
			seen = append(seen, name)
		}
	}
	if !slices.Contains(seen, "mcptrack_delivery_latency_seconds_bucket") {
		t.Error("nobody looks at the latency")
	}
}

func file(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
