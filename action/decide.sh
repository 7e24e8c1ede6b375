#!/usr/bin/env bash
# Ends the job by the answer's exit code: 0 goes on, and 2 where unknown is accepted.
set -euo pipefail

case $CODE in
  0) ;;
  1) echo "::error::It would break live threads, or they still need what is to go."; exit 1 ;;
  2)
    if [ "$ACCEPT_UNKNOWN" = true ]; then
      echo "::warning::It is not known whether live threads need it; accepted by accept-unknown."
    else
      echo "::error::It is not known whether live threads need it."
      exit 2
    fi
    ;;
  *) echo "::error::Drainboard could not be asked."; exit 3 ;;
esac
