#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Runs the network three times on this board's GPU, and packs what it did into result.tar.
# PYTHON: the Python that has ncnn (python3 -m venv v && v/bin/pip install ncnn; PYTHON=v/bin/python).
set -eu
cd "$(dirname "$0")"
rm -rf out result.tar
mkdir out
{
    uname -srm
    tr -d '\0' </proc/device-tree/model && echo
} >out/board
for run in 1 2 3; do
    mkdir "out/$run"
    # Relative names: a folder's name may have what separates the names in LD_PRELOAD.
    # shellcheck disable=SC2046,SC2086 # words to be split
    LD_PRELOAD=./recorder.so GRAMOPHONE_CAPTURE="out/$run/capture" ${PYTHON:-python3} infer.py \
        net.param "$run/net.bin" "out/$run" --reference $(cat "$run/inputs")
    [ -s "out/$run/capture" ] || {
        echo "error: run $run left no recording: did ncnn use another GPU than the V3D?" >&2
        exit 2
    }
done
tar -cf result.tar.part kit.json out
mv result.tar.part result.tar
echo "result.tar: send it back, then: gramophone record pi result.tar -o NAME.raw.gtr"
