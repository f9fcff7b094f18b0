#!/usr/bin/env bash
# Every check of the project, the one command that CI runs. The first half needs only Go: the small
# tests, and with -short what reads the code. The second half runs the tests with real programs, whose names begin with
# TestReal; what they need is installed while the first half runs, and what reads the code runs beside them.
# It stops at the first step that fails, and names the step.
# usage: scripts/check.sh [-short | -race]
# -short runs the first half only. -race runs the small tests of the packages where goroutines share
# state with the race detector, and nothing else. .github/workflows/nightly.yml runs what takes longer.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022 # mcptrack refuses what others may write, also in the temporary folders of tests

case ${1-} in
'' | -short | -race) mode=${1-} ;;
*)
	echo "usage: scripts/check.sh [-short | -race]" >&2
	exit 2
	;;
esac

# Compilers and analysers use more memory, and a fifth less time. Tests run without.
export GOGC=300

bin=$PWD/.cache/bin
tmp=$(mktemp -d)
step=start
lanes=()

failed() {
	local rc=$?
	if ((rc != 0)); then
		for lane in "${lanes[@]}"; do kill -- "-$lane" 2>/dev/null || true; done
		echo "check.sh: step \"$step\" failed" >&2
	fi
	rm -rf "$tmp"
}
trap failed EXIT
trap 'exit 130' INT TERM

# Sets cpu to the seconds of processor time that the programs of this script have used.
count() {
	times >"$tmp/times" # not in a subshell, whose times begin at zero
	cpu=$(awk -F '[ms ]+' 'END { printf "%d", $1 * 60 + $2 + $3 * 60 + $4 }' "$tmp/times")
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

# Runs a function in the background, in a process group of its own, which the end of this script ends too.
# usage: beside NAME
beside() {
	set -m
	"$1" >"$tmp/$1" 2>&1 &
	lanes+=("$!")
	set +m
}

# Waits for the oldest function that runs beside, and prints what it printed.
# usage: joined NAME
joined() {
	local rc=0
	wait "${lanes[0]}" || rc=$?
	lanes=("${lanes[@]:1}")
	cat "$tmp/$1"
	return $rc
}

# Fails with a message if the text given is not empty.
nothing() {
	[[ -z $2 ]] && return
	printf '%s\n%s\n' "$1" "$2"
	return 1
}

# A machine that is busy needs more than go test's 10 minutes. lint contains go vet. As tests often wait, more
# packages than there are cores are tested at the same time.
tests() {
	go test -short -shuffle=on -vet=off -timeout=25m -p $((2 * $(getconf _NPROCESSORS_ONLN))) -parallel 8 -exec 'env -u GOGC' "$@" | grep -v '\[no test files\]\|\[no tests to run\]'
}

format() {
	local file
	nothing 'not formatted, run gofmt -w:' "$(gofmt -l cmd commands core output scripts)"
	for file in scripts/*.sh .github/actions/*/*.sh .github/packaging/*.sh .ci/run; do bash -n "$file"; done
	# A lockfile that names where packages came from ties everybody to that place.
	nothing 'package-lock.json has resolved addresses, see .npmrc beside it:' "$(git grep -n '"resolved"' -- '*package-lock.json' || true)"
}

modules() {
	local file
	for file in $(git ls-files '*go.mod'); do (cd "$(dirname "$file")" && go mod tidy -diff); done
}

# What go vet, go fix and staticcheck find in each module. The packages were compiled for the tests.
lint() {
	local file
	mkdir -p "$bin"
	go build -C scripts/lint -o "$bin/lint" .
	for file in $(git ls-files '*go.mod'); do (cd "$(dirname "$file")" && "$bin/lint" ./...); done
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

# Installs what the tests with real programs need, and writes what is still missing.
install() { bash scripts/programs.sh >"$tmp/missing"; }

# On a machine where something cannot be installed, the tests that need it are left out. CI has no such machine.
real() {
	local missing
	mapfile -t missing < <(grep . "$tmp/missing" || true)
	((${#missing[@]})) || export CI=true
	# shellcheck disable=SC2046 # folders without spaces
	tests -run '^TestReal' $(git grep -l '^func TestReal' -- '*_test.go' | sed 's|^|./|; s|/[^/]*$||' | sort -u)
	((${#missing[@]} == 0)) || left="left out: tests with ${missing[*]}; install them, and run this again"
}

if [[ $mode == -race ]]; then
	# The race detector waits 1 s at the end of each process for races of what still runs.
	export GORACE=atexit_sleep_ms=50
	run race tests -race -skip '^TestReal' ./core/{tracker,session,engine,gateway,mcpserver,daemon}/... ./core/journal ./output/{feed,webhook}/...
	echo "all steps: ${SECONDS}s"
	exit
fi

left=
[[ $mode == -short ]] || beside install
run format format
run test tests -skip '^TestReal' ./...
if [[ $mode == -short ]]; then
	run lint lint
else
	beside lint
	run install joined install
	run real real
	run workflows bash scripts/workflows.sh
	run lint joined lint
fi
run modules modules
run generated generated
echo "all steps: ${SECONDS}s"
[[ -z $left ]] || echo "$left"
