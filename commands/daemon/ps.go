package daemon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/daemon"
	"github.com/mcptrack/mcptrack/core/machine"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/table"
)

// PSCommand returns the command daemon ps, which is also a command of its own.
func PSCommand(env *cli.Env, g *cli.Globals) *cobra.Command {
	var kill, yes bool
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "Show the MCP servers running on this machine and their copies",
		Long: `Shows the MCP servers that run for your user, whoever started them: copies, memory, age and
starters. An orphan still waits for requests although the program that started it has
ended. -o wide shows each copy.

A server is recognised by the configs of your editors and agents, or by "mcp" in the name of
its program, script, package or image. Its memory includes its child processes.

--kill-orphans asks, and then ends the orphans.`,
		Example: `  mcptrack daemon ps
  mcptrack daemon ps -o wide
  mcptrack daemon ps --json | jq '.shareable.memoryBytes'
  mcptrack daemon ps --kill-orphans`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if yes && !kill {
				return cli.Usage("--yes is for --kill-orphans")
			}
			groups, err := machine.Servers(cmd.Context(), launches(g.ConfigOptions(env)))
			if err != nil {
				return err
			}
			if kill {
				return killOrphans(cmd.Context(), env, groups, yes)
			}
			report := newPSReport(groups)
			if st, err := Status(cmd.Context(), env); err == nil { // otherwise nothing is shared
				report.Daemon = sharedBy(st, groups)
			}
			return g.Print(env, report.output(groups, g.Format.Wide(), time.Now()))
		},
	}
	cmd.Flags().BoolVar(&kill, "kill-orphans", false, "end the servers whose starter has ended")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cli.MainFlags(cmd, "json", "output", "kill-orphans", "yes")
	return cmd
}

// launches returns the commands of the stdio servers in the configs of all hosts and in mcptrack's
// own. Nothing is started. Configs that cannot be read are skipped: their servers may still be
// recognised by name.
func launches(opts config.Options) (commands [][]string) {
	var files []string
	if own, ok := config.Find(opts); ok {
		files = append(files, own)
	}
	for _, f := range config.HostFiles(opts) {
		files = append(files, f.Path)
	}
	for _, file := range files {
		cfg, _ := config.Load(file, opts)
		if cfg == nil {
			continue
		}
		for _, srv := range cfg.Servers {
			if srv.Command != "" {
				commands = append(commands, append([]string{srv.Command}, srv.Args...))
			}
		}
	}
	return commands
}

// psReport is the document that ps --json prints.
type psReport struct {
	Groups    []psGroup `json:"groups"`
	Total     psSum     `json:"total"`
	Shareable psSum     `json:"shareable"` // what one copy of each server would save
	Daemon    *psShared `json:"daemon,omitempty"`

	relays int // that Total counts
}

// psShared is what the daemon shares now; absent if it runs no program.
type psShared struct {
	Programs    int   `json:"programs"`
	Instead     int   `json:"instead"`     // that its clients would run
	MemoryBytes int64 `json:"memoryBytes"` // that this saves, without the memory of mcptrack attach
}

// sharedBy returns what the daemon with a status shares.
func sharedBy(st daemon.Status, groups []machine.Group) *psShared {
	var s psShared
	for _, srv := range st.Servers {
		programs := len(srv.Own)
		if srv.PID > 0 {
			programs++
		}
		if programs > 0 {
			clients := max(srv.Clients, programs)
			s.Programs += programs
			s.Instead += clients
			s.MemoryBytes += int64(clients-programs) * srv.Memory / int64(programs)
		}
	}
	for _, g := range groups {
		if g.Relay {
			s.MemoryBytes -= g.Memory()
		}
	}
	if s.MemoryBytes = max(s.MemoryBytes, 0); s.Programs == 0 {
		return nil
	}
	return &s
}

type psSum struct {
	Processes   int   `json:"processes"` // number of servers
	MemoryBytes int64 `json:"memoryBytes"`
}

type psGroup struct {
	Command     string      `json:"command"`
	Count       int         `json:"count"`
	MemoryBytes int64       `json:"memoryBytes"`
	Orphans     int         `json:"orphans"`
	Processes   []psProcess `json:"processes"`
}

type psProcess struct {
	PID         int    `json:"pid"`
	StartedBy   string `json:"startedBy"` // empty if the starter has ended
	Since       string `json:"since"`
	MemoryBytes int64  `json:"memoryBytes"`
	Orphan      bool   `json:"orphan"`
}

func newPSReport(groups []machine.Group) *psReport {
	r := &psReport{Groups: []psGroup{}}
	for _, g := range groups {
		out := psGroup{Command: g.Command, Count: len(g.Servers), MemoryBytes: g.Memory(), Orphans: g.Orphans()}
		for _, s := range g.Servers {
			out.Processes = append(out.Processes, psProcess{PID: s.PID, StartedBy: startedBy(s), Since: cli.Stamp(s.Since), MemoryBytes: s.Memory, Orphan: s.Orphan})
		}
		r.Groups = append(r.Groups, out)
		if g.Relay {
			r.relays += out.Count
		}
		servers, memory := g.Shareable()
		r.Total = psSum{r.Total.Processes + out.Count, r.Total.MemoryBytes + out.MemoryBytes}
		r.Shareable = psSum{r.Shareable.Processes + servers, r.Shareable.MemoryBytes + memory}
	}
	return r
}

