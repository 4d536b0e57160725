# How a suite ends: one line for readers, and one in $CLIENT_RESULTS for `.ci/run`.
# Sourced by the scripts that run tests of other languages; they set $scratch.

# finish NAME CODE START PASSED FAILED SKIPPED: counts lines of $scratch/log that begin so.
finish() {
    local passed failed skipped note=
    passed=$(grep -c "^$4" "$scratch/log")
    failed=$(grep -c "^$5" "$scratch/log")
    skipped=$(grep -c "^$6" "$scratch/log")
    # One that died has failed, however many tests it had passed.
    if [ "$2" -ne 0 ] && [ "$failed" -eq 0 ]; then
        failed=1
        note="ended with code $2"
    elif [ "$2" -eq 0 ] && [ "$passed" -eq 0 ]; then
        failed=1
        note="no test ran"
    fi
    [ "$failed" -eq 0 ] || cat "$scratch/log"
    report "$1" "$passed" "$failed" "$skipped" $((SECONDS - $3)) "$note"
    [ "$failed" -eq 0 ]
}

skip() {
    report "$1" 0 0 1 0 "$2"
}

# report NAME PASSED FAILED SKIPPED SECONDS NOTE: of a server on an etcd under a name that says so.
report() {
    set -- "$1${SUITES_ETCD:+-on-etcd}" "${@:2}"
    if [ "$3" -gt 0 ]; then
        echo "suite $1: ran $(($2 + $3)) checks, $3 FAILED${6:+: $6}"
    elif [ "$2" -gt 0 ]; then
        echo "suite $1: ran $2 checks, passed"
    else
        echo "suite $1: SKIPPED: $6"
    fi
    [ -z "${CLIENT_RESULTS:-}" ] || printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$@" >>"$CLIENT_RESULTS"
}
