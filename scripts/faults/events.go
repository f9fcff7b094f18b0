//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// occurrence is one of the MCP Events of a gateway.
type occurrence struct {
	EventID   string          `json:"eventId"`
	Name      string          `json:"name"`
	Timestamp string          `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
}

// about is the data of an occurrence.
type about struct {
	Server, URI, List, Cause, Digest string
	Added, Removed, Changed          names
}

func (o occurrence) String() string {
	return fmt.Sprintf("%s %s %s %s", o.EventID, o.Name, o.Timestamp, o.Data)
}

// occurrences are the events of one type that a client received.
type occurrences struct {
	*audience
	what  string
	first string         // the cursor before the first one
	all   []occurrence   // as the last poll from there returned them
	marks map[string]int // how many of them every other cursor is after

	mu       sync.Mutex // guards what follows
	streamed map[string]string
}

// poll returns what follows a cursor, and the cursor after it.
func (e *occurrences) poll(cursor any) (out []occurrence, next string, err error) {
	for more := true; more; cursor = next {
		raw, err := e.clients[0].ask(context.Background(), "events/poll", map[string]any{"name": e.what, "cursor": cursor, "maxEvents": 50})
		if err != nil {
			return nil, "", err
		}
		var page struct {
			Events             []occurrence
			Cursor             string
			Truncated, HasMore bool
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, "", err
		}
		if page.Truncated {
			return nil, "", fmt.Errorf("the answer after %v is truncated", cursor)
		}
		out, next, more = append(out, page.Events...), page.Cursor, page.HasMore
	}
	return out, next, nil
}

// stream follows the type from its first cursor on, and resumes after every end.
func (e *occurrences) stream(ctx context.Context) {
	cursor := e.first
	for ctx.Err() == nil {
		p, err := e.clients[0].request(ctx, "events/stream", map[string]any{"name": e.what, "cursor": cursor}, e.clients[0].serial.Add(1))
		if err != nil || p.StatusCode != http.StatusOK {
			if err == nil {
				_ = p.Body.Close()
			}
			time.Sleep(100 * time.Millisecond)
			continue
		}
		for data := range dataLines(p.Body) {
			var m struct {
				Method string
				Params struct {
					occurrence
					Cursor string
				}
			}
			if json.Unmarshal([]byte(data), &m) != nil || m.Method != "notifications/events/event" {
				continue
			}
			cursor = m.Params.Cursor
			e.mu.Lock()
			e.streamed[m.Params.EventID] = m.Params.occurrence.String()
			e.mu.Unlock()
		}
		_ = p.Body.Close()
	}
}

// again polls from every earlier cursor: the answers must not have changed.
func (e *occurrences) again(r *result, what string) error {
	all, next, err := e.poll(e.first)
	if err != nil {
		return err
	}
	same := func(cursor string, got, want []occurrence) {
		if len(got) < len(want) {
			r.lost += len(want) - len(got)
			e.report.note("%s: %s: after the cursor %s there were %d, and are %d", e.name, what, cursor, len(want), len(got))
		}
		for i := range min(len(got), len(want)) {
			if got[i].String() == want[i].String() {
				continue
			}
			if r.duplicated++; r.duplicated == 1 {
				e.report.note("%s: %s: after the cursor %s there was %v and is %v", e.name, what, cursor, want[i], got[i])
			}
		}
	}
	same(e.first, all, e.all)
	e.all = all
	for cursor, n := range e.marks {
		got, _, err := e.poll(cursor)
		if err != nil {
			return err
		}
		same(cursor, got, e.all[n:])
	}
	e.marks[next] = len(all)
	return nil
}

const collides = "x://shared/r" // what two servers list for a while

// gatewayEvents: the MCP Events of a gateway of several servers, over faults and restarts. They have
// to name what the gateway lists, and to say what is true in the end; an id and a cursor must keep
// their meaning forever.
func gatewayEvents(o options, report *report, name string) error {
	a := &audience{name: name, report: report, oracle: newOracle()}
	var fixtures []*fixture
	for _, w := range []way{{"http", "modern"}, {"stdio", "legacy"}, {"http", "both"}} {
		st, err := newOwnFixture(w, w.String(), a.oracle)
		if err != nil {
			return err
		}
		defer st.close()
		fixtures = append(fixtures, st)
	}
	fixtures[0].set(collides, false)
	var err error
	if a.tracker, err = newGateway(o, fixtures, nil, "--events"); err != nil {
		return err
	}
	defer a.end(syscall.SIGKILL)
	ctx, stop := context.WithCancel(context.Background())
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	c := a.client("modern", true)
	a.clients = []*client{c}
	following.Go(func() { c.follow(ctx) })
	a.row("connect", func() error { return nil })
	time.Sleep(3 * time.Second) // the first looks are stored
	base := newView(a.oracle)
	updated := &occurrences{audience: a, what: "resource.updated"}
	listed := &occurrences{audience: a, what: "list.changed"}
	for _, e := range []*occurrences{updated, listed} {
		e.marks, e.streamed = map[string]int{}, map[string]string{}
		if _, e.first, err = e.poll(nil); err != nil {
			return err
		}
		following.Go(func() { e.stream(ctx) })
	}
	fresh := func(st *fixture) string { return "x://" + st.id + "/n0" }
	for _, phase := range []struct {
		name    string
		happens func() error
	}{
		{"resources change", func() error { a.each(func(st *fixture) { st.change(true) }); return nil }},
		{"a new resource", func() error { a.each(func(st *fixture) { st.set(fresh(st), true) }); return nil }},
		{"it changes", func() error { a.each(func(st *fixture) { st.set(fresh(st), true) }); return nil }},
		{"lists change", func() error { a.each(func(st *fixture) { st.swap(true) }); return nil }},
		{"servers die", func() error {
			a.each((*fixture).die)
			a.each(func(st *fixture) { st.swap(false); st.change(false) })
			time.Sleep(300 * time.Millisecond)
			return errors.Join(fixtures[0].live(), fixtures[1].live(), fixtures[2].live())
		}},
		{"it is gone", func() error { a.each(func(st *fixture) { st.remove(fresh(st)) }); return nil }},
		{"gateway killed, it comes back", func() error {
			a.end(syscall.SIGKILL)
			a.each(func(st *fixture) { st.swap(false); st.set(fresh(st), false) })
			return a.start()
		}},
		{"a second server lists a URI", func() error { a.shared = collides; fixtures[1].set(collides, true); return nil }},
		{"both change", func() error { fixtures[0].set(collides, true); fixtures[1].set(collides, true); return nil }},
		{"gateway stopped and started", func() error {
			a.end(syscall.SIGTERM)
			a.each(func(st *fixture) { st.swap(false); st.change(false) })
			return a.start()
		}},
		{"the first server lists it no more", func() error { a.shared = ""; fixtures[0].remove(collides); return nil }},
		{"the other one changes", func() error { fixtures[1].set(collides, true); return nil }},
		{"gateway killed again", func() error { a.end(syscall.SIGKILL); a.each(func(st *fixture) { st.swap(false) }); return a.start() }},
	} {
		known, knownLists := len(updated.all), len(listed.all)
		a.row(phase.name, phase.happens)
		r, over := result{rounds: 1}, time.Now()
		for ; ; time.Sleep(100 * time.Millisecond) {
			if err := errors.Join(updated.again(&r, phase.name), listed.again(&r, phase.name)); err != nil {
				return err
			}
			wrong, strange := a.judge(base.clone(), slices.Concat(updated.all, listed.all))
			r.slowest = time.Since(over)
			if len(wrong)+len(strange) == 0 {
				break
			}
			if r.slowest > 40*time.Second {
				r.lost += len(wrong) + len(strange)
				report.note("%s: %s: the events do not say what is true of %v, and nobody knows what these name: %v", name, phase.name, wrong, strange)
				break
			}
		}
		for _, e := range slices.Concat(updated.all[min(known, len(updated.all)):], listed.all[min(knownLists, len(listed.all)):]) {
			a.shown(e, &r, phase.name)
		}
		report.row(name+": "+phase.name, "events", r)
	}
	time.Sleep(time.Second) // the streams also receive it
	stop()
	following.Wait()
	r := result{rounds: 1}
	for _, e := range []*occurrences{updated, listed} {
		for _, polled := range e.all {
			switch streamed, ok := e.streamed[polled.EventID]; {
			case !ok:
				r.lost++
				report.note("%s: not in the stream: %v", name, polled)
			case streamed != polled.String():
				if r.duplicated++; r.duplicated == 1 {
					report.note("%s: in the stream %s, in the poll %v", name, streamed, polled)
				}
			}
		}
	}
	report.row(name+": streams", "events", r)
	if !a.end(syscall.SIGTERM) {
		report.row(name+": exit", "all", result{rounds: 1, hung: 1})
	}
	return nil
}

// shown counts an occurrence that does not name what it is about as the gateway lists it now.
func (a *audience) shown(e occurrence, r *result, what string) {
	var data about
	_ = json.Unmarshal(e.Data, &data) // which judge has decoded
	list, all := data.List, slices.Concat(data.Added, data.Removed, data.Changed)
	if data.URI != "" {
		list, all = "resources", names{data.URI}
	}
	for _, name := range all {
		own := a.own(data.Server, name)
		if name != a.exported(at{data.Server, own, list}) && (own != collides || data.URI != "") { // whose name changes with these events
			if r.stale++; r.stale == 1 {
				a.report.note("%s: %s: the gateway lists %s as %s, unlike %v", a.name, what, own, a.exported(at{data.Server, own, list}), e)
			}
		}
	}
}

// own returns the server's own URI or name of what the gateway shows.
func (a *audience) own(server, shown string) string {
	return strings.TrimPrefix(strings.TrimPrefix(shown, "mcptrack://server/"+server+"/"), server+"_")
}

// judge takes occurrences into a view, and returns what it does not show as it is, and occurrences that
// name what there never was.
func (a *audience) judge(v *view, all []occurrence) (wrong []at, strange []occurrence) {
	ours := a.oracle.of("")
	for _, e := range all {
		var data about
		if err := json.Unmarshal(e.Data, &data); err != nil {
			strange = append(strange, e)
			continue
		}
		out := event{ID: e.EventID, Type: e.Name, ServerID: data.Server, Timestamp: e.Timestamp, Cause: data.Cause, Digest: data.Digest}
		own := func(names names) (out names) {
			for _, name := range names {
				name = a.own(data.Server, name)
				if _, known := ours[at{data.Server, name, data.List}]; !known {
					strange = append(strange, e)
				}
				out = append(out, name)
			}
			return out
		}
		if data.List == "" {
			out.ResourceURI = own([]string{data.URI})[0]
			v.take(out)
			continue
		}
		out.Type, out.Added, out.Removed, out.Changed = data.List+".list_changed", own(data.Added), own(data.Removed), own(data.Changed)
		v.take(out)
		if data.List != "resources" {
			continue
		}
		for kind, uris := range map[string]names{"resource.added": out.Added, "resource.removed": out.Removed} { // of which there are no events
			for _, uri := range uris {
				v.take(event{Type: kind, ServerID: data.Server, ResourceURI: uri, Timestamp: e.Timestamp})
			}
		}
	}
	return v.wrong("", a.contents), strange
}

// contents returns the versions of a server's resources that a client reads.
func (a *audience) contents(server string) (map[at]int64, error) {
	out := map[at]int64{}
	for key, v := range a.oracle.of(server) {
		if key.list != "resources" || v <= 0 {
			continue
		}
		text, err := a.clients[0].read(context.Background(), a.exported(key))
		if err != nil {
			return nil, err
		}
		var version int64
		if _, err := fmt.Sscanf(text, "version %d", &version); err != nil {
			return nil, err
		}
		out[at{server: server, uri: key.uri}] = version
	}
	return out, nil
}