func startedBy(s machine.Server) string {
	if s.Starter == 0 {
		return ""
	}
	return fmt.Sprintf("%s (%d)", s.StartedBy, s.Starter)
}

// output returns what ps prints: a row for each group or, if the table is wide, for each process.
func (r *psReport) output(groups []machine.Group, wide bool, now time.Time) table.Output {
	out := table.Output{Document: r, Names: []string{}}
	type copied struct {
		machine.Server
		command string
	}
	var copies []copied
	for _, g := range groups {
		out.Names = append(out.Names, g.Command)
		for _, s := range g.Servers {
			copies = append(copies, copied{s, g.Command})
		}
	}
	of := table.Records(groups, func(g machine.Group) []string {
		starters := map[string]int{}
		for _, s := range g.Servers {
			starters[cmp.Or(s.StartedBy, starterless(s))]++
		}
		return []string{strconv.Itoa(len(g.Servers)), printable.Size(g.Memory()), strconv.Itoa(g.Orphans()), age(now.Sub(g.Servers[0].Since)), counted(starters), g.Command}
	}, "Copies", "Memory", "Orphans", "Oldest", "Started by", "Command")
	if wide {
		of = table.Records(copies, func(c copied) []string {
			return []string{strconv.Itoa(c.PID), age(now.Sub(c.Since)), printable.Size(c.Memory), cmp.Or(startedBy(c.Server), starterless(c.Server)), c.command}
		}, "PID", "Age", "Memory", "Started by", "Command")
	}
	if out.Parts = []table.Part{of, table.Text(""), table.Text("%s", r.saving())}; len(groups) == 0 {
		out.Parts = []table.Part{table.Text("no MCP server is running")}
	}
	return out
}

// starterless describes a server without a starter.
func starterless(s machine.Server) string {
	if s.Orphan {
		return "ended (orphan)"
	}
	return "the system"
}

// counted joins names with their counts, the most frequent one first: "Claude Code ×3, Cursor".
func counted(names map[string]int) string {
	var parts []string
	for name := range names {
		parts = append(parts, name)
	}
	slices.SortFunc(parts, func(a, b string) int { return cmp.Or(names[b]-names[a], strings.Compare(a, b)) })
	for i, name := range parts {
		if n := names[name]; n > 1 {
			parts[i] = fmt.Sprintf("%s ×%d", name, n)
		}
	}
	return cli.Join(parts, 3)
}

// age formats the time since a server started in its largest unit.
func age(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", max(d/time.Second, 0))
}

// saving says what sharing would save, and what it saves.
func (r *psReport) saving() string {
	text := cli.Plural(r.Total.Processes-r.relays, "server")
	if r.relays > 0 {
		text += fmt.Sprintf(" and %d × mcptrack attach", r.relays)
	}
	text += ", " + printable.Size(r.Total.MemoryBytes)
	if r.Shareable.Processes > 0 {
		text += fmt.Sprintf("; one copy of each would save %s and %s", cli.Plural(r.Shareable.Processes, "server"), printable.Size(r.Shareable.MemoryBytes))
	}
	if d := r.Daemon; d != nil && d.Instead > d.Programs {
		text += fmt.Sprintf("\nthe daemon runs %s instead of %d", cli.Plural(d.Programs, "program"), d.Instead)
		if d.MemoryBytes > 0 {
			text += fmt.Sprintf(", about %s less", printable.Size(d.MemoryBytes))
		}
	}
	return text
}

// killGrace is how long an orphan may take to end before it is killed.
const killGrace = 5 * time.Second

// killOrphans ends the orphans after a question.
func killOrphans(ctx context.Context, env *cli.Env, groups []machine.Group, yes bool) error {
	var orphans []machine.Server
	var text bytes.Buffer
	for _, g := range groups {
		for _, s := range g.Servers {
			if s.Orphan {
				orphans = append(orphans, s)
				fmt.Fprintf(&text, "%7d  %s  %s\n", s.PID, printable.Size(s.Memory), g.Command)
			}
		}
	}
	if len(orphans) == 0 {
		fmt.Fprintln(env.Err, "there are no orphans")
		return nil
	}
	if !yes {
		switch err := env.Ask(ctx, text.String(), fmt.Sprintf("End %s?", cli.Plural(len(orphans), "orphan"))); {
		case errors.Is(err, cli.ErrNoTerminal):
			return cli.UsageHint("use --yes to end them without asking", "--kill-orphans asks for confirmation, but there is no terminal")
		case errors.Is(err, cli.ErrDeclined):
			return &cli.Failure{Exit: cli.ExitFailed, Code: "declined", Err: errors.New("no process was ended")}
		case err != nil:
			return err
		}
	}
	var failed error
	freed, ended := int64(0), 0
	for i := range orphans {
		if err := orphans[i].End(ctx, killGrace); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		ended++
		freed += orphans[i].Memory
	}
	fmt.Fprintf(env.Err, "%s ended, %s freed\n", cli.Plural(ended, "orphan"), printable.Size(freed))
	return failed
}
