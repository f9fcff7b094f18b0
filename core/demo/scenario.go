package demo

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/internal/wake"
)

// Paths of the notes that always exist.
const (
	clockNote = "clock.md"
	guideNote = "guide.md"
	tasksNote = "tasks.md"
	inbox     = "inbox"

	cycle   = 6 // number of ticks after which the scenario repeats
	maxMail = 3 // maximum number of messages in the inbox
	maxTips = 5 // maximum number of tips in guide.md
)

// scenario edits the notes of the demo. Ticks and tool calls run on different goroutines.
type scenario struct {
	dir   string
	now   func() time.Time
	seed  uint64
	began time.Time
	// offer publishes the current tools and prompts. It is set before the first tick.
	offer func(tools, prompts []json.RawMessage)
	// paced signals run that the interval has changed.
	paced wake.Channel

	mu       sync.Mutex // also held while a note is saved, which is a small local file
	replay   bool       // the ticks before the start are being repeated: nothing is saved
	interval time.Duration
	tick     int
	tips     []string
	tipsSum  int // total number of tips added so far
	tasks    map[string]bool
	mail     []*message
	mailSum  int // total number of messages received so far
	touches  map[string]int
	// counting and summary are the states of the tool count_words and the prompt summarize_inbox: 0
	// is absent, 1 is the first version, 2 is the second version.
	counting, summary int
}

type message struct {
	number        int
	from, subject string
	read          bool
}

func (m *message) path() string { return fmt.Sprintf("%s/message-%d.md", inbox, m.number) }

func newScenario(dir string, opts Options) *scenario {
	return &scenario{
		dir: dir, now: opts.Now, seed: opts.Seed, began: cmp.Or(opts.Began, opts.Now()),
		paced:    wake.New(),
		interval: clamp(cmp.Or(opts.Interval, defaultInterval)),
		tasks:    map[string]bool{"answer the mail": false, "read the guide": true, "water the plants": false},
		touches:  make(map[string]int),
	}
}

// maxReplay limits the number of ticks before the start of the server that open repeats.
const maxReplay = 100_000

// open saves the initial notes, or those of a scenario that began before this server started.
func (s *scenario) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addTip()
	s.addTip()
	s.replay = true
	err := s.receive()
	for range min(s.now().Sub(s.began)/s.interval, maxReplay) {
		err = errors.Join(err, s.advance())
	}
	s.replay = false
	paths := []string{clockNote, guideNote, tasksNote}
	for _, m := range s.mail {
		paths = append(paths, m.path())
	}
	return errors.Join(err, s.save(paths...))
}

// step performs one tick.
func (s *scenario) step() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.advance()
}

// advance performs one tick. s.mu must be held.
func (s *scenario) advance() error {
	s.tick++
	changed := []string{clockNote}
	switch s.tick % cycle {
	case 1:
		s.addTip()
		changed = append(changed, guideNote)
	case 2:
		if err := s.receive(); err != nil {
			return err
		}
	case 3:
		tasks := []string{"answer the mail", "read the guide", "water the plants"}
		task := tasks[s.random().IntN(len(tasks))]
		s.tasks[task] = !s.tasks[task]
		changed = append(changed, tasksNote)
	case 4:
		s.counting = (s.counting + 1) % 3
		s.offerAll()
	case 5:
		s.summary = (s.summary + 1) % 3
		s.offerAll()
	case 0:
		s.tips = slices.Delete(s.tips, 0, 1)
		changed = append(changed, guideNote)
		for _, m := range s.mail {
			if !m.read {
				m.read = true
				changed = append(changed, m.path())
				break
			}
		}
	}
	return s.save(changed...)
}

// random returns a source of random numbers that depends only on the seed and the tick, so that
// tool calls do not influence the scenario.
func (s *scenario) random() *rand.Rand {
	return rand.New(rand.NewPCG(s.seed, uint64(s.tick)))
}

func (s *scenario) addTip() {
	tips := []string{
		"Subscribe first, then read, so that no change is lost in between.",
		"A notification says that something changed, never what.",
		"A list may change while you page through it.",
		"A quiet server is not necessarily a healthy one: ping it.",
		"Two updates within the window are published once.",
		"Read the diff, not the whole document.",
		"A server that restarts forgets your subscriptions.",
	}
	s.tipsSum++
	pick := tips[(int(s.seed%uint64(len(tips)))+s.tipsSum)%len(tips)]
	s.tips = append(s.tips, fmt.Sprintf("%d. %s", s.tipsSum, pick))
	if len(s.tips) > maxTips {
		s.tips = slices.Delete(s.tips, 0, 1)
	}
}

// receive adds a message to the inbox. Only then does it remove the oldest messages beyond maxMail,
// so that the folder never has fewer messages than before.
func (s *scenario) receive() error {
	s.mailSum++
	random := s.random()
	from := []string{"Ada", "Grace", "Edsger", "Barbara", "Ken"}
	subjects := []string{"Lunch on Friday?", "The build is green", "Review, please", "Minutes of today", "New coffee machine"}
	m := &message{number: s.mailSum, from: from[random.IntN(len(from))], subject: subjects[random.IntN(len(subjects))]}
	s.mail = append(s.mail, m)
	if err := s.save(m.path()); err != nil {
		return err
	}
	if len(s.mail) <= maxMail {
		return nil
	}
	gone := s.mail[0]
	s.mail = slices.Delete(s.mail, 0, 1)
	delete(s.touches, gone.path())
	if s.replay {
		return nil
	}
	return os.Remove(filepath.Join(s.dir, filepath.FromSlash(gone.path())))
}

// save writes notes the way editors do: to a new file that replaces the old one.
func (s *scenario) save(paths ...string) error {
	if s.replay {
		return nil
	}
	for _, p := range paths {
		text, ok := s.text(p)
		if !ok {
			continue
		}
		to := filepath.Join(s.dir, filepath.FromSlash(p))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return fmt.Errorf("save a note of the demo: %w", err)
		}
		if err := atomicfile.Write(to, 0o600, []byte(text)); err != nil {
			return fmt.Errorf("save a note of the demo: %w", err)
		}
	}
	return nil
}

// touch changes a note and returns how often it has been changed this way. ok is false if the note
// does not exist.
func (s *scenario) touch(p string) (times int, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.text(p); !ok {
		return 0, false, nil
	}
	s.touches[p]++
	return s.touches[p], true, s.save(p)
}

// pace returns the current interval.
func (s *scenario) pace() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.interval
}

func (s *scenario) setPace(d time.Duration) time.Duration {
	s.mu.Lock()
	s.interval = clamp(d)
	d = s.interval
	s.mu.Unlock()
	s.paced.Send()
	return d
}
