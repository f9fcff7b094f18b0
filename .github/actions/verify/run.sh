#!/usr/bin/env bash
# Runs mcptrack verify, or with UPDATE=true mcptrack lock --update, and writes the outputs of the
# action. Changes (7) and servers that cannot be reached (4) do not fail here: the comment and the
# upload come first, then result.sh.
set -euo pipefail

usage() {
	echo "::error title=mcptrack verify::$1"
	exit 2
}

for flag in "$SARIF" "$UPDATE"; do
	[[ $flag == true || $flag == false ]] || usage 'The inputs sarif and update are true or false.'
done

program=$RUNNER_TEMP/mcptrack-bin/mcptrack
folder=$(mktemp -d "$RUNNER_TEMP/mcptrack.XXXXXX")
flags=()
[[ -z $CONFIG ]] || flags+=(--config "$CONFIG")
[[ -z $LOCK ]] || flags+=(--lock "$LOCK")
servers=()
# shellcheck disable=SC2153 # an input
read -r -d '' -a servers <<<"$SERVERS" || true # it fails at the end of the text

# Runs mcptrack, and keeps its exit code in code. The runner obeys commands in what is printed, also
# by servers, unless it was told to stop. Everything goes to stderr, since the order
# of two streams is not certain.
code=0
mcptrack() {
	local rc=0 token
	token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
	echo "::stop-commands::$token" >&2
	"$program" "$@" || rc=$?
	echo "::$token::" >&2
	case $rc in
	0 | 4 | 7) code=$rc ;;
	*)
		echo "::error title=mcptrack verify::mcptrack $1 failed with exit code $rc; the log says why." >&2
		exit "$rc"
		;;
	esac
}

output() { printf '%s=%s\n' "$1" "$2" >>"$GITHUB_OUTPUT"; }

# The subject tells the comments and uploads of several uses of this action apart.
subject=$(printf '%s\n' "$CONFIG" "$LOCK" "$SERVERS" | cksum)
output subject "${subject%% *}"
output markdown "$folder/changes.md"

if [[ $UPDATE == true ]]; then
	lock=$LOCK
	if [[ -z $lock ]]; then
		[[ -n $CONFIG ]] || usage 'With update, the input config or lock is needed.'
		lock=$(dirname "$CONFIG")/mcptrack.lock
	fi
	[[ -f $lock ]] || usage "There is no $lock: run mcptrack lock, and commit it."
	cp "$lock" "$folder/old.lock"
	mcptrack lock --update ${flags[@]+"${flags[@]}"} -- ${servers[@]+"${servers[@]}"} >&2
	case $code in
	4) echo '::warning title=mcptrack lock::Some servers could not be reached. Their part of the lock is as before.' ;;
	7) echo '::warning title=mcptrack lock::Some changes were not taken over, because they were rejected or cannot be approved.' ;;
	esac
	changed=false
	if ! cmp -s "$folder/old.lock" "$lock"; then
		changed=true
		mcptrack verify --lock "$lock" --against "$folder/old.lock" -o markdown >"$folder/changes.md"
		cat "$folder/changes.md" >>"$GITHUB_STEP_SUMMARY"
	fi
	rm "$folder/old.lock"
	cp "$lock" "$folder/mcptrack.lock"
	output changed "$changed"
	output folder "$folder"
	exit
fi

[[ -z $FAIL_ON ]] || flags+=(--fail-on "$FAIL_ON")
if [[ $SARIF == true ]]; then
	if [[ -n $PULL_REQUEST && $HEAD_REPOSITORY != "$GITHUB_REPOSITORY" ]]; then
		echo '::notice title=mcptrack verify::Nothing is uploaded to code scanning for the pull request of a fork; see the summary of this job.'
	else
		flags+=(-o "sarif=$folder/verify.sarif")
		output sarif "$folder/verify.sarif"
	fi
fi
mcptrack verify -o markdown ${flags[@]+"${flags[@]}"} -- ${servers[@]+"${servers[@]}"} >"$folder/changes.md"
cat "$folder/changes.md" >>"$GITHUB_STEP_SUMMARY"
output exit-code "$code"
if ((code == 7)); then output changed true; else output changed false; fi
