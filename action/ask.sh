#!/usr/bin/env bash
# Asks Drainboard, and keeps its answer: verdict and exit code as outputs, the summary for people. Fails only on a wrong input.
set -euo pipefail

drainboard=${DRAINBOARD:-$RUNNER_TEMP/drainboard/bin/drainboard}
folder=$(mktemp -d "$RUNNER_TEMP/drainboard-answer.XXXXXX")
answer=$folder/answer.json
summary=

add() { # add OPTION VALUE: where a value was given
  [ -z "$2" ] || arguments+=("$1" "$2")
}

case $ASK_COMMAND in
  preflight)
    [ -n "$ASK_DEPLOYMENT" ] || { echo "::error::Name the deployment to compare with."; exit 3; }
    summary=$folder/summary.md
    arguments=(preflight "$ASK_DEPLOYMENT" --json --markdown-file "$summary")
    add --langgraph-json "$ASK_LANGGRAPH_JSON"
    add --graph "$ASK_GRAPH"
    add --graph-id "$ASK_GRAPH_ID"
    add --topology "$ASK_TOPOLOGY"
    [ -n "$ASK_TOPOLOGY" ] || add --python "$ASK_PYTHON"
    [ "$ASK_OPEN_DRAIN" != true ] || arguments+=(--open-drain)
    ;;
  gate)
    [ -n "$ASK_DRAIN" ] || { echo "::error::Name the drain to ask for."; exit 3; }
    arguments=(gate "$ASK_DRAIN" --json)
    add --wait "$ASK_WAIT"
    ;;
  *)
    echo "::error::The command is preflight or gate, not $ASK_COMMAND."
    exit 3
    ;;
esac

code=0
"$drainboard" "${arguments[@]}" > "$answer" || code=$?
[ -s "${summary:-/dev/null}" ] || summary=
read_answer='
import json, sys
try:
    found = json.load(open(sys.argv[1], encoding="utf-8"))
except ValueError:
    found = {}
message = (found.get("error") or {}).get("message") or found.get("headline") or "Drainboard gave no answer."
print(found.get("verdict", ""))
print(" ".join(message.split()))
'
{ read -r verdict; read -r headline; } < <(python3 -c "$read_answer" "$answer")
{
  echo "verdict=$verdict"
  echo "exit-code=$code"
  echo "summary=$summary"
} >> "$GITHUB_OUTPUT"
if [ -n "$summary" ]; then cat "$summary" >> "$GITHUB_STEP_SUMMARY"; else echo "$headline" >> "$GITHUB_STEP_SUMMARY"; fi
echo "$headline"
