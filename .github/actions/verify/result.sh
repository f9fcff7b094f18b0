#!/usr/bin/env bash
# Ends the action with the exit code of verify, and says what to do.
set -euo pipefail

case $EXIT_CODE in
0) ;;
4) echo '::error title=mcptrack verify::Some servers could not be reached, so they were not checked. The summary of this job says why.' ;;
7) echo '::error title=mcptrack verify::The servers differ from the lock. If the changes in the summary are right, run mcptrack lock --update and commit mcptrack.lock.' ;;
esac
exit "$EXIT_CODE"
