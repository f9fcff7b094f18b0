// Package launcher parses the command lines of programs that start other programs: package runners
// (npx, npm exec, pnpm dlx, yarn dlx, bunx, uvx, uv run, pipx run), containers (docker run, podman
// run), interpreters (node, bun, deno, python) and shells.
//
// It only reads the arguments. It does not look at files and starts nothing. flags.go has the flags of
// each program. A flag that is not known there is parsed in the way that is more likely for its
// program: with a value for npx and docker, without one for all others. Time and memory are
// proportional to the length of the command line.
package launcher

import (
	"path"
	"slices"
	"strings"
)

// A Kind is what a command line starts.
type Kind int

// The kinds.
const (
	Program Kind = iota // a program of its own, or one that this package does not know
	NPM                 // a package of npm
	PyPI                // a Python package
	Image               // a container image
	File                // a script that an interpreter runs
	Module              // a Python module
	Remote              // a script at a URL, or a package of JSR
)

// A Command is a parsed command line.
type Command struct {
	Kind Kind
	// Tool is the program that starts the other one: npm (also for npx), pnpm, yarn, bun, uv, pipx,
	// docker, podman, node, deno, tsx, ts-node or python; empty for a program of its own.
	Tool string
	// Name is what is started, as written: the program, script, module or image, or the program of a
	// package; empty if the command line does not say.
	Name string
	// Packages are the specifications of the packages that the tool installs, as written, such as
	// "@scope/name@^1.2" or "name[extra]==1.0". The first one contains the program if the command
	// line does not say which one does.
	Packages []string
	// Args are the arguments of what is started.
	Args []string
	// Wraps means that the process that has this command line starts another one, and waits for it.
	Wraps bool
	// Flags are the flags of the tool.
	Flags []Flag
	// Script is the text that a shell runs, from which the other fields were parsed; empty without a
	// shell. The fields ignore the shell's grammar: they are wrong for more than one simple command.
	Script string
}

// A Flag is one flag of a tool with its value, which is empty if it has none.
type Flag struct{ Name, Value string }

// Value returns the value of the last of the flags with one of these names, or an empty string.
func (c *Command) Value(names ...string) string {
	for _, f := range slices.Backward(c.Flags) {
		if slices.Contains(names, f.Name) {
			return f.Value
		}
	}
	return ""
}

// Has reports whether one of these flags is set.
func (c *Command) Has(names ...string) bool {
	return slices.ContainsFunc(c.Flags, func(f Flag) bool { return slices.Contains(names, f.Name) })
}

// maxNested is how many programs that start each other are parsed, such as sh -c "env npx …".
const maxNested = 6

// Parse parses a command line: the program followed by its arguments.
func Parse(args []string) Command { return parse(args, maxNested) }

func parse(args []string, depth int) Command {
	if len(args) == 0 {
		return Command{}
	}
	plain := Command{Name: args[0], Args: args[1:]}
	if depth == 0 {
		return plain
	}
	name, rest := strings.ToLower(Base(args[0])), args[1:]
	first := ""
	if len(rest) > 0 {
		first = rest[0]
	}
	switch name {
	case "sh", "bash", "dash", "zsh":
		flags, operands := shellFlags().parse(rest)
		if len(operands) == 0 || !slices.ContainsFunc(flags, func(f Flag) bool { return f.Name == "-c" }) {
			return plain
		}
		return shell(operands[0], depth)
	case "cmd":
		for i, a := range rest {
			if strings.EqualFold(a, "/c") || strings.EqualFold(a, "/k") {
				return shell(strings.Join(rest[i+1:], " "), depth)
			}
		}
		return plain
	case "env":
		_, rest = envFlags().parse(rest)
		for len(rest) > 0 && strings.Contains(rest[0], "=") {
			rest = rest[1:]
		}
		return parse(rest, depth-1)
	case "npx":
		return node(packages("npm", npmFlags(), rest, "-p", "--package"), depth)
	case "pnpx":
		return node(packages("pnpm", pnpmFlags(), rest, "--package"), depth)
	case "bunx":
		return node(packages("bun", bunxFlags(), rest, "-p", "--package"), depth)
	case "uvx":
		return python(packages("uv", uvFlags(), rest, "--from"), depth)
	case "npm", "pnpm", "yarn":
		return jsManager(name, plain, depth)
	case "bun":
		if first == "x" {
			return node(packages("bun", bunxFlags(), rest[1:], "-p", "--package"), depth)
		}
		flags, operands := bunFlags().parse(rest)
		if len(operands) > 0 && operands[0] == "run" {
			more, inner := bunFlags().parse(operands[1:])
			flags, operands = append(flags, more...), inner
		}
		return script("bun", flags, operands, plain)
	case "uv":
		return uv(plain, depth)
	case "pipx":
		_, operands := pipxFlags().parse(rest)
		if len(operands) == 0 || operands[0] != "run" {
			return plain
		}
		c := packages("pipx", pipxFlags(), operands[1:], "--spec")
		if strings.HasSuffix(c.Name, ".py") {
			c.Kind, c.Packages = File, nil
		}
		return c
	case "docker", "podman":
		return container(name, plain)
	case "node", "nodejs", "tsx", "ts-node":
		flags, operands := nodeFlags().parse(rest)
		return script(strings.TrimSuffix(name, "js"), flags, operands, plain)
	case "deno":
		return deno(plain)
	}
	if isPython(name) {
		return interpreter(plain, depth)
	}
	return plain
}

