#!/usr/bin/env bash
# Builds mcptrack from the checkout of this action, so that it is the version that the workflow
# names, and nothing but Go modules is downloaded.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
GOBIN=$RUNNER_TEMP/mcptrack-bin GOWORK=off go install ./cmd/mcptrack
