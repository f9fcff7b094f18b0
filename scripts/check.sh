#!/usr/bin/env bash
# Every check of the project, the one command that CI runs. It installs what it needs,
# stops at the first step that fails, names that step, and ends with the results of the
# tests. Two sequences of steps run side by side; the output of the second follows when both are done.
# usage: scripts/check.sh [-short | -race]
# -short checks the code and runs the short tests. It installs only Go tools, so it needs
# neither root nor npm nor a browser. -race runs every test with the race detector, also
# those that start the program.
# MCPTRACK_VULNDB=DIR looks vulnerabilities up in an offline copy; see scripts/vulns.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

short=
race=
case ${1-} in
'') ;;
-short | --short) short=-short ;;
-race | --race) race=-race ;;
*)
	echo "usage: scripts/check.sh [-short | -race]" >&2
	exit 2
	;;
esac

# Compilers and analysers use more memory, and an eighth to a fifth less time. Tests run without.
export GOGC=300
# Nobody debugs what is compiled here. Without what a debugger needs, compilers use a seventh less time.
GOFLAGS="$(go env GOFLAGS) -gcflags=all=-dwarf=false"
export GOFLAGS

bin=$PWD/.cache/bin
tmp=$(mktemp -d)
step=start
lane=

failed() {
	local rc=$?
	if ((rc != 0)); then
		if [[ -n $lane ]]; then
			kill -- "-$lane" 2>/dev/null || true
			wait "$lane" || true
		fi
		echo "check.sh: step \"$step\" failed" >&2
	fi
	rm -rf "$tmp"
}
trap failed EXIT
trap 'exit 130' INT TERM

# Sets cpu to the seconds of processor time that the programs of this sequence have used.
count() {
	local file=$tmp/times.$BASHPID
	times >"$file" # not in a subshell, whose times begin at zero
	cpu=$(awk -F '[ms ]+' 'END { printf "%d", $1 * 60 + $2 + $3 * 60 + $4 }' "$file")
}

run() {
	step=$1
	local began=$SECONDS before cpu
	count
	before=$cpu
	printf '== %s\n' "$step"
	shift
	"$@" # not in a condition, which would switch off set -e within
	count
	printf -- '-- %s: %ds, %ds of processor time\n' "$step" $((SECONDS - began)) $((cpu - before))
}

# Runs a function in the background, in a process group of its own that the end of this
# script ends too.
beside() {
	set -m
	(
		trap - INT TERM
		trap 'if (($? != 0)); then echo "$step" >"$tmp/failed"; fi' EXIT
		"$@"
	) >"$tmp/lane" 2>&1 &
	lane=$!
	set +m
}

# Waits for what runs beside, and shows what it printed.
joined() {
	local rc=0
	wait "$lane" || rc=$?
	lane=
	cat "$tmp/lane"
	if ((rc != 0)); then step=$(<"$tmp/failed"); fi
	return $rc
}

