package webhook

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
)

func down(received) int { return 503 }

// without returns what is in all but not in got.
func without(all, got []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(id string) bool { return slices.Contains(got, id) })
}

// sentAfter returns the ids of the events that arrived after a time.
func (v *receiver) sentAfter(at time.Time) (ids []string) {
	for _, r := range v.all("event") {
		if r.at.After(at) {
			ids = append(ids, r.id)
		}
	}
	return ids
}

// A webhook that fails for a day is tried eight times and is then switched off, also after a restart. It continues
// where it stopped when its entry changes or events are sent again.
func TestSwitchedOff(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]func(t *testing.T, w *webhooksWorld, conf config.Webhook) *webhooksWorld{
		"reload": func(t *testing.T, w *webhooksWorld, conf config.Webhook) *webhooksWorld {
			conf.Secret = config.NewSecret(newSecret)
			w.Apply([]config.Webhook{conf})
			return w
		},
		"restart": func(t *testing.T, w *webhooksWorld, conf config.Webhook) *webhooksWorld {
			w.end()
			conf.Secret = config.NewSecret(newSecret)
			return newWebhooksWorld(t, w.log, w.to, conf)
		},
		"resend": func(t *testing.T, w *webhooksWorld, _ config.Webhook) *webhooksWorld {
			if _, err := w.Resend(t.Context(), Again{EventID: w.log.id(1)}); err != nil {
				t.Error(err)
			}
			return w
		},
		"since a later event": func(t *testing.T, w *webhooksWorld, _ config.Webhook) *webhooksWorld {
			if _, err := w.Resend(t.Context(), Again{Since: w.log.id(2)}); err != nil {
				t.Error(err)
			}
			return w
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				log, to, conf := newTestLog(), newReceiver(t), standard(hook)
				w := newWebhooksWorld(t, log, to, conf)
				synctest.Wait()
				to.set(down)
				want := []string{log.add("file:///a")}
				time.Sleep(36 * time.Hour)
				tries := to.all("event")
				if len(tries) < 7 || len(tries) > 9 || len(w.published()) != 1 {
					t.Fatalf("%d attempts, %v", len(tries), w.published())
				}
				for i, delay := range longSchedule()[1:] {
					if i+1 == len(tries) {
						break
					}
					if wait := tries[i+1].at.Sub(tries[i].at); wait < delay*8/10 || wait > delay*12/10+time.Second {
						t.Errorf("attempt %d after %v, want %v", i+2, wait, delay)
					}
				}
				want = append(want, log.add("file:///b"), log.add("file:///c"))
				w.end()
				w = newWebhooksWorld(t, log, to, conf)
				time.Sleep(time.Hour)
				if all := w.Endpoints(); len(to.ids()) != len(tries) || all[0].State != Suspended || w.Stats().Suspended != 1 {
					t.Fatalf("%d attempts, %+v", len(to.ids()), all)
				}
				to.set(nil)
				began := time.Now()
				w = on(t, w, conf)
				time.Sleep(time.Second)
				if missing := without(want, to.sentAfter(began.Add(-1))); len(missing) > 0 || len(to.all("gap")) > 0 || w.Endpoints()[0].State != Active {
					t.Errorf("%v are missing, %+v", missing, w.Endpoints())
				}
				w.end()
			})
		})
	}
}

// While an endpoint is down, few attempts are made however many events there are; when it accepts one, all that
// wait follow, each once.
func TestDownWithTraffic(t *testing.T) {
	t.Parallel()
	for _, format := range []config.WebhookFormat{config.WebhookStandard, config.WebhookSlack} {
		synctest.Test(t, func(t *testing.T) {
			log, to, conf := newTestLog(), newReceiver(t), standard(hook)
			conf.Format = format
			w := newWebhooksWorld(t, log, to, conf)
			synctest.Wait()
			to.set(down)
			to.answers = format == config.WebhookSlack
			began, n := time.Now(), 0
			for ; time.Since(began) < 20*time.Hour; n++ {
				log.add(fmt.Sprint("file:///", n))
				time.Sleep(5 * time.Minute)
			}
			tried := to.count()
			if st := w.Endpoints()[0]; tried > 16 || st.State != Failing || st.Waiting < lookAhead || !st.MoreWaiting || st.NextAttempt == "" {
				t.Errorf("%s: %d attempts, %+v", format, tried, st)
			}
			to.set(nil)
			for to.count() == tried { // the next attempt
				time.Sleep(time.Minute)
			}
			time.Sleep(10 * time.Second)
			if got := w.Endpoints()[0]; to.count() != tried+n || got.Delivered != uint64(n) || got.State != Active || got.Waiting != 0 || len(to.all("gap")) > 0 {
				t.Errorf("%s: %d of %d events, %+v", format, to.count()-tried, n, got)
			}
			w.end()
		})
	}
}

