#!/bin/sh
# make_root.sh BUILD ROOT: installs the programs of a build folder into ROOT, with all that a
# container needs beside them. Needs root, to give a folder to the daemon's user.
set -eu
build=$1 root=$2
readonly uid=10001

mkdir -p "$root/usr/bin" "$root/etc" "$root/proc" "$root/run/memlease" "$root/usr/share/doc/memlease"
for program in memleased memleasectl; do
  install --strip "$build/bin/$program" "$root/usr/bin"
  # "libm.so.6 => /lib/.../libm.so.6 (0x...)", and the loader without an arrow.
  ldd "$build/bin/$program" | sed -nE 's/^\t(.* => )?(\/[^ ]+) .*/\2/p'
done | sort -u | while read -r library; do
  install -D "$(readlink -f "$library")" "$root$library"
done
for package in libc6 libstdc++6 libgcc-s1; do
  install -D -m 644 "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
done
install -m 644 "$(dirname "$0")/../../LICENSE" "$root/usr/share/doc/memlease"
echo "memlease:x:$uid:$uid::/:/sbin/nologin" >"$root/etc/passwd"
echo "memlease:x:$uid:" >"$root/etc/group"
# A volume that is mounted here for the first time is given the owner and mode.
chown "$uid:$uid" "$root/run/memlease"
chmod 755 "$root/run/memlease"
