# Makes the registers of the one CXL device (class 0x0502, interface 0x10) reachable.
device=
for d in /sys/bus/pci/devices/*; do
    [ "$(cat "$d/class")" = 0x050210 ] && device=$d
done
[ -n "$device" ] || fail "finding the CXL device"
echo 1 >"$device/enable" || fail "enabling ${device##*/}"
ln -s "$device" /run/cxl-device || fail "naming ${device##*/}"