// An event that the endpoint refuses delays no other event for long, is not sent after every accepted one, and is
// given up with a gap message. After a restart, no other event is sent again.
func TestRefusedEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, to := newTestLog(), newReceiver(t)
		w := newWebhooksWorld(t, log, to, standard(hook))
		synctest.Wait()
		bad := log.id(10)
		to.set(func(r received) int {
			if r.id == bad {
				return 400
			}
			return 204
		})
		const n = 36 * 4
		for i := range n {
			id := log.add("file:///a")
			time.Sleep(6 * time.Second)
			if id != bad && !slices.Contains(to.ids(), id) {
				t.Fatalf("%s is late", id)
			}
			time.Sleep(15 * time.Minute)
			if i == n/2 {
				w.end()
				w = newWebhooksWorld(t, log, to, standard(hook))
				synctest.Wait()
			}
		}
		refused := 0
		for _, id := range to.ids() {
			if id == bad {
				refused++
			}
		}
		if len(to.ids())-refused != n-1 || refused < 8 || refused > 20 || len(to.all("gap")) != 1 {
			t.Errorf("%d events, %d times the refused one, %d gaps", len(to.ids())-refused, refused, len(to.all("gap")))
		}
		w.end()
	})
}

// An endpoint that refuses an event while nothing else happens gets the next one immediately.
func TestRefusedEventAlone(t *testing.T) {
	t.Parallel()
	for _, format := range []config.WebhookFormat{config.WebhookStandard, config.WebhookSlack} {
		synctest.Test(t, func(t *testing.T) {
			log, to, conf := newTestLog(), newReceiver(t), standard(hook)
			conf.Format, to.answers = format, true
			w := newWebhooksWorld(t, log, to, conf)
			synctest.Wait()
			to.set(down)
			log.add("file:///bad")
			time.Sleep(6 * time.Hour)
			to.set(nil)
			tried := to.count()
			log.add("file:///good")
			time.Sleep(time.Second)
			if got := to.count() - tried; got != 2 {
				t.Errorf("%s: %d attempts", format, got)
			}
			w.end()
		})
	}
}

// A webhook is not switched off because no process ran for a day.
func TestDownBeforeAndAfterADay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, to, conf := newTestLog(), newReceiver(t), standard(hook)
		w := newWebhooksWorld(t, log, to, conf)
		synctest.Wait()
		to.set(down)
		log.add("file:///a")
		time.Sleep(time.Minute)
		w.end()
		time.Sleep(72 * time.Hour)
		w = newWebhooksWorld(t, log, to, conf)
		time.Sleep(time.Second)
		to.set(nil)
		time.Sleep(time.Minute)
		if st := w.Endpoints()[0]; st.State != Active || st.Delivered != 1 || len(w.published()) > 0 {
			t.Errorf("%+v", st)
		}
		w.end()
	})
}

// Retry-After delays all events. A changed entry is tried immediately.
func TestHookRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, to, conf := newTestLog(), newReceiver(t), standard(hook)
		w := newWebhooksWorld(t, log, to, conf)
		synctest.Wait()
		to.retry = "3600"
		to.set(func(received) int { return 429 })
		log.add("file:///a")
		time.Sleep(time.Second)
		for range 100 {
			log.add("file:///b")
			time.Sleep(30 * time.Second)
		}
		if got := len(to.ids()); got != 1 {
			t.Errorf("%d attempts in 50 minutes", got)
		}
		to.set(nil)
		conf.Types = []string{"resource.updated"}
		w.Apply([]config.Webhook{conf})
		time.Sleep(time.Second)
		if got := len(to.ids()); got != 102 {
			t.Errorf("%d attempts after a change", got)
		}
		w.end()
	})
}

