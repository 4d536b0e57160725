#!/usr/bin/env bash
# Starts a server that outlives this step, and tells later ones where it is.
#
#   LOAD, FLAGS  one path, or one flag, a line
set -euo pipefail

words=()
while IFS= read -r path; do [ -z "$path" ] || words+=(--load "$path"); done <<<"${LOAD:-}"
while IFS= read -r flag; do [ -z "$flag" ] || words+=("$flag"); done <<<"${FLAGS:-}"
log=$RUNNER_TEMP/sternpost.log
kubeconfig=$RUNNER_TEMP/sternpost.kubeconfig
ready=$RUNNER_TEMP/sternpost.ready
nohup sternpost serve --in-memory --listen 127.0.0.1:0 --kubeconfig "$kubeconfig" --ready-file "$ready" \
    ${words[@]+"${words[@]}"} </dev/null >/dev/null 2>"$log" &
server=$!
until [ -e "$ready" ]; do
    if ! kill -0 "$server" 2>/dev/null; then
        cat "$log" >&2
        exit 1
    fi
    sleep 0.05
done
cat "$log"
echo "KUBECONFIG=$kubeconfig" >>"$GITHUB_ENV"
{
    echo "kubeconfig=$kubeconfig"
    sed -n 's/^sternpost is ready on \([^ ]*\) in .*/url=\1/p' "$log"
} >>"$GITHUB_OUTPUT"