// Base returns the name of a program without its folder and the suffixes of Windows. A login shell
// loses its leading hyphen.
func Base(file string) string {
	file = strings.TrimPrefix(file, "-")
	if i := strings.LastIndexAny(file, `/\`); i >= 0 && i < len(file)-1 {
		file = file[i+1:]
	}
	switch ext := path.Ext(file); strings.ToLower(ext) {
	case ".exe", ".cmd", ".bat", ".ps1":
		return strings.TrimSuffix(file, ext)
	}
	return file
}

func isPython(name string) bool {
	version := strings.TrimPrefix(strings.TrimPrefix(name, "python"), "pypy")
	return name == "py" || version != name && strings.Trim(version, "0123456789.") == ""
}

// shell parses the command that a shell runs.
func shell(text string, depth int) Command {
	c := parse(strings.Fields(text), depth-1)
	c.Wraps, c.Script = true, text
	return c
}

// packages parses the arguments of a program that installs packages and runs one of their programs.
// The flags named by from select packages other than the one with the name of the program.
func packages(tool string, g grammar, args []string, from ...string) Command {
	c := Command{Kind: NPM, Tool: tool, Wraps: true}
	if tool == "uv" || tool == "pipx" {
		c.Kind = PyPI
	}
	var operands []string
	c.Flags, operands = g.parse(args)
	for _, f := range c.Flags {
		if slices.Contains(from, f.Name) && f.Value != "" {
			c.Packages = append(c.Packages, f.Value)
		}
	}
	if call := c.Value("-c", "--call"); c.Kind == NPM && call != "" {
		operands = append(strings.Fields(call), operands...)
	}
	if len(operands) > 0 {
		c.Name, c.Args = operands[0], operands[1:]
		if len(c.Packages) == 0 {
			c.Packages = operands[:1]
		}
	}
	return c
}

// jsManager parses the arguments of npm, pnpm and yarn.
func jsManager(tool string, plain Command, depth int) Command {
	g, names := npmFlags(), []string{"--package"} // "-p" is "--parseable" for npm, but "--package" for npx
	switch tool {
	case "npm":
		g.bools = append(g.bools, "-p")
	case "pnpm":
		g = pnpmFlags()
	case "yarn":
		g, names = yarnFlags(), []string{"-p", "--package"}
	}
	_, operands := g.parse(plain.Args)
	before := plain.Args[:len(plain.Args)-len(operands)]
	switch {
	case len(operands) == 0:
		return plain
	case tool == "npm" && (operands[0] == "exec" || operands[0] == "x"):
		operands = npmExec(operands[1:])
	case tool != "npm" && operands[0] == "dlx":
		operands = operands[1:]
	default:
		return plain
	}
	return node(packages(tool, g, slices.Concat(before, operands), names...), depth)
}

// npmExec moves the flags of npm in front of the operands: npm accepts both, up to "--".
func npmExec(args []string) []string {
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	var flags, operands []string
	for i := 0; i < end; i++ {
		switch a := args[i]; {
		case a == "--package" || a == "-c" || a == "--call":
			flags = append(flags, a)
			if i++; i < end {
				flags = append(flags, args[i])
			}
		case strings.HasPrefix(a, "--package=") || strings.HasPrefix(a, "--call=") || a == "-y" || a == "--yes":
			flags = append(flags, a)
		default:
			operands = append(operands, a)
		}
	}
	operands = append(operands, args[min(end+1, len(args)):]...)
	return append(flags, operands...)
}

// node parses the script of an interpreter that a package contains: npx tsx server.ts.
func node(c Command, depth int) Command {
	if c.Name == "node" || c.Name == "tsx" || c.Name == "ts-node" {
		return within(c, depth)
	}
	return c
}

// python is like node, for uvx python and uv run python.
func python(c Command, depth int) Command {
	name, _, _ := strings.Cut(c.Name, "@")
	if !isPython(name) {
		return c
	}
	if len(c.Packages) == 1 && c.Packages[0] == c.Name {
		c.Packages = nil
	}
	c.Name = name
	return within(c, depth)
}

// within returns the command that the command c starts, with the packages and flags of c.
func within(c Command, depth int) Command {
	inner := parse(append([]string{c.Name}, c.Args...), depth-1)
	if inner.Kind == Program {
		return c
	}
	inner.Packages, inner.Flags, inner.Wraps = c.Packages, slices.Concat(c.Flags, inner.Flags), true
	return inner
}

// uv parses the arguments of uv: tool run, run.
func uv(plain Command, depth int) Command {
	flags, operands := uvFlags().parse(plain.Args)
	switch {
	case len(operands) > 1 && operands[0] == "tool" && (operands[1] == "run" || operands[1] == "uvx"):
		c := packages("uv", uvFlags(), operands[2:], "--from")
		c.Flags = append(flags, c.Flags...)
		return python(c, depth)
	case len(operands) > 0 && operands[0] == "run":
	default:
		return plain
	}
	c := Command{Tool: "uv", Wraps: true}
	g := uvFlags()
	g.values = append(g.values, "--extra", "--no-extra", "--group", "--no-group", "--only-group", "--package")
	more, operands := g.parse(operands[1:])
	c.Flags = append(flags, more...)
	if len(operands) == 0 {
		return c
	}
	c.Name, c.Args = operands[0], operands[1:]
	switch {
	case c.Has("-m", "--module"):
		c.Kind = Module
	case strings.Contains(c.Name, "://"):
		c.Kind = Remote
	case c.Has("-s", "--script", "--gui-script"), strings.HasSuffix(c.Name, ".py"), strings.HasSuffix(c.Name, ".pyw"):
		c.Kind = File
	default:
		return python(c, depth)
	}
	return c
}

// container parses the arguments of docker and podman.
func container(tool string, plain Command) Command {
	flags, operands := containerFlags().parse(plain.Args)
	if len(operands) > 0 && operands[0] == "container" {
		operands = operands[1:]
	}
	if len(operands) == 0 || operands[0] != "run" {
		return plain
	}
	more, operands := containerFlags().parse(operands[1:])
	c := Command{Kind: Image, Tool: tool, Flags: append(flags, more...), Wraps: true}
	if len(operands) > 0 {
		c.Name, c.Args = operands[0], operands[1:]
	}
	return c
}

// script parses the operands of an interpreter of JavaScript.
func script(tool string, flags []Flag, operands []string, plain Command) Command {
	c := Command{Kind: File, Tool: tool, Flags: flags}
	if len(operands) == 0 || operands[0] == "-" || c.Has("-e", "--eval", "-p", "--print", "-pe", "--run") {
		return plain
	}
	c.Name, c.Args = operands[0], operands[1:]
	return c
}

// deno parses the arguments of deno: run is optional.
func deno(plain Command) Command {
	flags, operands := denoFlags().parse(plain.Args)
	if len(operands) > 0 && (operands[0] == "run" || operands[0] == "serve" || operands[0] == "x") {
		more, inner := denoFlags().parse(operands[1:])
		flags, operands = append(flags, more...), inner
	} else if len(operands) > 0 && !strings.ContainsAny(operands[0], "./:") {
		return plain // another subcommand
	}
	c := script("deno", flags, operands, plain)
	if c.Kind != File {
		return c
	}
	switch scheme, rest, _ := strings.Cut(c.Name, ":"); scheme {
	case "npm":
		c.Kind, c.Packages = NPM, []string{withoutPath(strings.TrimPrefix(rest, "/"))}
	case "jsr", "http", "https", "data":
		c.Kind = Remote
	}
	return c
}

// withoutPath removes the path from a specifier of Deno: "@scope/name@1/bin" names a program of the
// package.
func withoutPath(spec string) string {
	from := 0
	if strings.HasPrefix(spec, "@") {
		from = strings.IndexByte(spec, '/') + 1
	}
	if i := strings.IndexByte(spec[from:], '/'); i >= 0 {
		return spec[:from+i]
	}
	return spec
}

// interpreter parses the arguments of Python. The flags -m and -c end its options.
func interpreter(plain Command, depth int) Command {
	c := Command{Kind: File, Tool: "python"}
	args := plain.Args
	for len(args) > 0 {
		a := args[0]
		if a == "-" || !strings.HasPrefix(a, "-") {
			break
		}
		args = args[1:]
		if strings.HasPrefix(a, "--") {
			if a == "--check-hash-based-pycs" && len(args) > 0 {
				args = args[1:]
			}
			continue
		}
		i := strings.IndexAny(a, "mcXW") // of a group of flags, such as -um
		if i < 0 {
			continue
		}
		value := a[i+1:]
		if value == "" && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		switch a[i] {
		case 'c':
			return plain
		case 'm':
			if value == "uv" || value == "pipx" {
				return parse(append([]string{value}, args...), depth-1)
			}
			c.Kind, c.Name, c.Args = Module, value, args
			return c
		}
	}
	if len(args) == 0 || args[0] == "-" {
		return plain
	}
	c.Name, c.Args = args[0], args[1:]
	return c
}
