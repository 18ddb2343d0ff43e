#!/bin/bash
# File systems with each cipher and each kind of key: made by Millpond or by OpenZFS's kernel module, their keys loaded,
# their files read and changed by the other one, which changes a key of each kind too, and handed back. Compared are the
# hashes of all files and attributes; each scrubs, and zdb looks at the pool at the end.
#
#   keys-with-openzfs.sh MILLPOND WORKDIR [IMAGE]
#
# As root, where the module is loaded and its zpool, zfs and zdb are in PATH. Needs 600 MB in WORKDIR. With IMAGE, the
# golden pool `enc`, that one is changed by Millpond first, and then handed to the module. What is wrong is a line that
# begins with FAILED; the last line and the exit status say how many there are.
set -u
. "$(dirname "$0")/two-engines.sh"
IMAGE=${3:-}; [ -z "$IMAGE" ] || IMAGE=$(cd "$OLDPWD" && realpath "$IMAGE")
mkdir -p keys
key() { # a new key of a format, in a file
 case $1 in
 passphrase) echo "no horse $RANDOM $RANDOM" > keys/$2 ;;
 hex) head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' > keys/$2 ;;
 raw) head -c 32 /dev/urandom > keys/$2 ;;
 esac
}
sums() { (cd $D/mnt && find . -type f | sort | xargs -d '\n' -r sha256sum; find . -type f -name attr | sort | xargs -r getfattr -h -d; find . -type l -printf '%p %l\n' | sort) 2>&1; }
fill() { # files of each kind in a folder, with a suffix
 head -c 300000 /dev/urandom > $1/large$2; echo small > $1/small$2; ln -sf "$(printf 's%.0s' $(seq 300))" $1/link$2
 echo a > $1/attr; setfattr -n user.of$2 -v "$2 $RANDOM" $1/attr; mkdir -p $1/folder; ln -f $1/small$2 $1/folder/hard$2
}
imp() { must zp $1 import -f -N -d $D/f -R $D/mnt $P; load $1; }
load() { # keys that are not in files are those of the golden pool
 must zf $1 load-key -a
 zf $1 mount -a
}
away() { must zp $1 export $P; verify; }
ciphers="aes-128-ccm aes-192-ccm aes-256-ccm aes-128-gcm aes-192-gcm aes-256-gcm"
formats="passphrase hex raw"
make() { # one file system with each cipher and kind of key, and one below it, by whom
 for c in $ciphers; do for f in $formats; do
  local name=own-$c-$f; key $f $name
  must zf $1 create -o encryption=$c -o keyformat=$f -o keylocation=file://$D/keys/$name $P/$name && must zf $1 create -o compression=lz4 $P/$name/below || continue
  fill $D/mnt/$P/$name 1; fill $D/mnt/$P/$name/below 1; must zf $1 snapshot -r $P/$name@made
 done; done
}
change() { # by whom: files and keys
 for c in $ciphers; do
  for f in $formats; do
   local name=own-$c-$f; fill $D/mnt/$P/$name 2; fill $D/mnt/$P/$name/below 2; rm $D/mnt/$P/$name/large1; truncate -s 1000 $D/mnt/$P/$name/below/large1
  done
  key hex changed-$c; must zf $1 change-key -o keyformat=hex -o keylocation=file://$D/keys/changed-$c $P/own-$c-passphrase
  key passphrase again-$c; must zf $1 change-key -o keyformat=passphrase -o keylocation=file://$D/keys/again-$c $P/own-$c-raw
  must zf $1 rename $P/own-$c-hex/below $P/own-$c-hex/renamed
 done
 must zf $1 snapshot -r $P@changed
}
handed() { # who has it now, and what the other one saw
 imp $1; sums > now; compare $2 now "files, read by $1"; scrub $1
}
begun=$(seconds)
for w in m k; do
 r=$(other $w) at="$w to $r" P=p
 rm -f f/*; truncate -s 512M f/d1
 must zp $w create -f -O atime=off -R $D/mnt $P $D/f/d1 || continue
 make $w; sums > before; away $w
 handed $r before; change $r; sums > before; away $r
 handed $w before; away $w
 echo "$at: $(wc -l < before) files, attributes and links"
done
if [ -n "$IMAGE" ]; then
 at="the golden pool" P=genc
 rm -f f/* keys/*; cp --sparse=always "$IMAGE" f/; printf 'correct horse battery' > keys/pass; printf '%063d7' 0 > keys/hex
 must zp m import -f -N -d $D/f -R $D/mnt $P
 # Its keys are from now on in files.
 must zf m load-key -L file://$D/keys/pass $P/pass; must zf m load-key -L file://$D/keys/hex $P/hex
 must zf m set keylocation=file://$D/keys/pass $P/pass; must zf m set keylocation=file://$D/keys/hex $P/hex
 zf m mount -a; formats="passphrase hex raw" ciphers="aes-256-gcm aes-128-ccm"; make m; change m
 for n in pass hex; do fill $D/mnt/$P/$n 9; done
 sums > before; away m
 handed k before; for n in pass hex; do fill $D/mnt/$P/$n 8; done; sums > before; away k
 handed m before; away m
 echo "$at: $(wc -l < before) files, attributes and links"
fi
echo "$failed failed, $(($(seconds)-begun)) s"
[ $failed = 0 ]
