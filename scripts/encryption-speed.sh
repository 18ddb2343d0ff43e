#!/bin/bash
# Sequential write and cold read of an encrypted file system (aes-256-gcm) beside one that is not, in one pool.
#
#   encryption-speed.sh MILLPOND WORKDIR [MEGABYTES [TURNS]]
#
# Needs eight times MEGABYTES (512) in WORKDIR, and root. Milliseconds, one line a turn; without compression.
set -eu
M=$(realpath "$1") W=$(realpath "$2") SIZE=${3:-512} TURNS=${4:-3}
mkdir -p "$W/mnt"
export MILLPOND_RUN=$W/run
trap '"$M" zpool export speed 2> /dev/null || true; rm -rf "$W"/speed.* "$W/source" "$W/key"' EXIT
head -c $((SIZE << 20)) /dev/urandom > "$W/source"
printf 'a7%.0s' $(seq 32) > "$W/key"
"$M" zpool create --size $((SIZE * 8))M -O compression=off -O atime=off -R "$W/mnt" speed "$W/speed.img"
"$M" zfs create speed/plain
"$M" zfs create -o encryption=aes-256-gcm -o keyformat=hex -o keylocation="file://$W/key" speed/encrypted
time_ms() {
    local began=$EPOCHREALTIME
    "$@" > /dev/null 2>&1
    echo $(((${EPOCHREALTIME/./} - ${began/./}) / 1000))
}
copy() { cp "$W/source" "$1" && sync -f "$1" && "$M" zpool sync speed; }
for turn in $(seq "$TURNS"); do
    for name in plain encrypted; do
        echo "write $name $(time_ms copy "$W/mnt/speed/$name/$turn")"
    done
done
for turn in $(seq "$TURNS"); do
    "$M" zpool export speed
    "$M" zpool import -l -d "$W" -R "$W/mnt" speed > /dev/null
    for name in plain encrypted; do
        echo "read $name $(time_ms dd if="$W/mnt/speed/$name/$turn" of=/dev/null bs=1M)"
    done
done
