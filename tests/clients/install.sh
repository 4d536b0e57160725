# Where the clients come from. Sourced by `run` and `record`.
#
# Each function leaves what it made below $cache and sets a variable to its
# path. If it cannot, it returns 1 with the reason in $reason.

cache=${XDG_CACHE_HOME:-$HOME/.cache}/sternpost-ci
reason=

# client-node 2 needs Node 22.
node_packages=(@kubernetes/client-node@1.4.0 @readme/openapi-parser@9.0.0 @apidevtools/swagger-parser@13.0.0)
kubectl_version=v1.36.4
old_kubectl_minor=1.20

# Runs a command and keeps its last words as the reason if it fails.
try() {
    local what=$1 log
    shift
    log=$(mktemp)
    if "$@" >"$log" 2>&1 </dev/null; then
        rm -f "$log"
        return 0
    fi
    cat "$log" >&2
    reason="$what failed: $(grep -v '^[[:space:]]*$' "$log" | tail -n 1 | cut -c1-200)"
    rm -f "$log"
    return 1
}

# The kubectl on the machine, else one built from its Go module: sets $kubectl.
install_kubectl() {
    if kubectl=$(command -v kubectl) && "$kubectl" version --client -o json 2>/dev/null </dev/null |
        python3 -c 'import json, sys; sys.exit(int(json.load(sys.stdin)["clientVersion"]["minor"].rstrip("+")) < 27)' 2>/dev/null; then
        return 0
    fi
    kubectl=$cache/bin/kubectl
    install_go_binary "$kubectl" ./kubectl -ldflags "-X k8s.io/component-base/version.gitVersion=$kubectl_version"
}

# Debian 12's kubectl, unpacked beside the machine's own: sets $old_kubectl.
install_old_kubectl() {
    local folder=$cache/kubernetes-client
    old_kubectl=$folder/usr/bin/kubectl
    if ! [ -x "$old_kubectl" ]; then
        command -v apt-get >/dev/null || { reason="no apt-get"; return 1; }
        mkdir -p "$folder"
        if [ "$(id -u)" = 0 ]; then try "apt-get update" apt-get update || return 1; fi
        rm -f "$folder"/*.deb
        try "apt-get download" env -C "$folder" apt-get download kubernetes-client || return 1
        try "dpkg" dpkg -x "$folder"/kubernetes-client_*.deb "$folder" || return 1
    fi
    case $("$old_kubectl" version --client --short 2>/dev/null) in
    *" v$old_kubectl_minor."*) ;;
    *) reason="this Debian's kubectl is not $old_kubectl_minor"; return 1 ;;
    esac
}

# A virtual environment with requirements.txt: sets $python.
install_python() {
    local folder
    command -v python3 >/dev/null || { reason="no python3"; return 1; }
    folder=$cache/python-$( (python3 --version; cat "$clients/requirements.txt") | sha256sum | cut -c1-12)
    python=$folder/bin/python
    [ -e "$folder/complete" ] && return 0
    rm -rf "$folder"
    if ! python3 -c 'import ensurepip' 2>/dev/null && [ "$(id -u)" = 0 ]; then
        try "apt-get update" apt-get update || return 1
        try "apt-get install python3-venv" env DEBIAN_FRONTEND=noninteractive apt-get install -y python3-venv || return 1
    fi
    try "python3 -m venv" python3 -m venv "$folder" || return 1
    try "pip install" "$folder/bin/pip" install --disable-pip-version-check --quiet -r "$clients/requirements.txt" || return 1
    touch "$folder/complete"
}

# The npm packages: sets $node_modules.
install_node() {
    local folder
    command -v node >/dev/null && command -v npm >/dev/null || { reason="no node and npm"; return 1; }
    if [ "$(node -p 'parseInt(process.versions.node)')" -lt 20 ]; then
        reason="node $(node --version) is older than 20"
        return 1
    fi
    folder=$cache/node-$(echo "${node_packages[@]}" | sha256sum | cut -c1-12)
    node_modules=$folder/node_modules
    [ -e "$folder/complete" ] && return 0
    rm -rf "$folder"
    mkdir -p "$folder"
    try "npm install" npm install --prefix "$folder" --no-save --no-package-lock --no-fund --no-audit "${node_packages[@]}" || return 1
    touch "$folder/complete"
}

# The client-go suite: sets $go_client.
install_go_client() {
    go_client=$cache/bin/go-client
    install_go_binary "$go_client" .
}

# The suites of client-go and controller-runtime on objects: sets $go_live.
install_go_live() {
    go_live=$cache/bin/go-live
    install_go_binary "$go_live" ./live
}

# Builds a package of the module in go/. Modules that cannot be fetched are a
# reason to skip; code that does not compile is not, so it returns 2.
install_go_binary() {
    local target=$1 package=$2
    shift 2
    command -v go >/dev/null || { reason="no go"; return 1; }
    try "go mod download" go -C "$clients/go" mod download || return 1
    mkdir -p "$(dirname "$target")"
    try "go build" go -C "$clients/go" build -mod=readonly -buildvcs=false "$@" -o "$target" "$package" || return 2
}

# The kube-rs suite: sets $kube_rs_client. It is built outside the repository,
# and skipped or at fault like the Go binaries.
install_kube_rs_client() {
    local manifest=$clients/rust/Cargo.toml target=$cache/rust
    kube_rs_client=$target/debug/kube-rs-client
    command -v cargo >/dev/null || { reason="no cargo"; return 1; }
    try "cargo fetch" cargo fetch --locked --manifest-path "$manifest" || return 1
    try "cargo build" env CARGO_TARGET_DIR="$target" cargo build --locked --manifest-path "$manifest" || return 2
}
