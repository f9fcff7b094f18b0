#!/usr/bin/env bash
# Commits the new lock to a branch and opens a pull request for it, or updates the one that is open.
# It starts no server. The working directory is a checkout of the branch that the pull request is for,
# with credentials that push.
set -euo pipefail

for file in "$FROM/mcptrack.lock" "$FROM/changes.md" "$LOCK"; do
	if [[ ! -f $file || -L $file ]]; then # servers were able to write the first two
		echo "::error title=mcptrack propose::$file is missing or is not a regular file."
		exit 1
	fi
done
if cmp -s "$FROM/mcptrack.lock" "$LOCK"; then
	echo 'The lock is up to date.'
	exit
fi

title='Update mcptrack.lock'
base=$(git symbolic-ref --short HEAD)
cp "$FROM/mcptrack.lock" "$LOCK"
git checkout --quiet -B "$BRANCH"
git add -- "$LOCK"
git -c user.name='github-actions[bot]' -c user.email='41898282+github-actions[bot]@users.noreply.github.com' \
	commit --quiet --no-verify -m "$title" -- "$LOCK"
git push --quiet --force origin "HEAD:refs/heads/$BRANCH"

number=$(gh api --method GET "repos/$GITHUB_REPOSITORY/pulls" -f state=open -f "head=$GITHUB_REPOSITORY_OWNER:$BRANCH" -f "base=$base" --jq '.[0].number // empty')
if [[ -n $number ]]; then
	gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/pulls/$number" -F "body=@$FROM/changes.md"
	echo "The pull request $number was updated."
else
	gh api --silent --method POST "repos/$GITHUB_REPOSITORY/pulls" -f "title=$title" -f "head=$BRANCH" -f "base=$base" -F "body=@$FROM/changes.md"
	echo 'A pull request was opened.'
fi
