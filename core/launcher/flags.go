package launcher

import (
	"slices"
	"strings"
)

// A grammar describes the flags of a program that precede its operands. Flags are written with
// their hyphens.
type grammar struct {
	// Either values lists the flags with a value, and all others have none, or bools lists the flags
	// without one.
	values, bools []string
	// groups means that "-it" is "-i -t", and that a value may follow its short flag: "-eNAME".
	groups bool
	// lenient means that a flag that lacks its value does not take the next flag as its value.
	lenient bool
}

// parse returns the flags, and the operands from the first one.
func (g grammar) parse(args []string) (flags []Flag, operands []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			return flags, args[i+1:]
		case a == "-" || !strings.HasPrefix(a, "-"):
			return flags, args[i:]
		}
		last := ""
		name, value, joined := strings.Cut(a, "=")
		switch {
		case g.groups && !strings.HasPrefix(a, "--"):
			for at := 1; at < len(a); at++ { // by bytes: short flags are ASCII
				short := "-" + a[at:at+1]
				if rest := a[at+1:]; g.takes(short) {
					if last = short; rest != "" {
						flags, last = append(flags, Flag{short, strings.TrimPrefix(rest, "=")}), ""
					}
					break
				} else if strings.HasPrefix(rest, "=") {
					flags = append(flags, Flag{short, rest[1:]})
					break
				}
				flags = append(flags, Flag{short, ""})
			}
		case joined:
			flags = append(flags, Flag{name, value})
		case g.takes(a):
			last = a
		default:
			flags = append(flags, Flag{a, ""})
		}
		if last == "" {
			continue
		}
		f := Flag{Name: last}
		if i+1 < len(args) && !(g.lenient && strings.HasPrefix(args[i+1], "-")) {
			i++
			f.Value = args[i]
		}
		flags = append(flags, f)
	}
	return flags, nil
}

// takes reports whether a flag has a value.
func (g grammar) takes(flag string) bool {
	if g.values != nil {
		return slices.Contains(g.values, flag)
	}
	return !slices.Contains(g.bools, flag) && !strings.HasPrefix(flag, "--no-")
}

func shellFlags() grammar {
	return grammar{values: []string{"-o", "-O", "--rcfile", "--init-file"}, groups: true}
}

func envFlags() grammar {
	return grammar{values: []string{"-u", "--unset", "-C", "--chdir"}, groups: true}
}

// npmFlags are the flags of npx. They include the shorthands of npm that stand for a flag with its value.
func npmFlags() grammar {
	return grammar{lenient: true, bools: strings.Fields(`-y --yes -n --no -q --quiet -s --silent -d -dd -ddd --verbose -v --version -h -H -? --help --usage
		-a --all -f --force -g --global -l --long -S --save -B -D -E -O -P --ws --workspaces --iwr --include-workspace-root --local --desc --porcelain --readonly
		--allow-same-version --audit --bin-links --browser --bypass-2fa --color --commit-hooks --dangerously-allow-all-scripts --description --dev
		--diff-ignore-all-space --diff-name-only --diff-no-prefix --diff-text --dry-run --engine-strict --expect-results --foreground-scripts
		--format-package-lock --fund --git-tag-version --global-style --if-present --ignore-scripts --include-staged --include-attestations --init-private
		--install-links --json --legacy-bundling --legacy-peer-deps --link --offline --omit-lockfile-registry-resolved --package-lock --package-lock-only
		--parseable --prefer-dedupe --prefer-offline --prefer-online --production --progress --provenance --proxy --read-only --rebuild-bundle --save-bundle
		--save-dev --save-exact --save-optional --save-peer --save-prod --shrinkwrap --sign-git-commit --sign-git-tag --strict-peer-deps
		--strict-allow-scripts --strict-ssl --timing --unicode --update-notifier --versions --workspaces-update
		--always-spawn --ignore-existing --shell-auto-fallback`)}
}

func pnpmFlags() grammar {
	return grammar{values: []string{
		"--package", "-C", "--dir", "--reporter", "--loglevel", "--filter", "-F", "--filter-prod", "--store-dir", "--cache-dir", "--virtual-store-dir", "--state-dir",
		"--registry", "--config", "--cpu", "--os", "--libc", "--network-concurrency", "--workspace-concurrency",
	}}
}

