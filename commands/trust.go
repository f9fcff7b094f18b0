package commands

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/trust"
	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/table"
)

type trustOptions struct {
	dir               string
	yes, list, revoke bool
}

func newTrust(env *Env, g *globals) *cobra.Command {
	var opts trustOptions
	cmd := &cobra.Command{
		Use:         "trust [DIR]",
		Short:       "Approve what the config of a folder runs and sends",
		Annotations: manualPage("trust"),
		Example: `  mcptrack trust
  mcptrack trust ~/src/project --yes
  mcptrack trust --host cursor
  mcptrack trust --list
  mcptrack trust --revoke ~/src/project`,
		Args: arguments(0, 1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.dir = "."
			if len(args) == 1 {
				opts.dir = args[0]
			}
			switch {
			case opts.list && opts.revoke, opts.yes && (opts.list || opts.revoke):
				return usage("--yes, --list and --revoke cannot be used together")
			case opts.list && len(args) > 0:
				return usage("--list takes no folder; it lists all of them")
			case cmd.Flags().Changed("config"):
				return usageHint("a config that you name needs no approval", "trust does not use --config")
			case opts.list:
				return runTrustList(env, g)
			case opts.revoke:
				return runTrustRevoke(env, g, opts)
			}
			return runTrust(cmd.Context(), env, g, opts)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&opts.yes, "yes", false, "do not ask")
	f.BoolVar(&opts.list, "list", false, "list the folders with approvals")
	f.BoolVar(&opts.revoke, "revoke", false, "forget the approvals of the folder")
	return cmd
}

// trustReport is what trust --json prints.
type trustReport struct {
	Folder   string        `json:"folder"`
	File     string        `json:"file"`
	Approved []trustedItem `json:"approved"`
}

type trustedItem struct {
	Kind   trust.Kind `json:"kind"`
	Name   string     `json:"name"`
	Digest string     `json:"digest"`
	At     string     `json:"approvedAt,omitempty"`
}

func runTrust(ctx context.Context, env *Env, g *globals, opts trustOptions) error {
	log := g.logger(env)
	folder, err := filepath.Abs(opts.dir)
	if err != nil {
		return err
	}
	g.workspace, g.config = folder, "" // MCPTRACK_CONFIG needs no approval
	path, err := g.found(env)
	if err != nil {
		return err
	}
	c, err := g.permission(env, path)
	if err != nil {
		return err
	}
	if !c.found {
		return &failure{exit: exitConfig, code: "config_missing", err: fmt.Errorf("%s has no config; %s is your own and needs no approval",
			printable.Line(folder, 200), printable.Line(path, 200))}
	}
	cfg, err := c.read(log, false)
	if err != nil {
		return err
	}
	all, pending := entries(cfg), c.pending(cfg, log)
	if len(pending) > 0 {
		if !opts.yes {
			switch err := c.question(ctx, cfg.Path, pending, "Allow this as long as it stays the same?"); {
			case errors.Is(err, errNoTerminal):
				return usageHint("--yes approves it without asking", "trust asks for confirmation, but there is no terminal")
			case errors.Is(err, errDeclined):
				return &failure{exit: exitFailed, code: "declined", err: errors.New("nothing was approved")}
			case err != nil:
				return err
			}
		}
		if err := c.approve(pending); err != nil {
			return storeFailure(err)
		}
	}
	if g.format.Name == "name" {
		_, err = fmt.Fprintln(env.Out, printable.Line(folder, 0))
		return err
	}
	if !g.format.Table() {
		report := trustReport{Folder: folder, File: cfg.Path, Approved: []trustedItem{}}
		for _, e := range all {
			report.Approved = append(report.Approved, trustedItem{Kind: e.kind, Name: e.name, Digest: e.intent.Digest})
		}
		return document.Write(env.Out, g.format, report)
	}
	var lines []string
	for _, e := range all {
		lines = append(lines, "  "+printable.Line(e.summary(), 0)+"\n")
	}
	word := "approved"
	if len(pending) == 0 {
		word = "nothing to approve"
		if len(all) > 0 {
			word = "approved already"
		}
	}
	_, err = fmt.Fprintf(env.Out, "%s: %s\n%s", printable.Line(cfg.Path, 0), word, strings.Join(lines, ""))
	return err
}

func storeFailure(err error) error {
	if errors.Is(err, trust.ErrNoStore) {
		return &failure{exit: exitFailed, code: "failed", err: err, hint: "set HOME or XDG_STATE_HOME, or use --trust for one run"}
	}
	return err
}

func runTrustList(env *Env, g *globals) error {
	folders, err := env.approvals().List()
	if err != nil {
		return err
	}
	if g.format.Name == "name" {
		for _, f := range folders {
			if _, err := fmt.Fprintln(env.Out, printable.Line(f.Path, 0)); err != nil {
				return err
			}
		}
		return nil
	}
	if !g.format.Table() {
		type folder struct {
			Folder   string        `json:"folder"`
			Approved []trustedItem `json:"approved"`
		}
		rows := []folder{}
		for _, f := range folders {
			row := folder{Folder: f.Path, Approved: []trustedItem{}}
			for _, a := range f.Approvals {
				row.Approved = append(row.Approved, trustedItem{a.Kind, a.Name, a.Digest, stamp(a.At)})
			}
			rows = append(rows, row)
		}
		return document.Write(env.Out, g.format, rows)
	}
	var rows [][]string
	for _, f := range folders {
		var names []string
		var last string
		for _, a := range f.Approvals {
			names, last = append(names, a.Name), localTime(a.At)
		}
		rows = append(rows, []string{f.Path, join(names, 8), last})
	}
	return table.Rows(env.Out, []string{"Folder", "Approved", "Last"}, rows)
}

func runTrustRevoke(env *Env, g *globals, opts trustOptions) error {
	folder, err := filepath.Abs(opts.dir)
	if err != nil {
		return err
	}
	revoked, err := env.approvals().Revoke(folder)
	if err != nil {
		return err
	}
	if g.format.Name == "name" {
		_, err = fmt.Fprintln(env.Out, printable.Line(folder, 0))
		return err
	}
	if !g.format.Table() {
		return document.Write(env.Out, g.format, struct {
			Folder  string `json:"folder"`
			Revoked bool   `json:"revoked"` // false: there was no approval
		}{folder, revoked})
	}
	what := "approvals revoked; commands that are running are not stopped"
	if !revoked {
		what = "there was no approval"
	}
	_, err = fmt.Fprintf(env.Out, "%s: %s\n", printable.Line(folder, 0), what)
	return err
}
