#!/bin/sh
# Plays QEMU in tests: LOADER --library-path PATHS QEMU OPTIONS... It finds the results' file and
# the device's file among the options, counts how often it was started, and does what the file that
# stands for QEMU says.
qemu=$3
device=
for word; do
    case $word in
    file,id=results,path=*) results=${word##*path=} ;;
    memory-backend-file,*) device=${word##*mem-path=} ;;
    esac
done
folder=${results%/*}
tag=lab${folder##*/tierloom-lab-}
# frame KIND INDEX VALUE
frame() { printf '%s %s %s %s 0\n\n' "$tag" "$1" "$2" "$3" >>"$results"; }
begin() { frame boot 0 0; frame setup 0 0; }
finish() { frame exit 0 "${1:-0}"; frame done 0 0; exit 0; }
echo x >>"$qemu.starts"
start=$(wc -l <"$qemu.starts")
. "$qemu"
