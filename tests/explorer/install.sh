# Where the browser comes from: Debian's packages. Sourced by `run`, after tests/clients/install.sh.

# Sets $CHROMIUM and $CHROMEDRIVER; returns 1 with the reason in $reason if they cannot be had.
install_chromium() {
    find_chromium && return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        reason="chromium and chromedriver are not installed"
        return 1
    fi
    try "apt-get update" apt-get update || return 1
    try "apt-get install chromium" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends chromium chromium-driver fonts-dejavu-core || return 1
    find_chromium || { reason="there is no chromium after its installation"; return 1; }
}

find_chromium() {
    CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser)}
    CHROMEDRIVER=${CHROMEDRIVER:-$(command -v chromedriver)}
    export CHROMIUM CHROMEDRIVER
    [ -n "$CHROMIUM" ] && [ -n "$CHROMEDRIVER" ]
}
