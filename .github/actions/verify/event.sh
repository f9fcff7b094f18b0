#!/usr/bin/env bash
# Refuses events whose workflows have secrets and a token that writes, and may check out the code of
# a fork: the config of a fork says which programs run.
set -euo pipefail

case ${GITHUB_EVENT_NAME-} in
pull_request_target | workflow_run | issue_comment)
	echo "::error title=mcptrack verify::This action starts the servers of the config. It does not run on $GITHUB_EVENT_NAME, which would give your secrets to the code of a pull request. Use pull_request."
	exit 2
	;;
esac
