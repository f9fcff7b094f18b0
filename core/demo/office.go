package demo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Notes that are there from the beginning to the end.
const (
	clockNote = "clock.md"
	guideNote = "guide.md"
	tasksNote = "tasks.md"
	inbox     = "inbox"

	turn     = 6 // ticks
	keptMail = 3
	keptTips = 5
)

// office is the world of the demo, and who edits it. Ticks and calls of tools come
// from several goroutines, one at a time.
type office struct {
	dir   string
	now   func() time.Time
	seed  uint64
	began time.Time
	// offer tells clients of tools and prompts; set before the first tick.
	offer func(tools, prompts []json.RawMessage)
	// paced tells run that the interval is another one. Capacity 1: the newest counts.
	paced chan struct{}

	mu       sync.Mutex // held also while a note is saved: it is our own small file
	interval time.Duration
	tick     int
	tips     []string
	tipsSum  int // tips ever added
	tasks    map[string]bool
	mail     []*message
	mailSum  int // messages ever received
	touches  map[string]int
	// counting and summary go through absent, first form, second form.
	counting, summary int
}

type message struct {
	number        int
	from, subject string
	read          bool
}

func (m *message) path() string { return fmt.Sprintf("%s/message-%d.md", inbox, m.number) }

func newOffice(dir string, opts Options) *office {
	return &office{
		dir: dir, now: opts.Now, seed: opts.Seed, began: opts.Now(),
		paced:    make(chan struct{}, 1),
		interval: clamp(cmp.Or(opts.Interval, defaultInterval)),
		tasks:    map[string]bool{"answer the mail": false, "read the guide": true, "water the plants": false},
		touches:  make(map[string]int),
	}
}

// open saves the notes of the beginning.
func (o *office) open() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.addTip()
	o.addTip()
	if err := o.receive(); err != nil {
		return err
	}
	return o.save(clockNote, guideNote, tasksNote)
}

// step is one tick.
func (o *office) step() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tick++
	changed := []string{clockNote}
	switch o.tick % turn {
	case 1:
		o.addTip()
		changed = append(changed, guideNote)
	case 2:
		if err := o.receive(); err != nil {
			return err
		}
	case 3:
		tasks := []string{"answer the mail", "read the guide", "water the plants"}
		task := tasks[o.dice().IntN(len(tasks))]
		o.tasks[task] = !o.tasks[task]
		changed = append(changed, tasksNote)
	case 4:
		o.counting = (o.counting + 1) % 3
		o.offerAll()
	case 5:
		o.summary = (o.summary + 1) % 3
		o.offerAll()
	case 0:
		o.tips = slices.Delete(o.tips, 0, 1)
		changed = append(changed, guideNote)
		for _, m := range o.mail {
			if !m.read {
				m.read = true
				changed = append(changed, m.path())
				break
			}
		}
	}
	return o.save(changed...)
}

// dice depends on the seed and the tick alone, so that calls in between do not
// change what comes.
func (o *office) dice() *rand.Rand {
	return rand.New(rand.NewPCG(o.seed, uint64(o.tick)))
}

func (o *office) addTip() {
	tips := []string{
		"Subscribe first, then read: what changes in between is not lost.",
		"A notification says that something changed, never what.",
		"A list may change while you page through it.",
		"Quiet is not the same as healthy: ask now and then.",
		"Two updates within the window are told once.",
		"Read the diff, not the whole document.",
		"A server that restarts forgets your subscriptions.",
	}
	o.tipsSum++
	pick := tips[(int(o.seed%uint64(len(tips)))+o.tipsSum)%len(tips)]
	o.tips = append(o.tips, fmt.Sprintf("%d. %s", o.tipsSum, pick))
	if len(o.tips) > keptTips {
		o.tips = slices.Delete(o.tips, 0, 1)
	}
}

// receive puts a message into the inbox; the oldest of too many leaves after that, so
// that the folder is never short.
func (o *office) receive() error {
	o.mailSum++
	dice := o.dice()
	from := []string{"Ada", "Grace", "Edsger", "Barbara", "Ken"}
	subjects := []string{"Lunch on Friday?", "The build is green", "Review, please", "Minutes of today", "New coffee machine"}
	m := &message{number: o.mailSum, from: from[dice.IntN(len(from))], subject: subjects[dice.IntN(len(subjects))]}
	o.mail = append(o.mail, m)
	if err := o.save(m.path()); err != nil {
		return err
	}
	if len(o.mail) <= keptMail {
		return nil
	}
	gone := o.mail[0]
	o.mail = slices.Delete(o.mail, 0, 1)
	delete(o.touches, gone.path())
	return os.Remove(filepath.Join(o.dir, filepath.FromSlash(gone.path())))
}

// save writes notes as editors do: a new file that takes the place of the old one.
func (o *office) save(paths ...string) error {
	for _, p := range paths {
		text, ok := o.text(p)
		if !ok {
			continue
		}
		to := filepath.Join(o.dir, filepath.FromSlash(p))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return fmt.Errorf("save a note of the demo: %w", err)
		}
		tmp := filepath.Join(o.dir, ".saving")
		if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
			return fmt.Errorf("save a note of the demo: %w", err)
		}
		if err := os.Rename(tmp, to); err != nil {
			return fmt.Errorf("save a note of the demo: %w", err)
		}
	}
	return nil
}

// text is what a note says now.
func (o *office) text(p string) (text string, ok bool) {
	switch p {
	case clockNote:
		now := o.now().UTC()
		text = fmt.Sprintf("# Clock\n\n- time: %s\n- up: %s\n- tick: %d\n", now.Format(time.RFC3339), now.Sub(o.began).Round(time.Second), o.tick)
	case guideNote:
		text = "---\ntags: [demo]\n---\n# Guide to the demo\n\nThis note gains and loses lines while you watch. See [[tasks]] and [[clock]].\n\n## Tips\n\n" +
			strings.Join(o.tips, "\n") + "\n"
	case tasksNote:
		var b strings.Builder
		b.WriteString("# Tasks\n\n#demo/tasks\n\n")
		for _, task := range []string{"answer the mail", "read the guide", "water the plants"} {
			box := " "
			if o.tasks[task] {
				box = "x"
			}
			fmt.Fprintf(&b, "- [%s] %s\n", box, task)
		}
		text = b.String()
	default:
		i := slices.IndexFunc(o.mail, func(m *message) bool { return m.path() == p })
		if i < 0 {
			return "", false
		}
		m := o.mail[i]
		state := "new"
		if m.read {
			state = "read"
		}
		text = fmt.Sprintf("---\nfrom: %s\ntags: [inbox/%s]\n---\n# %s\n\nSee [[guide]].\n", m.from, state, m.subject)
	}
	if n := o.touches[p]; n > 0 {
		text += fmt.Sprintf("\nTouched %d times.\n", n)
	}
	return text, true
}

// touch changes a note at once; ok is false if there is none.
func (o *office) touch(p string) (times int, ok bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.text(p); !ok {
		return 0, false, nil
	}
	o.touches[p]++
	return o.touches[p], true, o.save(p)
}

// pace is the present interval.
func (o *office) pace() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.interval
}

func (o *office) setPace(d time.Duration) time.Duration {
	o.mu.Lock()
	o.interval = clamp(d)
	d = o.interval
	o.mu.Unlock()
	select {
	case o.paced <- struct{}{}:
	default:
	}
	return d
}
