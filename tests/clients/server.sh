# A server for suites, and the etcd that it has its objects in if $SUITES_ETCD is one. Sourced by the scripts that start
# servers of their own; they set $server, the program, and $scratch, a folder.

ready_seconds=60
stop_seconds=30
server_pid=
etcd_pid=

# start_server FLAG...: the kubeconfig of its administrator is $scratch/kubeconfig.
start_server() {
    local start=$SECONDS place=(--in-memory)
    rm -f "$scratch/kubeconfig" "$scratch/ready"
    if [ -n "${SUITES_ETCD:-}" ]; then
        start_etcd || return 1
        place=(--etcd-servers "$etcd_url" --data-dir "$scratch/data")
    fi
    "$server" serve --listen 127.0.0.1:0 "${place[@]}" --kubeconfig "$scratch/kubeconfig" --ready-file "$scratch/ready" "$@" \
        >"$scratch/server.out" 2>"$scratch/server.err" </dev/null &
    server_pid=$!
    while [ $((SECONDS - start)) -lt $ready_seconds ] && kill -0 "$server_pid" 2>/dev/null; do
        [ -s "$scratch/ready" ] && return 0
        sleep 0.1
    done
    cat "$scratch/server.err"
    end_servers
    return 1
}

# An empty one of one member: sets $etcd_url.
start_etcd() {
    local client peer
    read -r client peer < <(python3 -c '
import socket
both = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(one.getsockname()[1] for one in both))')
    etcd_url=http://127.0.0.1:$client peer=http://127.0.0.1:$peer
    rm -rf "$scratch/etcd" "$scratch/data"
    "$SUITES_ETCD" --data-dir "$scratch/etcd" --unsafe-no-fsync --log-level warn \
        --listen-client-urls "$etcd_url" --advertise-client-urls "$etcd_url" \
        --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer" \
        >"$scratch/etcd.log" 2>&1 </dev/null &
    etcd_pid=$!
}

# SIGTERM must end it with 0, and it must not have panicked on the way; says what was otherwise.
stop_server() {
    local start=$SECONDS code
    kill -TERM "$server_pid" 2>/dev/null
    while [ $((SECONDS - start)) -lt $stop_seconds ] && kill -0 "$server_pid" 2>/dev/null; do
        sleep 0.1
    done
    kill -KILL "$server_pid" 2>/dev/null
    wait "$server_pid"
    code=$?
    server_pid=
    end_servers
    if [ $code -ne 0 ] || grep -n 'panicked at' "$scratch/server.err"; then
        echo "the server ended with code $code on SIGTERM; the end of its log:"
        tail -n 50 "$scratch/server.err"
        return 1
    fi
}

# Whatever is left, at once.
end_servers() {
    local pid
    for pid in $server_pid $etcd_pid; do
        kill -KILL "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    server_pid= etcd_pid=
}
