#!/bin/bash
# Streams: `zfs send` of mixed files, `zfs receive` of them, one piped into the other between two pools, and what a
# receive writes to the device for each byte of the stream; the same with zfs-fuse where it is installed.
#
#   stream-speed.sh MILLPOND WORKDIR [MEGABYTES [TURNS]]
#
# Needs eight times MEGABYTES (2048) in WORKDIR, and root. Half of the bytes are in files of 64 MB, half in files of 8 KB
# to 1 MB, half of each file blanks. MB (10^6 bytes) of the stream a second, one line a turn.
set -eu
M=$(realpath "$1") W=$(realpath "$2") SIZE=${3:-2048} TURNS=${4:-3}
mkdir -p "$W/mnt" "$W/source"
export MILLPOND_RUN=$W/run
FUSE=
clean() {
    for pool in from to; do "$M" zpool export -f $pool 2> /dev/null || true; done
    [ -z "$FUSE" ] || { umount -l "$W/mnt/fuse" 2> /dev/null || true; /usr/sbin/zpool export -f fusepool 2> /dev/null || true; kill "$FUSE"; }
    rm -rf "$W"/from.img "$W"/to.img "$W"/fuse.img "$W"/source "$W"/stream "$W"/run
}
trap clean EXIT
# So many bytes, in turn 2 KB of noise and 2 KB of blanks.
bytes() { head -c $(($1 / 2)) /dev/urandom | perl -e 'binmode STDIN; while (read STDIN, $b, 2048) { print $b, " " x 2048 }'; }
for ((i = 0; i < SIZE / 128; i++)); do bytes $((64 << 20)) > "$W/source/large$i"; done
for ((i = 0; i < SIZE / 128; i++)); do
    mkdir "$W/source/small$i"
    bytes $((24 << 20)) | split -b 8192 -a 4 - "$W/source/small$i/a"
    bytes $((40 << 20)) | split -b 1048576 -a 4 - "$W/source/small$i/b"
done
# What a command takes, as MB of the stream a second.
rate() {
    local name=$1 began=$EPOCHREALTIME
    shift
    "$@" > /dev/null
    local us=$((${EPOCHREALTIME/./} - ${began/./}))
    echo "$name $(($(stat -c %s "$W/stream") / us)) MB/s"
}
pool() { "$M" zpool create -f --size $((SIZE * 2))M -O atime=off -R "$W/mnt" "$1" "$W/$1.img"; }
anew() {
    "$M" zpool destroy to 2> /dev/null || true
    pool to
}
send() { "$M" zfs send from@now | cat > /dev/null; }
receive() { "$M" zfs receive -u to/x < "$W/stream" && "$M" zpool sync to; }
both() { "$M" zfs send from@now | "$M" zfs receive -u to/x && "$M" zpool sync to; }
written() { "$M" stat -m bytes.device_written to | awk '/device_written/ { printf "%d", $NF }'; }
pool from
cp -a "$W/source/." "$W/mnt/from/"
"$M" zfs snapshot from@now
"$M" zfs send from@now > "$W/stream"
for turn in $(seq "$TURNS"); do
    rate "send" send
    anew
    before=$(written)
    rate "receive" receive
    after=$(written)
    anew
    rate "send | receive" both
done
length=$(stat -c %s "$W/stream")
echo "stream $length bytes, $(((after - before) * 100 / length)) % of which a receive writes to the device"
"$M" zpool export to
"$M" zpool export from
command -v zfs-fuse > /dev/null || exit 0
rm "$W"/to.img "$W"/from.img
# The commands of that name may be links to Millpond.
zpool=/usr/sbin/zpool zfs=/usr/sbin/zfs
mkdir -p /var/run/zfs /etc/zfs /var/lib/zfs "$W/mnt/fuse"
rm -f {/var/run,/etc,/var/lib}/zfs/zpool.cache
truncate -s $((SIZE * 4))M "$W/fuse.img"
zfs-fuse --no-kstat-mount -n -p "$W/pid" > /dev/null 2>&1 &
FUSE=$!
until $zpool create -O atime=off -m "$W/mnt/fuse" fusepool "$W/fuse.img" 2> /dev/null; do sleep 0.2; done
cp -a "$W/source/." "$W/mnt/fuse/"
$zfs snapshot fusepool@now
$zfs send fusepool@now > "$W/stream"
fuse_send() { $zfs send fusepool@now | cat > /dev/null; }
# What is on disk by then is in a txg that a snapshot ends.
fuse_receive() { $zfs receive fusepool/$1 < "$W/stream" && $zfs snapshot fusepool@$1; }
fuse_both() { $zfs send fusepool@now | $zfs receive fusepool/$1 && $zfs snapshot fusepool@$1; }
for turn in $(seq "$TURNS"); do
    rate "zfs-fuse: send" fuse_send
    rate "zfs-fuse: receive" fuse_receive x
    $zfs destroy -r fusepool/x
    $zfs destroy fusepool@x
    rate "zfs-fuse: send | receive" fuse_both y
    $zfs destroy -r fusepool/y
    $zfs destroy fusepool@y
done
