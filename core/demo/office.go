package demo

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/server"
)

const (
	scheme   = "demo://"
	clockURI = scheme + "status/clock"
	guideURI = scheme + "docs/guide.md"
	flagsURI = scheme + "config/flags.json"
	inboxURI = scheme + "inbox/message-" // and a number

	turn     = 6 // ticks
	keptMail = 3
	keptTips = 5
)

// office is the world of the demo. The goroutine of run owns it: mcp-go calls the
// handlers in catalog.go on it as well, since conn.handle does not hand them on.
type office struct {
	srv      *server.MCPServer
	notify   func(uri string)
	now      func() time.Time
	seed     uint64
	began    time.Time
	interval time.Duration

	tick    int
	tips    []string
	tipsSum int // tips ever added
	flags   map[string]bool
	inbox   []*message
	mailSum int // messages ever received
	touches map[string]int
	// translate and summarize go through absent, first form, second form.
	translate, summarize int
}

type message struct {
	uri, from, subject string
	read               bool
}

func newOffice(opts Options, interval time.Duration) *office {
	o := &office{
		srv:      newServer(opts.Version),
		now:      opts.Now,
		seed:     opts.Seed,
		began:    opts.Now(),
		interval: interval,
		flags:    map[string]bool{"dark_mode": false, "new_search": true, "beta_api": false},
		touches:  make(map[string]int),
	}
	o.declare()
	o.addTip()
	o.addTip()
	o.receive()
	return o
}

// step is one tick. New things are added before old ones are deleted, so that no
// list is ever short.
func (o *office) step() {
	o.tick++
	switch o.tick % turn {
	case 1:
		o.addTip()
		o.notify(guideURI)
	case 2:
		o.receive()
	case 3:
		names := []string{"beta_api", "dark_mode", "new_search"}
		name := names[o.dice().IntN(len(names))]
		o.flags[name] = !o.flags[name]
		o.notify(flagsURI)
	case 4:
		o.translate = (o.translate + 1) % 3
		o.offerTranslate()
	case 5:
		o.summarize = (o.summarize + 1) % 3
		o.offerSummarize()
	case 0:
		o.tips = slices.Delete(o.tips, 0, 1)
		o.notify(guideURI)
		for _, m := range o.inbox {
			if !m.read {
				m.read = true
				o.notify(m.uri)
				break
			}
		}
	}
	o.notify(clockURI)
}

// dice depends on the seed and the tick alone, so that requests in between do not
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

// receive puts a message into the inbox; the oldest of too many leaves.
func (o *office) receive() {
	o.mailSum++
	dice := o.dice()
	from := []string{"Ada", "Grace", "Edsger", "Barbara", "Ken"}
	subjects := []string{"lunch on Friday?", "the build is green", "review, please", "minutes of today", "new coffee machine"}
	m := &message{
		uri:     fmt.Sprintf("%s%d", inboxURI, o.mailSum),
		from:    from[dice.IntN(len(from))],
		subject: subjects[dice.IntN(len(subjects))],
	}
	o.inbox = append(o.inbox, m)
	o.offerMessage(m)
	if len(o.inbox) > keptMail {
		gone := o.inbox[0]
		o.inbox = slices.Delete(o.inbox, 0, 1)
		delete(o.touches, gone.uri)
		o.srv.DeleteResources(gone.uri)
	}
}

// touch changes a resource at once; false if there is none of this URI.
func (o *office) touch(uri string) bool {
	if _, _, ok := o.content(uri); !ok {
		return false
	}
	o.touches[uri]++
	o.notify(uri)
	return true
}

// content is the present text of a resource.
func (o *office) content(uri string) (mimeType, text string, ok bool) {
	touched := ""
	if n := o.touches[uri]; n > 0 {
		touched = fmt.Sprintf("touched %d times", n)
	}
	switch uri {
	case clockURI:
		now := o.now().UTC()
		text = fmt.Sprintf("time: %s\nup: %s\ntick: %d\n%s", now.Format(time.RFC3339), now.Sub(o.began).Round(time.Second), o.tick, touched)
		return "text/plain", strings.TrimSpace(text) + "\n", true
	case guideURI:
		text = "# Guide to the demo\n\nThis document gains and loses lines while you watch.\n\n## Tips\n\n" +
			strings.Join(o.tips, "\n") + "\n"
		if touched != "" {
			text += "\n## History\n\nThis guide was " + touched + ".\n"
		}
		return "text/markdown", text, true
	case flagsURI:
		doc := map[string]any{"flags": o.flags, "revision": o.touches[uri]}
		b, err := json.MarshalIndent(doc, "", "  ")
		return "application/json", string(b) + "\n", err == nil
	}
	for _, m := range o.inbox {
		if m.uri == uri {
			state := "new"
			if m.read {
				state = "read"
			}
			text = fmt.Sprintf("From: %s\nSubject: %s\nState: %s\n%s", m.from, m.subject, state, touched)
			return "text/plain", strings.TrimSpace(text) + "\n", true
		}
	}
	return "", "", false
}
