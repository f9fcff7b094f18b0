package commands

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/trust"
	"github.com/mcptrack/mcptrack/output/table"
)

type trustOptions struct {
	dir               string
	yes, list, revoke bool
}

func newTrust(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts trustOptions
	cmd := &cobra.Command{
		Use:         "trust [DIR]",
		Short:       "Approve what the config of a folder runs and sends",
		Annotations: cli.ManualPage("trust"),
		Example: `  mcptrack trust
  mcptrack trust ~/src/project --yes
  mcptrack trust --host cursor
  mcptrack trust --list
  mcptrack trust --revoke ~/src/project`,
		Args: cli.Args(0, 1),
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
				return cli.Usage("--yes, --list and --revoke cannot be used together")
			case opts.list && len(args) > 0:
				return cli.Usage("--list does not accept a folder; it lists all folders")
			case cmd.Flags().Changed("config"):
				return cli.UsageHint("a config that you specify needs no approval", "trust does not use --config")
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
	cli.MainFlags(cmd, "yes", "list", "revoke")
	return cmd
}

// trustReport is the document that trust --json prints.
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

func runTrust(ctx context.Context, env *cli.Env, g *cli.Globals, opts trustOptions) error {
	log := g.Logger(env)
	folder, err := filepath.Abs(opts.dir)
	if err != nil {
		return err
	}
	g.Workspace, g.Config = folder, "" // a config from MCPTRACK_CONFIG needs no approval
	path, err := g.FindConfig(env)
	if err != nil {
		return err
	}
	c, err := g.Permission(env, path)
	if err != nil {
		return err
	}
	if !c.Needed {
		return &cli.Failure{Exit: cli.ExitConfig, Code: "config_missing", Err: fmt.Errorf("%s has no config; %s is your own and needs no approval",
			printable.Line(folder, 200), printable.Line(path, 200))}
	}
	cfg, err := c.Read(log, false)
	if err != nil {
		return err
	}
	all, pending := cli.Entries(cfg), c.Pending(cfg, log)
	if len(pending) > 0 {
		if !opts.yes {
			switch err := c.Question(ctx, cfg.Path, pending, "Allow this as long as it stays the same?"); {
			case errors.Is(err, cli.ErrNoTerminal):
				return cli.UsageHint("use --yes to approve it without asking", "trust asks for confirmation, but there is no terminal")
			case errors.Is(err, cli.ErrDeclined):
				return &cli.Failure{Exit: cli.ExitFailed, Code: "declined", Err: errors.New("nothing was approved")}
			case err != nil:
				return err
			}
		}
		if err := c.Approve(pending); err != nil {
			return storeFailure(err)
		}
	}
	report := trustReport{Folder: folder, File: cfg.Path, Approved: []trustedItem{}}
	var lines strings.Builder
	for _, e := range all {
		report.Approved = append(report.Approved, trustedItem{Kind: e.Kind, Name: e.Name, Digest: e.Intent.Digest})
		lines.WriteString("\n  " + printable.Line(e.Summary(), 0))
	}
	word := "approved"
	switch {
	case len(all) == 0:
		word = "nothing to approve"
	case len(pending) == 0:
		word = "already approved"
	}
	return g.Print(env, table.Output{Document: report, Names: []string{folder},
		Parts: []table.Part{table.Text("%s: %s%s", printable.Line(cfg.Path, 0), word, lines.String())}})
}

func storeFailure(err error) error {
	if errors.Is(err, trust.ErrNoStore) {
		return &cli.Failure{Exit: cli.ExitFailed, Code: "failed", Err: err, Hint: "set HOME or XDG_STATE_HOME, or use --trust for one run"}
	}
	return err
}

func runTrustList(env *cli.Env, g *cli.Globals) error {
	folders, err := env.Approvals().List()
	if err != nil {
		return err
	}
	type folder struct {
		Folder   string        `json:"folder"`
		Approved []trustedItem `json:"approved"`
	}
	doc := []folder{}
	for _, f := range folders {
		of := folder{f.Path, []trustedItem{}}
		for _, a := range f.Approvals {
			of.Approved = append(of.Approved, trustedItem{a.Kind, a.Name, a.Digest, cli.Stamp(a.At)})
		}
		doc = append(doc, of)
	}
	return g.Print(env, table.Output{Parts: []table.Part{table.Records(doc, func(f folder) []string {
		var names []string
		last := ""
		for _, a := range f.Approved {
			names, last = append(names, a.Name), a.At
		}
		return []string{f.Folder, cli.Join(names, 8), env.TimeOf(last)}
	}, "Folder", "Approved", "Last").Or("no folder has approvals")}})
}

func runTrustRevoke(env *cli.Env, g *cli.Globals, opts trustOptions) error {
	folder, err := filepath.Abs(opts.dir)
	if err != nil {
		return err
	}
	revoked, err := env.Approvals().Revoke(folder)
	if err != nil {
		return err
	}
	doc := struct {
		Folder  string `json:"folder"`
		Revoked bool   `json:"revoked"` // false if there was no approval
	}{folder, revoked}
	what := "approvals revoked; running commands continue"
	if !revoked {
		what = "there was no approval"
	}
	return g.Print(env, table.Output{Document: doc, Names: []string{folder}, Parts: []table.Part{table.Text("%s: %s", printable.Line(folder, 0), what)}})
}
