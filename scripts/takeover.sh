#!/bin/bash
# A pool on a disk that a server of NBD has, and two hosts that can reach it, each in a network namespace of its own: one
# writes and is killed, the other one has the pool within seconds, with all that was acknowledged, and gives it back.
#
#   takeover.sh MILLPOND WORKDIR [ROUNDS]
#
# As root, with ip, nsenter, qemu-nbd and 300 MB in WORKDIR. One line for each round (3): how many files were acknowledged
# before the kill, and how long the import by the other host took. The exit status says whether something was lost.
set -eu
M=$(realpath "$1") W=$(realpath "$2") ROUNDS=${3:-3}
ZDB=$(command -v "${MILLPOND_ZDB:-zdb}" || true)
name=mp$$ server='' writer=''
on() { # A command on one of both hosts.
    local host=$1
    shift
    # Not by "ip netns exec", which would have the mounts in a mount namespace of their own.
    nsenter --net="/run/netns/$name-$host" env MILLPOND_RUN="$W/run$host" ZFS_HOSTID="$host" XDG_RUNTIME_DIR="$W/run$host" "$@"
}
clean() {
    [ -z "$writer" ] || kill "$writer" 2> /dev/null || true
    for host in 1 2; do
        on $host "$M" zpool export -f far > /dev/null 2>&1 || true
        umount -l "$W/mnt$host/far" 2> /dev/null || true
        ip netns del "$name-$host" 2> /dev/null || true
    done
    [ -z "$server" ] || kill "$server" 2> /dev/null || true
    rm -rf "$W/far.img" "$W"/run[12] "$W"/mnt[12] "$W/acknowledged"
}
trap clean EXIT
for host in 1 2; do
    mkdir -p "$W/run$host" "$W/mnt$host"
    ip netns add "$name-$host"
    ip link add "$name.$host" type veth peer name disk netns "$name-$host"
    ip addr add "10.213.$host.1/24" dev "$name.$host"
    ip link set "$name.$host" up
    ip -n "$name-$host" addr add "10.213.$host.2/24" dev disk
    ip -n "$name-$host" link set disk up
    ip -n "$name-$host" link set lo up
done
truncate -s 256M "$W/far.img"
qemu-nbd -t -e 8 -f raw -x disk -b 0.0.0.0 -p 10899 "$W/far.img" &
server=$!
disk() { echo "nbd://10.213.$1.1:10899/disk"; }
sleep 0.5
on 1 "$M" zpool create -o multihost=on -R "$W/mnt1" far "$(disk 1)"
has=1
: > "$W/acknowledged"
for round in $(seq "$ROUNDS"); do
    other=$((3 - has))
    told=$(on $other "$M" zpool import -f -R "$W/mnt$other" -d "$(disk $other)" far 2>&1 || true)
    if [[ $told != *"pool is imported on"* ]]; then
        echo "FAILED: host $other was not told who has the pool: $told"
        exit 1
    fi
    (
        for ((i = 0; ; i++)); do
            echo "$round $i" > "$W/mnt$has/far/$round.$i" && sync "$W/mnt$has/far/$round.$i" && echo "$round.$i" >> "$W/acknowledged" || exit
        done 2> /dev/null
    ) &
    writer=$!
    sleep 2
    # Who serves the pool in that namespace.
    for pid in $(ip netns pids "$name-$has"); do
        tr '\0' ' ' < "/proc/$pid/cmdline" | grep -q daemon-child && kill -9 "$pid"
    done
    wait $writer || true
    writer=''
    umount -l "$W/mnt$has/far" 2> /dev/null || true
    began=$EPOCHREALTIME
    on $other "$M" zpool import -f -R "$W/mnt$other" -d "$(disk $other)" far
    us=$((${EPOCHREALTIME/./} - ${began/./}))
    lost=0
    while read -r file; do
        [ "$(cat "$W/mnt$other/far/$file" 2> /dev/null)" = "${file/./ }" ] || lost=$((lost + 1))
    done < "$W/acknowledged"
    echo "round $round: host $has killed, $(wc -l < "$W/acknowledged") files acknowledged, $lost lost, imported by host $other in $((us / 1000)) ms"
    [ $lost = 0 ]
    has=$other
done
on $has "$M" zpool scrub -w far
on $has "$M" zpool status far | grep -E 'scan:|errors:'
on $has "$M" zpool export far
kill "$server"
wait "$server" || true
server=
[ -z "$ZDB" ] || "$ZDB" -e -p "$W" -bcc far 2>&1 | grep -E 'No leaks|leaked'