func yarnFlags() grammar { return grammar{values: []string{"-p", "--package", "--cwd"}} }

func bunxFlags() grammar { return grammar{values: []string{"-p", "--package"}} }

func bunFlags() grammar {
	return grammar{values: []string{
		"--cwd", "-c", "--config", "-r", "--preload", "--require", "--import", "--env-file", "-e", "--eval", "-p", "--print", "--tsconfig-override", "-d", "--define",
		"-l", "--loader", "--conditions", "--port", "--filter", "-F", "--shell", "--title", "--main-fields", "--extension-order", "--jsx-factory", "--jsx-fragment",
		"--jsx-import-source", "--jsx-runtime", "--user-agent", "--dns-result-order", "--unhandled-rejections", "--console-depth", "--install", "--elide-lines", "--drop",
	}}
}

// uvFlags are the flags of uvx and uv tool run, and of uv itself.
func uvFlags() grammar {
	return grammar{groups: true, values: []string{
		"--from", "--with", "-w", "--with-editable", "--with-requirements", "-c", "--constraint", "--constraints", "-b", "--build-constraint", "--build-constraints",
		"--override", "--overrides", "--env-file", "--index", "--default-index", "-i", "--index-url", "--extra-index-url", "-f", "--find-links",
		"-P", "--upgrade-package", "--upgrade-group", "--index-strategy", "--keyring-provider", "--resolution", "--prerelease", "--fork-strategy", "-C", "--config-setting",
		"--config-settings", "--config-settings-package", "--config-setting-package", "--no-build-isolation-package", "--exclude-newer", "--exclude-newer-package",
		"--link-mode", "--reinstall-package", "--refresh-package", "--no-build-package", "--no-binary-package", "--no-sources-package", "-p", "--python",
		"--python-platform", "--torch-backend", "--generate-shell-completion", "--color", "--directory", "--project", "--config-file", "--cache-dir",
		"--allow-insecure-host", "--trusted-host", "--python-preference", "--python-fetch", "--preview-features",
	}}
}

func pipxFlags() grammar {
	return grammar{groups: true, values: []string{"--spec", "--with", "--python", "--pip-args", "-i", "--index-url", "--backend", "--fetch-python"}}
}

// containerFlags are the flags of docker and podman, before and after "run".
func containerFlags() grammar {
	return grammar{groups: true, bools: strings.Fields(`-d --detach --disable-content-trust --help --init -i --interactive --no-healthcheck --oom-kill-disable
		--privileged -P --publish-all -q --quiet --read-only --rm --sig-proxy -t --tty --use-api-socket
		-D --debug --tls --tlsverify -r --remote --syslog --noout
		--env-host --http-proxy --passwd --replace --rmi --rootfs --read-only-tmpfs --tls-verify --unsetenv-all`)}
}

func nodeFlags() grammar {
	return grammar{values: []string{
		"-r", "--require", "--import", "--loader", "--experimental-loader", "--env-file", "--env-file-if-exists", "-e", "--eval", "-p", "--print", "-pe", "--run",
		"-C", "--conditions", "--title", "--icu-data-dir", "--openssl-config", "--trace-event-categories", "--trace-event-file-pattern", "--input-type",
		"--experimental-default-type", "--disable-warning", "--watch-path", "--dns-result-order", "--unhandled-rejections", "--tls-keylog", "--tls-cipher-list",
		"--diagnostic-dir", "--redirect-warnings", "--max-http-header-size", "--localstorage-file", "--experimental-config-file", "--heapsnapshot-signal",
		"--report-dir", "--report-directory", "--report-filename", "--report-signal", "--secure-heap", "--secure-heap-min", "--allow-fs-read", "--allow-fs-write",
		"--tsconfig",                                                                  // of tsx
		"-P", "--project", "-O", "--compiler-options", "-I", "--ignore", "--compiler", // of ts-node
	}}
}

func denoFlags() grammar {
	return grammar{values: []string{
		"-c", "--config", "--import-map", "-L", "--log-level", "--cert", "--location", "--seed", "--ext", "--preload", "--import", "--require", "--conditions",
		"--minimum-dependency-age", "--port", "--host", "--coverage-dir",
	}}
}
