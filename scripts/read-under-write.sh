#!/bin/bash
# How much longer a cold read of a large file takes beside writers of many small files, on a disk held to a given speed.
#
#   read-under-write.sh MILLPOND DEVICE RATE_MB WORKDIR {millpond|ext4|btrfs}…
#
# DEVICE is the disk under WORKDIR as MAJOR:MINOR. As root, on a machine with control groups of version 1 (the root group's
# limits hold for write-back as well). Needs 10 GB in WORKDIR; the images are written once, so that space is allocated.
set -eu
M=$1 DEVICE=$2 RATE=$3 W=$4; shift 4
LIMIT=/sys/fs/cgroup/blkio/blkio.throttle
limit() { for way in read write; do echo "$DEVICE $1" > $LIMIT.${way}_bps_device; done; }
export MILLPOND_RUN=$W/run
mkdir -p "$W/mnt"
trap 'limit 0' EXIT
[ -f "$W/disk.img" ] || dd if=/dev/zero of="$W/disk.img" bs=1M count=6144 conv=fsync status=none

start() {
    mkdir -p "$W/mnt"
    case $1 in
    millpond) $M zpool create -f -O atime=off -O mountpoint="$W/mnt" rw "$W/disk.img" ;;
    ext4) wipefs -qa "$W/disk.img"; mkfs.ext4 -q -F -E nodiscard "$W/disk.img"; again ext4 ;;
    btrfs) wipefs -qa "$W/disk.img"; mkfs.btrfs -q -f -K "$W/disk.img"; again btrfs ;;
    esac
}
# Cold: nothing of the file in any cache.
again() {
    case $1 in
    millpond) $M zpool export rw; $M zpool import -d "$W" rw ;;
    *) ! mountpoint -q "$W/mnt" || umount "$W/mnt"; mount -t "$1" -o loop,noatime "$W/disk.img" "$W/mnt" ;;
    esac
    echo 3 > /proc/sys/vm/drop_caches
}
stop() { case $1 in millpond) $M zpool export rw ;; *) umount "$W/mnt" ;; esac; }
# Seconds of a read of the whole file.
read_file() { local from=$EPOCHREALTIME; cat "$W/mnt/big" > /dev/null; echo "$EPOCHREALTIME - $from" | bc; }
written() { awk '/^wchar/ { print $2 }' "/proc/$1/io"; }
writers() { mkdir -p "$W/mnt/tree"; $M bench -k -t 5 -n 2000000 write-data "$W/mnt/tree" > /dev/null & WRITER=$!; sleep 5; }
end_writers() { kill "$WRITER"; wait "$WRITER" 2> /dev/null || true; }

for what in "$@"; do
    start "$what"
    head -c 1073741824 /dev/urandom > "$W/mnt/big"; sync
    [ "$what" != millpond ] || $M zpool sync rw
    again "$what"; limit $((RATE * 1000000))
    alone=$(read_file)
    again "$what"; writers
    before=$(written "$WRITER"); sleep 8; after=$(written "$WRITER")
    writer_alone=$(echo "($after - $before) / 8000000" | bc)
    end_writers; rm -rf "$W/mnt/tree"; again "$what"; writers
    before=$(written "$WRITER"); beside=$(read_file); after=$(written "$WRITER")
    writer_beside=$(echo "($after - $before) / ($beside * 1000000)" | bc)
    end_writers; limit 0
    echo "$what: read alone $alone s, beside writers $beside s: $(echo "scale=2; $beside / $alone" | bc); writers alone $writer_alone MB/s, beside the read $writer_beside MB/s"
    rm -rf "$W/mnt/tree"; stop "$what"
done
rm -f "$W/disk.img"
