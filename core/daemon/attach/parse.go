package attach

import (
	"errors"
	"strconv"
	"strings"
)

// What a command line may ask for instead of serving.
var (
	ErrHelp    = errors.New("help")
	ErrVersion = errors.New("version")
)

// Parse returns the options from the command line of mcptrack-attach. Flags may follow the server, as in
// mcptrack.
func Parse(args []string, getenv func(string) string) (opts Options, err error) {
	flags := true
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if !flags || !strings.HasPrefix(arg, "-") || arg == "-" {
			if opts.Server != "" {
				return opts, errors.New("there is more than one SERVER")
			}
			if arg == "" {
				return opts, errors.New("the SERVER is empty")
			}
			opts.Server = arg
			continue
		}
		name, value, given := strings.Cut(arg, "=")
		switch name {
		case "--":
			flags = false
		case "-h", "--help":
			return opts, ErrHelp
		case "--approved":
			if given {
				return opts, errors.New("--approved takes no value")
			}
			opts.Approved = true
		case "--version":
			return opts, ErrVersion
		case "--config", "--host":
			if !given && len(args) > 0 {
				value, args = args[0], args[1:]
			}
			if value == "" {
				return opts, errors.New(name + " needs a value")
			}
			if name == "--config" {
				opts.Config = value
			} else {
				opts.Host = value
			}
		default:
			return opts, errors.New("unknown flag " + strconv.Quote(name))
		}
	}
	if opts.Config != "" && opts.Host != "" {
		return opts, errors.New("--host and --config cannot be used together")
	}
	if opts.Config == "" && opts.Host == "" {
		opts.Config = getenv("MCPTRACK_CONFIG")
	}
	return opts, nil
}
