#!/bin/bash
# Pools of many disks between Millpond and OpenZFS's kernel module: made by one of them, read and scrubbed by the other one, which replaces a disk, takes
# another one offline, writes, and hands the degraded pool back; the first resilvers a new disk there, and the pool goes to and fro once more. Compared are the
# hashes of all files; each scrubs, and zdb looks at the pool whenever it is handed over.
#
#   disks-with-openzfs.sh MILLPOND WORKDIR [CASE...]
#
# As root, where the module is loaded and its zpool, zfs and zdb are in PATH. Needs 3 GB in WORKDIR. A line for each case and direction (m: Millpond, k:
# the module). What is wrong is a line that begins with FAILED; the last line and the exit status say how many there are.
set -u
. "$(dirname "$0")/two-engines.sh"
shift 2
ONLY=" $* "
sums() { (cd $D/mnt/p && find . -type f | sort | xargs -d '\n' -r sha256sum) 2>&1; }
imp() { local who=$1; shift; must zp $who import -f -d $D/f -R $D/mnt "$@" p; }
away() { must zp $1 export p || zp $1 export -f p; verify; }
# A first half of files, by whom made; and what is written over and beside them.
fill() { cp /bin/bash /etc/passwd $D/mnt/p/; cp -r /etc/default $D/mnt/p/; head -c 12M /dev/urandom > $D/mnt/p/large; for i in $(seq 200); do head -c $((i * 97)) /dev/urandom > $D/mnt/p/small$i; done; }
change() { rm -f $D/mnt/p/small*[05]; head -c 5M /dev/urandom > $D/mnt/p/by$1; dd if=/dev/urandom of=$D/mnt/p/large bs=100k seek=$2 count=20 conv=notrunc 2>/dev/null; cp /bin/ls $D/mnt/p/ls$1; must zf $1 snapshot p@by$1$2; }
# It comes to who has it now with what the other one left.
handed() { imp $1 || return 1; sums > now; compare before now "files, read by $1"; }
# A disk is replaced, another one goes offline and the pool is written, by whom.
trouble() {
 must zp $1 replace $SEQUENTIAL -w p $D/f/d1 $D/f/new1
 must zp $1 offline p $D/f/d2
 if [ -n "$SPARE" ]; then must zp $1 replace -w p $D/f/d2 $SPARE; fi
 change $1 7
 zp $1 status p > $D/st; grep -q 'state: DEGRADED' $D/st || bad "not degraded"
}
cure() { must zp $1 replace -w p $D/f/d2 $D/f/new2; zp $1 status -x p > $D/st; grep -q 'is healthy' $D/st || { bad "not healthy"; cat $D/st; }; }
one() { # a case; disks, vdevs; what comes before the first handing over; sequential, a distributed spare
 [ "$ONLY" = "  " ] || [[ $ONLY == *" $1 "* ]] || return
 local name=$1 count=$2 vdevs=$3 prepare=${4:-:} w r i begun
 SEQUENTIAL=${5:-} SPARE=${6:-}
 for w in m k; do
  r=$(other $w) begun=$(seconds); at="$name $w to $r"
  rm -f $D/f/*; for i in $(seq $count); do truncate -s ${SIZE:-128M} $D/f/d$i; done; truncate -s ${SIZE:-128M} $D/f/new1 $D/f/new2
  must zp $w create -f -O atime=off -R $D/mnt p $vdevs || continue
  fill; W=$w; $prepare; sums > before; away $w
  handed $r || continue; scrub $r; if [ -z "${INTACT:-}" ]; then trouble $r; else change $r 7; fi; sums > before; away $r
  if [ -n "${REWIND:-}" ]; then
   imp $w --rewind-to-checkpoint || continue; sums > now; compare checkpoint now "files of the checkpoint"; scrub $w; mv now before
  else
   handed $w || continue; [ -n "${INTACT:-}" ] || cure $w; scrub $w; change $w 30; sums > before
  fi
  away $w
  handed $r || continue; scrub $r; away $r
  echo "$at: $(wc -l < now) files, $(($(seconds) - begun)) s"
 done
}
disks() { local i; for i in $(seq $1 $2); do echo $D/f/d$i; done; }
one mirror 3 "mirror $(disks 1 3)"
one raidz1 4 "raidz1 $(disks 1 4)"
one raidz2 6 "raidz2 $(disks 1 6)"
one raidz3 7 "raidz3 $(disks 1 7)"
one stripes 8 "raidz1 $(disks 1 3) raidz1 $(disks 4 6) special mirror $(disks 7 8)"
one draid 7 "draid2:3d:7c:1s $(disks 1 7)" : -s draid2-0-0
expand() { must zp $W attach -w p raidz2-0 $D/f/d6; }
one expanded 6 "raidz2 $(disks 1 5)" expand
swap() { must zp $W offline p $D/f/d4; change $W 50; must zp $W replace -w p $D/f/d4 $D/f/d5; }
one replaced 5 "raidz1 $(disks 1 4)" swap
evacuate() { must zp $W remove -w p mirror-1; }
SIZE=256M one removed 4 "mirror $(disks 1 2) mirror $(disks 3 4)" evacuate
point() { sums > checkpoint; must zp $W checkpoint p; change $W 50; }
# No disk is replaced beside a checkpoint.
INTACT=y REWIND=y one checkpoint 4 "raidz1 $(disks 1 4)" point
echo "$failed failed"
[ $failed = 0 ]
