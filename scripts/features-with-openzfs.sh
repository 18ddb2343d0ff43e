#!/bin/bash
# Each feature of pools: made active by Millpond or by OpenZFS's kernel module, read and changed by the other one, undone
# there, and handed back. Compared are the hashes of all files and what each says of every feature; each scrubs, and zdb
# looks at the pool at the end.
#
#   features-with-openzfs.sh MILLPOND WORKDIR [FEATURE...]
#
# As root, where the module is loaded and its zpool, zfs and zdb are in PATH. Needs 2 GB in WORKDIR. A line for each
# feature and direction (m: Millpond, k: the module): how it was where it was made, and after it was undone. What is wrong
# is a line that begins with FAILED; the last line and the exit status say how many there are.
set -u
. "$(dirname "$0")/two-engines.sh"
shift 2
ONLY=" $* " KEY=
states() { zp $1 get -H -o property,value all p | grep '^feature@' | sort; }
state() { zp $1 get -H -o value feature@$F p; }
sums() { (cd $D/mnt/p && find . -type f | sort | xargs -d '\n' -r sha256sum) 2>&1; }
imp() { must zp $1 import -f -d $D/f -R $D/mnt p; [ -z "$KEY" ] || { echo passphrase | zf $1 load-key -a > /dev/null 2>&1; zf $1 mount -a; }; }
files() { rm -f $D/f/*; for i in $(seq 1 $1); do truncate -s ${SIZE:-128M} $D/f/d$i; done; }
data() { cp /bin/bash /etc/passwd $D/mnt/p/; cp -r /etc/default $D/mnt/p/; }
one() { # a feature; how it is made and undone; the states that it may have then; whether there is a key; vdevs, files
 [ "$ONLY" = "  " ] || [[ $ONLY == *" $1 "* ]] || return
 F=$1; MAKE=$2; UNDO=$3; AFTER=$4; KEY=${5:-}; VDEVS=${6:-$D/f/d1}; N=${7:-1}; BEFORE=${8:-active}
 for w in m k; do
  r=$(other $w); at="$F $w to $r"; t0=$(seconds)
  files $N
  must zp $w create -f -O atime=off -R $D/mnt p $VDEVS || continue
  data; W=$w; $MAKE || bad "making it"
  # both need a txg to see what was made
  zp $w sync p 2>/dev/null || sync; s=$(state $w); [ "$s" = "$BEFORE" ] || bad "state where it was made: $s"
  sums > a1; states $w > a2; must zp $w export p || { zp $w export -f p; continue; }
  imp $r || continue; sums > b1; states $r > b2; compare a1 b1 "files"; compare a2 b2 "features"
  cp /bin/ls $D/mnt/p/more; rm $D/mnt/p/passwd; must zf $r snapshot p@there; [ "${SPARED:-}" = $r ] || scrub $r
  W=$r; $UNDO || bad "undoing it"; zf $r destroy p@there; zp $r sync p; sleep 1; zp $r wait -t free p 2>/dev/null; zp $r sync p
  s=$(state $r); [[ " $AFTER " == *" $s "* ]] || bad "state after it was undone: $s, not $AFTER"
  sums > a1; states $r > a2; must zp $r export p || { zp $r export -f p; continue; }
  imp $w || continue; sums > b1; states $w > b2; compare a1 b1 "files back"; compare a2 b2 "features back"; scrub $w
  must zp $w export p || zp $w export -f p
  verify
  echo "$at: $BEFORE, then $s; $(wc -l < b1) files, $(($(seconds)-t0)) s"
 done
}
nothing() { :; }
mk_fs() { must zf $W create "$@" p/x && cp /bin/bash $D/mnt/p/x/; }
undo_fs() { must zf $W destroy -r p/x; }
snap() { must zf $W snapshot p@s; rm -r $D/mnt/p/default; must zf $W snapshot p@s2; cp -r /etc/default $D/mnt/p/; }
unsnap() { must zf $W destroy p@s2 && must zf $W destroy p@s; }
one lz4_compress nothing nothing active
# A pool of Millpond has one reference from its beginning.
one empty_bpobj snap unsnap "active enabled"
mark() { must zf $W snapshot p@s && must zf $W bookmark p@s p#b && zf $W destroy p@s; }
unmark() { must zf $W destroy p#b; }
one bookmarks mark unmark enabled
one bookmark_written mark unmark enabled
limit() { must zf $W create p/x && must zf $W set filesystem_limit=10 p/x; }
# Neither takes it back.
one filesystem_limits limit undo_fs active
lblocks() { mk_fs -o recordsize=1M && head -c 5M /dev/urandom > $D/mnt/p/x/big; }
one large_blocks lblocks undo_fs enabled
ldnode() { mk_fs -o dnodesize=2k -o xattr=sa; }
one large_dnode ldnode undo_fs enabled
for c in sha512 skein edonr blake3; do
 mkc() { mk_fs -o checksum=$c; }; one $c mkc undo_fs enabled; done
mkz() { mk_fs -o compression=zstd-5; }
one zstd_compress mkz undo_fs enabled
enc() { echo passphrase | zf $W create -o encryption=on -o keyformat=passphrase p/x > /dev/null && cp /bin/bash $D/mnt/p/x/; }
one encryption enc undo_fs enabled key
encmark() { enc && must zf $W snapshot p/x@s && must zf $W bookmark p/x@s p/x#b; }
# The module leaves it active, of pools that it made itself, too.
one bookmark_v2 encmark undo_fs "enabled active" key
check() { must zp $W checkpoint p; rm -r $D/mnt/p/default; cp /bin/cat $D/mnt/p/; }
uncheck() { must zp $W checkpoint -d -w p; }
one zpool_checkpoint check uncheck enabled
nosp() { must zp $W remove -w p $D/f/d2; }
cls() { mk_fs -o special_small_blocks=64K && cp -r /etc/default $D/mnt/p/x/; }
# So does the module with this one.
one allocation_classes cls nosp "enabled active" "" "$D/f/d1 special $D/f/d2" 2
# One that shares little with its origin has no list.
clone() { must zf $W snapshot p@s && must zf $W clone p@s p/x && cp /etc/hostname $D/mnt/p/x/; }
unclone() { must zf $W destroy p/x && must zf $W destroy p@s; }
one livelist clone unclone enabled
redact() { must zf $W snapshot p@s && must zf $W clone p@s p/c && echo other > $D/mnt/p/c/passwd && must zf $W snapshot p/c@s && must zf $W redact p@s book p/c@s; }
unredact() { must zf $W destroy p#book && must zf $W destroy -r p/c && must zf $W destroy p@s; }
one redaction_bookmarks redact unredact enabled
# By more snapshots than there is room for beside the list's head.
CLONES=$(seq 1 40)
redact40() {
 local i all=
 must zf $W snapshot p@s || return
 for i in $CLONES; do
  must zf $W clone p@s p/c$i && echo other $i > $D/mnt/p/c$i/passwd && must zf $W snapshot p/c$i@s || return
  all="$all p/c$i@s"
 done
 must zf $W redact p@s book $all
}
unredact40() {
 local i
 must zf $W destroy p#book || return
 for i in $CLONES; do must zf $W destroy -r p/c$i || return; done
 must zf $W destroy p@s
}
# A scrub of the module counts two errors for such a list, also for its own.
SPARED=k one redaction_list_spill redact40 unredact40 enabled
redacted() { redact && zf $W send --redact book p@s > $D/stream && must zf $W receive -u p/x < $D/stream; }
unredacted() { must zf $W destroy -r p/x && unredact; }
one redacted_datasets redacted unredacted enabled
long() { mk_fs -o longname=on && echo long > $D/mnt/p/x/$(printf 'n%.0s' $(seq 1 600)); }
one longname long undo_fs enabled
# A directory above 128 KiB in one block. The module's limit is raised while it makes it, that of Millpond's daemons from
# their beginning.
mzap() {
 local limit=/sys/module/zfs/parameters/zap_micro_max_size was made
 was=$(cat $limit)
 [ $W = m ] || echo 1048576 > $limit
 mk_fs && (cd $D/mnt/p/x && seq -f 'n%040g' 1 3000 | xargs touch) && { zp $W sync p 2>/dev/null || sync; }
 made=$?
 [ $W = m ] || echo $was > $limit
 return $made
}
MILLPOND_TUNABLES=dmu.micro_zap_bytes_max=1048576 one large_microzap mzap undo_fs enabled
sax() { must zf $W create -o xattr=sa -o sync=always p/x && cp /etc/passwd $D/mnt/p/x/ && setfattr -n user.one -v two $D/mnt/p/x/passwd; }
one zilsaxattr sax undo_fs enabled
refl() { zp $W sync p; cp /bin/bash $D/mnt/p/b1; head -c 4M /dev/urandom > $D/mnt/p/r1; zp $W sync p; cp --reflink=auto $D/mnt/p/r1 $D/mnt/p/r2; zp $W sync p; }
unrefl() { rm $D/mnt/p/r2; }
one block_cloning refl unrefl enabled
ddt() { must zf $W create -o dedup=on p/x && head -c 4M /dev/urandom > $D/mnt/p/x/a && cp --reflink=never $D/mnt/p/x/a $D/mnt/p/x/b; }
one fast_dedup ddt undo_fs enabled
rem() { must zp $W remove -w p $D/f/d2; }
SIZE=512M one device_removal rem nothing active "" "$D/f/d1 $D/f/d2" 2
obs() { must zp $W remove -w p $D/f/d2; rm -r $D/mnt/p/default; }
SIZE=512M one obsolete_counts obs nothing active "" "$D/f/d1 $D/f/d2" 2
reb() { must zp $W attach -s -w p $D/f/d1 $D/f/d2; }
# Active while it is under way.
one device_rebuild reb nothing enabled "" $D/f/d1 2 enabled
# A device waits while another one is resilvered: the pool is handed over meanwhile, and the other one ends both.
PARAMETERS=/sys/module/zfs/parameters
hold() { echo $1 > $PARAMETERS/zfs_scan_suspend_progress; echo $2 > $PARAMETERS/zfs_resilver_defer_percent; }
waits() { zp $1 status p > $D/st; [ "$(state $1)" = active ] && grep -q 'awaiting resilver' $D/st; }
waiting() { # by whom
 for w in $1; do
  r=$(other $w); F=resilver_defer; at="$F $w to $r, half-way"
  hold 1 0; export MILLPOND_TUNABLES=pool.resilver_defer_percent=0,pool.scrub_slice_blocks=1,pool.scan_memory_bytes=65536
  SIZE=512M files 3
  must zp $w create -f -O atime=off -O recordsize=4K -R $D/mnt p $D/f/d1 || continue
  data; head -c 100M /dev/urandom > $D/mnt/p/big; sums > a1
  must zp $w attach p $D/f/d1 $D/f/d2 && must zp $w attach p $D/f/d1 $D/f/d3
  waits $w || { bad "none waits"; cat $D/st; }
  must zp $w export p; zdb -e -p $D/f -C p > $D/zdb; grep -q resilver_defer $D/zdb || bad "no mark"
  unset MILLPOND_TUNABLES; imp $r
  [ $r = m ] || waits $r || { bad "none waits there"; cat $D/st; }
  hold 0 10
  for i in $(seq 300); do zp $r status p > $D/st; grep -q 'in progress\|awaiting' $D/st || break; sleep 1; done
  sleep 2; s=$(state $r); [ "$s" = enabled ] || bad "state in the end: $s"
  sums > b1; compare a1 b1 files; scrub $r; must zp $r detach p $D/f/d1; must zp $r detach p $D/f/d2; scrub $r
  must zp $r export p; verify
  imp $w; sums > b1; compare a1 b1 "files back"; must zp $w export p
  echo "$at: active, then $s"
 done
 hold 0 10; unset MILLPOND_TUNABLES
}
if [ "$ONLY" = "  " ] || [[ $ONLY == *" resilver_defer "* ]]; then waiting "m k"; fi
exp() { must zp $W attach -w p raidz1-0 $D/f/d4; }
one raidz_expansion exp nothing active "" "raidz1 $D/f/d1 $D/f/d2 $D/f/d3" 4
one draid nothing nothing active "" "draid1:2d:4c:1s $D/f/d1 $D/f/d2 $D/f/d3 $D/f/d4" 4
echo "$failed failed"
[ $failed = 0 ]
