#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# For owners of a Raspberry Pi 4, 400, CM4, 5, 500 or CM5 with a 64-bit system: replays networks on its GPU.
#
#   sudo sh try-gpu.sh              compile, check, replay, give the GPU back, write result.tar
#   sudo sh try-gpu.sh --check      only check
#   sudo sh try-gpu.sh --give-back  after a run that was cut off
#
# It needs gcc and make. It flashes nothing, installs nothing, and a reboot undoes all that it does. The kernel's
# driver has no GPU meanwhile. result.tar has no names, addresses or serial numbers in it.
#
set -u
cd "$(dirname "$0")" || exit 2
root=${TRY_GPU_ROOT:-} # where /proc, /sys and /dev are: tests have others
repeat=${TRY_GPU_REPEAT:-20}
last=v3d71/networks.txt
platform=$root/sys/bus/platform
gpu=     # name of its device
kind=    # folder for it
program= # in that folder

say() { echo "try-gpu: $*"; }
# stop WHAT [WAY OUT]
stop() {
    say "$1"
    [ $# -lt 2 ] || say "way out: $2"
    exit 2
}

driver_of() { basename "$(readlink "$platform/devices/$gpu/driver" 2>/dev/null || echo none)"; }

find_gpu() {
    for device in "$platform"/devices/*; do
        for file in */compatible.txt; do
            tr '\0' '\n' 2>/dev/null <"$device/of_node/compatible" | grep -qxF "$(cat "$file")" || continue
            gpu=$(basename "$device")
            kind=$(dirname "$file")
            program=./$kind/gramophone-gpu
            return
        done
    done
    stop "no GPU in the device tree: expected brcm,2711-v3d or brcm,2712-v3d, found neither" \
        "dtoverlay=vc4-kms-v3d in config.txt, then reboot"
}

check_system() {
    machine=$(uname -m)
    case $machine in
    aarch64) ;;
    arm*) stop "a 32-bit kernel: expected aarch64, found $machine" "arm_64bit=1 in config.txt, or a 64-bit system" ;;
    *) stop "not a Raspberry Pi: expected aarch64, found $machine" "copy the archive to the board, and run it there" ;;
    esac
    [ "$(id -u)" = 0 ] || stop "not root: expected user 0, found $(id -u)" "sudo sh try-gpu.sh"
    tr '\0' '\n' 2>/dev/null <"$root/proc/device-tree/compatible" | grep -qx 'brcm,bcm271[12]' ||
        stop "another board: expected a Raspberry Pi 4, 400, CM4, 5, 500 or CM5, found $(tr -d '\0' 2>/dev/null <"$root/proc/device-tree/model" || echo 'no device tree')"
    [ -e "$last" ] || stop "the archive was cut off: expected $last, its last file, found none" "copy pi.tar again"
    (: >result.new) 2>/dev/null || stop "this folder cannot be written to" "copy it elsewhere"
    rm -f result.new
}

check_tools() {
    [ ! -x "$program" ] || return 0
    command -v gcc >/dev/null || stop "no compiler: expected gcc, found none" "sudo apt-get install gcc"
    command -v make >/dev/null || stop "no make: expected it, found none" "sudo apt-get install make"
    case $(gcc -dumpmachine) in
    aarch64*) ;;
    *) stop "a 32-bit system on a 64-bit kernel: expected gcc for aarch64, found $(gcc -dumpmachine)" \
        "the 64-bit Raspberry Pi OS" ;;
    esac
}

check_kernel() {
    case $(cat "$root/sys/kernel/security/lockdown" 2>/dev/null) in
    *"[integrity]"* | *"[confidentiality]"*) stop "the kernel is locked down: /dev/mem is closed" \
        "secure boot off, or without lockdown= on the kernel's command line" ;;
    esac
    [ -e "$root/dev/mem" ] || stop "no /dev/mem: expected a kernel with DEVMEM, found none" "the distribution's own kernel"
    [ "$(cat "$root/proc/sys/kernel/io_uring_disabled" 2>/dev/null || echo 0)" -lt 2 ] ||
        stop "io_uring is off, and nothing else pins memory" "sudo sysctl kernel.io_uring_disabled=0"
    [ -e "$root/proc/self/pagemap" ] || stop "no /proc/self/pagemap: expected a kernel with PROC_PAGE_MONITOR" \
        "the distribution's own kernel"
    [ -d "$platform/drivers/simple-pm-bus" ] || [ -d "$platform/drivers/alarmtimer" ] ||
        stop "no driver that does nothing: expected simple-pm-bus or alarmtimer, found neither" \
            "a kernel with SIMPLE_PM_BUS or RTC_CLASS"
    free=$(awk '/^MemAvailable:/ {print int($2 / 1024)}' "$root/proc/meminfo")
    [ "${free:-0}" -ge 192 ] || stop "too little memory: expected 192 MiB, found ${free:-0} MiB" "end other programs"
    [ -d "$root/sys/kernel/mm/hugepages" ] ||
        say "note: this kernel has no huge pages (HUGETLBFS): large networks may find no memory in one piece"
}

