#!/usr/bin/env bash
# Posts the changes as a comment on the pull request, or updates the comment of an earlier run. A
# pull request that never had changes gets no comment. A comment that cannot be posted is a warning:
# verify decides the result of the job.
set -euo pipefail

if [[ -z $PULL_REQUEST ]]; then
	echo 'Not a pull request: no comment.'
	exit
fi
if [[ $HEAD_REPOSITORY != "$GITHUB_REPOSITORY" ]]; then
	echo '::notice title=mcptrack verify::The token of a pull request from a fork cannot comment; see the summary of this job.'
	exit
fi

warn() {
	echo "::warning title=mcptrack verify::$1 The job needs the permission pull-requests: write."
	exit
}

mark="<!-- mcptrack verify $SUBJECT -->"
body=$(mktemp "$RUNNER_TEMP/comment.XXXXXX")
{
	printf '%s\n' "$mark"
	tail -n +2 "$MARKDOWN" # its first line is the mark of any report
} >"$body"

# Only a comment of this token's own: anybody can write the mark into a comment.
# shellcheck disable=SC2016 # the query has its own variables
query='query($owner: String!, $name: String!, $number: Int!, $endCursor: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      comments(first: 100, after: $endCursor) {
        nodes { id viewerDidAuthor body }
        pageInfo { hasNextPage endCursor }
      }
    }
  }
}'
ids=$(gh api graphql --paginate -f "query=$query" -f "owner=${GITHUB_REPOSITORY%%/*}" -f "name=${GITHUB_REPOSITORY#*/}" -F "number=$PULL_REQUEST" \
	--jq ".data.repository.pullRequest.comments.nodes[] | select(.viewerDidAuthor and (.body | startswith(\"$mark\"))) | .id") ||
	warn 'The comments of the pull request could not be read.'

if read -r id <<<"$ids" && [[ -n $id ]]; then
	# shellcheck disable=SC2016
	gh api graphql --silent -f "id=$id" -F "body=@$body" -f 'query=mutation($id: ID!, $body: String!) {
  updateIssueComment(input: {id: $id, body: $body}) { issueComment { id } }
}' || warn 'The comment could not be updated.'
	echo 'The comment was updated.'
elif [[ $EXIT_CODE != 0 ]]; then
	gh api --silent --method POST "repos/$GITHUB_REPOSITORY/issues/$PULL_REQUEST/comments" -F "body=@$body" ||
		warn 'The comment could not be posted.'
	echo 'The comment was posted.'
fi