// Events are sent again to the webhooks that are named, if their filters select them.
func TestResend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, to := newTestLog(), newReceiver(t)
		one, two := standard("https://one.example/x"), standard("https://two.example/x")
		two.URIs = []string{"file:///b"}
		w := newWebhooksWorld(t, log, to, one, one, two)
		synctest.Wait()
		a, b := log.add("file:///a"), log.add("file:///b")
		log.store(event.Event{ServerID: "docs", Timestamp: time.Now(), Payload: event.SubscriptionActive{}})
		time.Sleep(time.Hour)
		later := time.Now()
		c := log.add("file:///c")
		time.Sleep(time.Second)
		for _, try := range []struct {
			q        Again
			problems string // by webhook
			want     []string
		}{
			{Again{EventID: a}, ",,its filters exclude the event", []string{a, a}},
			{Again{EventID: b, Hosts: []string{"two.example"}}, "", []string{b}},
			{Again{Since: later.UTC().Format(time.RFC3339Nano)}, ",,", []string{c, c}},
			{Again{Since: a, Hosts: []string{"one.example"}}, ",", []string{b, b, c, c}},
		} {
			before := len(to.ids())
			all, err := w.Resend(t.Context(), try.q)
			var problems []string
			for _, r := range all {
				problems = append(problems, r.Problem)
			}
			time.Sleep(time.Minute)
			got := slices.Sorted(slices.Values(to.ids()[before:]))
			if err != nil || strings.Join(problems, ",") != try.problems || !slices.Equal(got, try.want) {
				t.Errorf("%+v: %v %q %v, want %v", try.q, err, problems, got, try.want)
			}
		}
		for _, q := range []Again{{}, {EventID: a, Since: a}, {EventID: log.id(99)}, {EventID: "0-1"}, {EventID: log.id(3)}, {EventID: strings.Repeat("x", 1<<20)}, {EventID: log.id(0)},
			{EventID: "\x1b[2J"}, {Since: "yesterday"}, {EventID: a, Hosts: []string{"ONE"}}} {
			if all, err := w.Resend(t.Context(), q); err == nil || len(err.Error()) > 200 || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("%+v %v", all, err)
			}
		}
		w.end()
	})
}

// After any sequence of failures, restarts, changes and repetitions, a webhook was sent every event, or a gap message.
func TestWebhookLosesNothingSilently(t *testing.T) {
	t.Parallel()
	seeds := uint64(200)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			log, to, conf := newTestLog(), newReceiver(t), standard(hook)
			w := newWebhooksWorld(t, log, to, conf)
			synctest.Wait()
			answers, taken := rand.New(rand.NewPCG(seed, 1)), map[string]bool{} // guarded by the receiver
			to.set(func(r received) int {
				status := []int{204, 500, 503, 410, 301, 429}[answers.IntN(6)]
				if status == 204 || status == 410 {
					taken[r.id] = true
				}
				return status
			})
			var want []string
			for range 200 {
				switch random.IntN(14) {
				case 0:
					w.end()
					w = newWebhooksWorld(t, log, to, conf)
					synctest.Wait()
				case 1:
					conf.Settle += time.Second
					w.Apply([]config.Webhook{conf})
				case 2:
					time.Sleep(time.Duration(random.IntN(100)) * time.Minute)
				case 3:
					if len(want) > 0 {
						if _, err := w.Resend(t.Context(), Again{EventID: want[random.IntN(len(want))]}); err != nil {
							t.Fatal(err)
						}
					}
				default:
					want = append(want, log.add("file:///a"))
				}
			}
			to.set(func(r received) int {
				taken[r.id] = true
				return 204
			})
			conf.Settle += time.Second
			w.Apply([]config.Webhook{conf})
			time.Sleep(time.Minute)
			w.end()
			if missing := slices.DeleteFunc(want, func(id string) bool { return taken[id] }); len(missing) > 0 && len(to.all("gap")) == 0 {
				t.Errorf("seed %d: %v were not accepted, and no gap was sent", seed, missing)
			}
		})
	}
}