check_clock() {
    [ ! -e "$root/dev/vcio" ] || return 0 # then the program asks the firmware
    release=$(uname -r)
    major=${release%%.*} minor=${release#*.}
    minor=${minor%%[!0-9]*}
    [ "$major" -lt 6 ] || { [ "$major" -eq 6 ] && [ "$minor" -lt 17 ]; } || [ -n "${GRAMOPHONE_CLOCK_IS_ON:-}" ] ||
        stop "the GPU's clock may be off, and no /dev/vcio to ask the firmware: expected Linux before 6.17, found $release" \
            "sudo GRAMOPHONE_CLOCK_IS_ON=1 sh try-gpu.sh tries it; a board that hangs needs its plug pulled"
}

check_gpu() {
    ! grep -qx brcm,2712-v3d "$kind/compatible.txt" ||
        tr '\0' '\n' <"$platform/devices/$gpu/of_node/reg-names" | grep -qx sms ||
        stop "the kernel's driver could not use the GPU afterwards: expected registers sms in the device tree, found none" \
            "sudo apt full-upgrade: Raspberry Pi's kernels have them since 2025"
    case $(driver_of) in
    v3d) ;;
    none) stop "the GPU has no driver: expected v3d, found none" "sudo modprobe v3d, or sudo sh try-gpu.sh --give-back" ;;
    simple-pm-bus | alarmtimer) stop "an earlier run was cut off and has the GPU" "sudo sh try-gpu.sh --give-back" ;;
    *) stop "another driver has the GPU: expected v3d, found $(driver_of)" ;;
    esac
    for node in "$platform/devices/$gpu"/drm/*; do
        for held in "$root"/proc/[0-9]*/fd/*; do
            [ "$(readlink "$held" 2>/dev/null)" = "/dev/dri/$(basename "$node")" ] || continue
            pid=${held%/fd/*}
            stop "the GPU is in use by $(cat "$pid/comm") ($(basename "$pid")), a desktop perhaps" \
                "sudo systemctl isolate multi-user.target"
        done
    done
}

build() {
    [ -x "$program" ] || make -s -C "$kind" gramophone-gpu >build.log 2>&1 ||
        stop "it does not compile: $(tail -n 1 build.log)" "sudo apt-get install gcc make libc6-dev; build.log has the rest"
}

# Waits for a program that replays: it would reach a GPU that is off.
give_back() {
    [ "$(driver_of)" != v3d ] || return 0
    $program give-back >/dev/null || say "the kernel's driver did not take the GPU back: reboot"
}

# The watcher too: it would give back what a next run has taken.
finish() {
    trap '' INT TERM HUP
    give_back
    kill -9 "$watcher"
}

# Gives the GPU back where this script is killed.
watch() {
    trap '' INT TERM HUP
    while kill -0 $$ 2>/dev/null; do sleep 1; done
    give_back
}

# same FILE EXPECTED: whether they are equal; prints it, or how large the largest difference is.
same() {
    cmp -s "$1" "$2" && echo "is the model's output: byte for byte" && return 0
    for file in "$1" "$2"; do od -A n -v -t f4 -w4 -j 128 "$file"; done | awk -v n="$(($(wc -c <"$1") / 4 - 32))" '
        NR <= n {a[NR] = $1; next}
        {d = a[NR - n] - $1; d = d < 0 ? -d : d; m = d > m ? d : m}
        END {print "differs from the model'"'"'s output: largest difference " m}'
    return 1
}

# one TRACE SLOT..: replay once, for the words; then as often as asked, for the times. A probe is replayed once, for
# where a job does not write to a page, a second replay finds there what later jobs of the first one wrote.
one() {
    trace=$1
    name=$(basename "$trace" .sgtr)
    shift
    out=result/$name
    options=
    count=$repeat is_probe=
    case " $*" in *" job"[0-9]*) count=1 is_probe=1 ;; esac
    for slot; do options="$options --output $slot=$out.$slot.npy"; done
    # shellcheck disable=SC2086 # options are words
    $program replay "$kind/$trace" $options --json >"$out.once.json" 2>"$out.txt" &&
        { [ -n "$is_probe" ] ||
            $program replay "$kind/$trace" $options --repeat "$count" --json >"$out.json" 2>>"$out.txt"; } || {
        say "$name: failed: $(grep '^error' "$out.txt" || tail -n 1 "$out.txt")"
        return 1
    }
    good=0
    for slot; do
        found=$(same "$out.$slot.npy" "$kind/expected/$name.$slot.npy") || good=1
        say "$name: $count replays, $slot $found"
    done
    return $good
}

board() {
    tr -d '\0' <"$root/proc/device-tree/model"
    echo
    uname -rv
    zcat "$root/proc/config.gz" 2>/dev/null | grep -E '^CONFIG_(IO_STRICT_)?DEVMEM|HUGETLBFS=|SIMPLE_PM_BUS|IO_URING='
}

case ${1:-} in
"" | --check | --give-back) ;;
*) stop "option: expected --check, --give-back or none, found $1" ;;
esac
say "a Raspberry Pi authenticates traces and checks them; it keeps nothing secret, for it has no memory firewall"
check_system
find_gpu
check_tools
if [ "${1:-}" = --give-back ]; then
    build
    give_back
    say "the GPU is with $(driver_of)"
    exit 0
fi
check_kernel
check_gpu
check_clock
[ "${1:-}" != --check ] || { say "nothing is in the way"; exit 0; }
build
rm -rf result && mkdir result && board >result/board.txt
say "$(head -n 1 result/board.txt), Linux $(uname -r)"
watch >/dev/null 2>&1 &
watcher=$!
trap finish EXIT
trap 'exit 130' INT TERM HUP
status=0
taken=$($program take 2>&1) || stop "the GPU cannot be taken: $taken"
while read -r trace slots; do
    # shellcheck disable=SC2086 # slots are words
    one "$trace" $slots || status=1
done <"$kind/networks.txt"
give_back
dmesg 2>/dev/null | grep -i -E 'v3d|asb|SError|Unhandled' | tail -n 40 >result/kernel.txt
tar -cf result.tar result
say "the GPU is with $(driver_of)"
say "please send result.tar back: $([ $status = 0 ] && echo all is as expected || echo a difference is as useful)"
exit $status
