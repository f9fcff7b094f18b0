package tracker

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

var soak = flag.Duration("soak", 0, "how long TestSoak works; scripts/soak.sh sets it")

// usage is what resources the process holds.
type usage struct{ goroutines, files, rssMiB int }

func used(t *testing.T) usage {
	t.Helper()
	runtime.GC()
	u := usage{goroutines: runtime.NumGoroutine()}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		u.files = len(fds)
	}
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		_, rest, _ := strings.Cut(string(status), "VmRSS:")
		kib, _ := strconv.Atoi(strings.Fields(rest)[0])
		u.rssMiB = kib >> 10
	}
	return u
}

// TestSoak lets random faults of the matrix happen on servers of every transport and era for the
// duration of -soak, with changes in between. After each fault, the last event of every resource
// must be true, and at the end nothing may have grown. It fails if there was too little load.
func TestSoak(t *testing.T) {
	if *soak == 0 {
		t.Skip("run by scripts/soak.sh, which sets the duration")
	}
	var stands []*stand
	for _, l := range links() {
		s := newStand(t, l)
		s.start()
		stands = append(stands, s)
	}
	before := used(t)
	peak := before
	seed := rand.Uint64()
	t.Logf("seed %d; at the start %+v", seed, before)
	rng := rand.New(rand.NewPCG(seed, 0))
	var worst time.Duration
	rounds := 0
	for end := time.Now().Add(*soak); time.Now().Before(end); rounds++ {
		s := stands[rng.IntN(len(stands))]
		f := faults()[rng.IntN(len(faults()))]
		if f.on != nil && !f.on(s.link) || f.name == "no stream for notifications" {
			continue
		}
		s.change(fmt.Sprint("soak ", rounds), rng.IntN(4) > 0)
		f.happens(s)
		over := time.Now()
		s.docs.Set("file:///8.md", fmt.Sprint("soak ", rounds))
		truth := trueDigests(s.docs)
		s.eventually("truth after "+s.String()+": "+f.name, func() bool { return len(s.wrong(truth)) == 0 })
		worst = max(worst, time.Since(over))
		if u := used(t); u.rssMiB > peak.rssMiB {
			peak.rssMiB = u.rssMiB
		}
	}
	var signals, events uint64
	dups := 0
	for _, s := range stands {
		st, _ := s.tracker.Snapshot().Server("docs")
		signals += st.Counts.Signals
		events += st.Counts.Published
		s.mu.Lock()
		dups += s.dups
		s.mu.Unlock()
	}
	for _, s := range stands { // connections that network faults left hanging do not belong to the tracker
		if s.wire != nil {
			s.wire.down()
			s.docs.ForgetSessions()
			s.wire.up()
		}
	}
	rest(5 * time.Second)
	after := used(t)
	t.Logf("%d faults in %v; notifications %d, events %d; keys whose last event differs from the truth: 0; longest recovery %v; resync events without a change: %d",
		rounds, *soak, signals, events, worst.Round(time.Millisecond), dups)
	t.Logf("goroutines %d → %d, descriptors %d → %d, RSS %d → %d MiB, peak %d MiB",
		before.goroutines, after.goroutines, before.files, after.files, before.rssMiB, after.rssMiB, peak.rssMiB)
	if minimum := uint64(soak.Seconds()); signals < 10*minimum || events < minimum {
		t.Errorf("too little load: only %d notifications and %d events in %v", signals, events, *soak)
	}
	if dups > 0 {
		t.Errorf("%d resync events without a change", dups)
	}
	if after.goroutines > before.goroutines+20 || after.files > before.files+20 {
		t.Errorf("something grew: %+v became %+v", before, after)
	}
}
