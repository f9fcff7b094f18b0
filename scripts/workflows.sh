#!/usr/bin/env bash
# Checks the workflows, examples and actions under .github with actionlint, and the scripts of actions and packages
# with shellcheck if it is installed. actionlint checks only workflows, so this makes one of each
# action. It checks inputs only of actions in the same repository, so this makes the examples use them.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p .cache/bin
go build -modfile=scripts/tools.mod -o .cache/bin/ github.com/rhysd/actionlint/cmd/actionlint
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/.git" "$tmp/.github/workflows"
cp -R .github/actions "$tmp/.github/"

for file in .github/workflows/*.yml .github/examples/*.yml; do
	[[ ! -e $file ]] || sed 's|mcptrack/mcptrack/\(.github/actions/[a-z]*\)@main|./\1|' "$file" >"$tmp/.github/workflows/${file##*/}"
done
for file in .github/actions/*/action.yml; do
	name=${file%/action.yml}
	awk '
		/^[a-z]/ { section = $1 }
		/^name:/
		/^inputs:/ { print "on:\n  workflow_call:\n    inputs:"; next }
		section == "inputs:" { print "    " $0 }
		section == "inputs:" && /^  [a-z-]+:$/ { print "        type: string" }
		section == "runs:" && steps { print "  " $0 }
		section == "runs:" && /^  steps:$/ { steps = 1; print "jobs:\n  action:\n    runs-on: ubuntu-latest\n    steps:" }
	' "$file" >"$tmp/.github/workflows/action-${name##*/}.yml"
done
(cd "$tmp" && "$OLDPWD/.cache/bin/actionlint" -no-color)
if command -v shellcheck >/dev/null; then shellcheck .github/actions/*/*.sh .github/packaging/*.sh; fi
