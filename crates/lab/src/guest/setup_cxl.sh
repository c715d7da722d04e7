# Creates a RAM region on the one CXL device. The script after this one brings it into use.
C=/sys/bus/cxl/devices

find_memdev() {
    memdev=
    for d in $C/mem*; do
        [ "$(cat "$d/serial" 2>/dev/null)" = "$CXL_SERIAL" ] && memdev=${d##*/}
    done
    [ -n "$memdev" ]
}
# The region needs the decoder of the endpoint whose upstream port is the device.
find_decoder() {
    decoder=
    for e in $C/endpoint*; do
        [ "$(readlink -f "$e/uport")" = "$(readlink -f "$C/$memdev")" ] || continue
        for d in "$e"/decoder*.0; do [ -e "$d/dpa_size" ] && decoder=${d##*/}; done
    done
    [ -n "$decoder" ]
}

wait_for 60 "the CXL device with serial $CXL_SERIAL" find_memdev
wait_for 60 "the endpoint decoder of $memdev" find_decoder
wait_for 60 "a root decoder that makes RAM regions" test -e $C/decoder0.0/create_ram_region
size=$(cat "$C/$memdev/ram/size")
region=$(cat $C/decoder0.0/create_ram_region)
echo "$region" >$C/decoder0.0/create_ram_region || fail "creating $region"
echo 256 >"$C/$region/interleave_granularity" || fail "setting the interleave granularity of $region"
echo 1 >"$C/$region/interleave_ways" || fail "setting the interleave ways of $region"
echo "$size" >"$C/$region/size" || fail "giving $region $size bytes"
echo ram >"$C/$decoder/mode" || fail "setting the mode of $decoder"
echo "$size" >"$C/$decoder/dpa_size" || fail "giving $decoder $size bytes"
echo "$decoder" >"$C/$region/target0" || fail "making $decoder the target of $region"
echo 1 >"$C/$region/commit" || fail "committing $region"
echo "$region" >/sys/bus/cxl/drivers/cxl_region/bind || fail "binding $region"