# Programs that tests use as people do: editors that save, jq in a pipe, a browser, shells
# that complete, a Prometheus that scrapes.
missing=()
needed() {
	local name
	for name in git jq vim curl chromium fish zsh tmux prometheus shellcheck; do command -v "$name" >/dev/null || missing+=("$name"); done
	[[ -e /usr/share/bash-completion/bash_completion ]] || missing+=(bash-completion)
	if ((${#missing[@]} > 0)) && { ! command -v apt-get >/dev/null || [[ $(id -u) != 0 ]]; }; then
		echo "install ${missing[*]} first"
		return 1
	fi
}

programs() {
	((${#missing[@]} == 0)) && return
	apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# The tests find nats-server in the cache of the go command.
server() {
	go tool -modfile=scripts/tools.mod -n nats-server >/dev/null
	mkdir -p "$bin"
	go build -modfile=scripts/tools.mod -o "$bin/" gotest.tools/gotestsum
}

# Most tests run with the race detector. SQLite, which is translated from C, runs without: the
# detector ignores the memory that it uses, and makes it several times slower.
detector=(-race '-gcflags=modernc.org/sqlite/lib=-race=false -dwarf=false')

# Runs a command that checks code as it is compiled for the tests, so that the packages and their
# tests are compiled only once.
as_tested() {
	if [[ -n $short ]]; then "$@"; else GOFLAGS="$GOFLAGS$(printf " '%s'" "${detector[@]}")" "$@"; fi
}

# Fails with a message if the text given is not empty.
nothing() {
	[[ -z $2 ]] && return
	printf '%s\n%s\n' "$1" "$2"
	return 1
}

format() {
	local file
	nothing 'not formatted, run gofmt -w:' "$(gofmt -l cmd commands core output scripts)"
	for file in scripts/*.sh .github/actions/*/*.sh .github/packaging/*.sh .ci/run; do bash -n "$file"; done
	# A lockfile that names where packages came from ties everybody to that place.
	nothing 'package-lock.json has resolved addresses, see .npmrc beside it:' \
		"$(grep -n '"resolved"' testdata/peers/package-lock.json testdata/npm/package-lock.json scripts/bench/servers/package-lock.json scripts/bench/drift/package-lock.json || true)"
}

modules() {
	go mod tidy -diff
	for module in bench release lint; do (cd "scripts/$module" && go mod tidy -diff); done
}

# Runs a check of the code in each module. bench and docs contain tests or the program's packages too.
each_module() {
	as_tested "$@"
	for module in bench docs; do (cd "scripts/$module" && as_tested "$@"); done
	for module in release lint; do (cd "scripts/$module" && "$@"); done
}

# What go vet, go fix and staticcheck find. It compiles all packages as the tests need them.
lint() {
	mkdir -p "$bin"
	go build -C scripts/lint -o "$bin/lint" .
	each_module "$bin/lint" ./...
	(cd scripts/bench && go test ./... && go build -o "$tmp/" ./...)
}

# It says which files of other systems do not compile.
portable() {
	go run ./scripts/portable windows darwin
}

generated() {
	bash scripts/completions.sh "$tmp/completions"
	diff -ru completions "$tmp/completions" || {
		echo 'completions/ is not what the program generates, run scripts/completions.sh'
		return 1
	}
	bash scripts/man.sh "$tmp/man"
	[[ -s $tmp/man/mcptrack-watch.1 && -s $tmp/man/mcptrack-events.7 ]]
}

# The published Claude Code checks the marketplace and the plugin. It needs neither network
# nor login; its install script, which npm did not run, would only link the program.
plugin() {
	local dir
	for dir in . .claude-plugin/mcptrack; do
		HOME=$tmp CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 \
			node testdata/peers/node_modules/@anthropic-ai/claude-code/cli-wrapper.cjs plugin validate --strict "$dir"
	done
}

# A database that cannot be reached says nothing about our code: the last line of all says
# that this was not checked.
vulnerabilities() {
	local rc=0
	bash scripts/vulns.sh || rc=$?
	if ((rc == 4)); then
		echo 'warning: the vulnerability database could not be reached; not checked for vulnerabilities' >"$tmp/unchecked"
		return
	fi
	return $rc
}

# Peers and programs were installed above: a test that misses one fails. The tests of
# cmd/mcptrack run the program itself, in every process they start: 321 s with the race
# detector on two cores, 95 to 140 s without. So they run without it, except those
# in which the program runs long and concurrently. -race runs all with it. In other packages, long
# tests that use one goroutine do less with it, so these tests run without it, too.
# lint contains go vet; go test does not repeat it. A busy machine needs more than go test's 10 minutes.
flags=(-shuffle=on -vet=off -timeout=25m -exec 'env -u GOGC')
# The race detector of each process waits 1 s at its end for races of what still runs.
export GORACE=atexit_sleep_ms=50

# Runs go test, and remembers how long each test took.
# usage: gotest NAME FLAG|PACKAGE...
gotest() {
	local name=$1
	shift
	CI=true "$bin/gotestsum" --format standard-quiet --hide-summary skipped --jsonfile-timing-events "$tmp/$name.json" -- "${flags[@]}" "$@"
}

program() {
	local rc=0 # all of them, also after a failure
	local long='^TestScript$/^(watch|subscribe|gateway|inject|vault|serve)$'
	gotest program -parallel 6 -skip "$long" ./cmd/mcptrack ./core/journal/sqlitelog || rc=1
	gotest table -run '^TestLockTable$' ./core/gateway || rc=1
	CI=true go test "${flags[@]}" -parallel 6 -short ./core/config || rc=1
	CI=true go test "${flags[@]}" -exec env -run '^(TestHostileRepository|TestInvalidFlagValues)$' ./commands || rc=1
	gotest scripts -parallel 6 "${detector[@]}" -run "$long" ./cmd/mcptrack || rc=1
	return $rc
}

# The tests of all packages but cmd/mcptrack, and with -race of cmd/mcptrack too. They begin when the second
# sequence has installed what they need. The second sequence continues if they fail.
tests() {
	local packages rc=0
	while [[ ! -e $tmp/installed ]]; do
		if ! kill -0 "$lane" 2>/dev/null; then joined; fi
		sleep 0.5
	done
	mapfile -t packages < <(go list ./... | if [[ -n $race ]]; then cat; else grep -vx "$(go list -m)/cmd/mcptrack"; fi)
	gotest packages -parallel 8 "${detector[@]}" "${packages[@]}" 2>&1 | tee "$tmp/test" || rc=1
	joined || rc=1
	echo 'slowest tests:'
	cat "$tmp"/*.json | "$bin/gotestsum" tool slowest --threshold 1s --num 20
	return $rc
}

# Plants defects in copies of the tracker, one at a time, and wants its tests to notice.
mutants() {
	go run ./scripts/mutants
}

# The second sequence: what waits for the network, the tests that start the program, and what starts
# programs that are small.
others() {
	if [[ -z $short ]]; then
		run programs programs
		run peers bash scripts/peers.sh
		run plugin plugin
		run server server
		touch "$tmp/installed"
	fi
	run generated generated # compiles what cmd/mcptrack consists of
	[[ -n $short || -n $race ]] || run program program
	run workflows bash scripts/workflows.sh
	run mutants mutants
	[[ -n $short ]] || run vulnerabilities vulnerabilities
}

[[ -n $short ]] || run needed needed
beside others
run format format
run modules modules
run lint lint
run portable portable
if [[ -n $short ]]; then
	joined
	run test env -u GOGC bash scripts/test.sh
	echo "all steps: ${SECONDS}s"
	exit
fi
run test tests

passed=$(cat "$tmp/test" "$tmp/lane" | grep -c '^ok' || true)
if ((passed == 0)); then
	echo 'no package had a test'
	exit 1
fi
printf 'all steps: %ds\npackages: %d passed, 0 failed\n' "$SECONDS" "$passed"
[[ ! -e $tmp/unchecked ]] || cat "$tmp/unchecked"
