#!/bin/sh
# Condense the built-in data set and score the result. Every step is a command that you can repeat.
# Usage: PRISM=prism sh examples/demo.sh FOLDER
set -eu
out=$1
prism=${PRISM:-prism}
recipe=demo
step() { echo "\$ prism $*"; "$prism" "$@"; }

rm -rf "$out"
mkdir -p "$out"
step motion -o "$out/videos"
step ingest "$out/videos" -o "$out/store" --recipe "$recipe"
step condense "$out/store" -o "$out/prism.safetensors" --recipe "$recipe"
step condense "$out/store" -o "$out/literal.safetensors" --recipe "$recipe" --vpc 3 --init noise \
    --initial-keyframes 2 --insertion gradient --real-moments fresh --batch-real 8 --iterations 60
step select "$out/store" -o "$out/random.safetensors" --recipe "$recipe"
step select "$out/store" -o "$out/takes.safetensors" --recipe takes --vpc 3
step evaluate "$out/prism.safetensors" --data "$out/store" -o "$out/prism.json" --recipe "$recipe" \
    --label "PRISM, real key-frames"
step evaluate "$out/literal.safetensors" --data "$out/store" -o "$out/literal.json" --recipe "$recipe" \
    --label "PRISM, literal (noise)"
step evaluate "$out/random.safetensors" --data "$out/store" -o "$out/random.json" --recipe "$recipe" \
    --label "random selection"
step evaluate "$out/takes.safetensors" --data "$out/store" -o "$out/takes.json" --recipe "$recipe" \
    --label "coded takes"
step evaluate --train "$out/store" --data "$out/store" -o "$out/full.json" --recipe "$recipe" \
    --epochs 10 --seeds 2 --label "all training clips"
step report "$out/full.json" "$out/prism.json" "$out/random.json" "$out/takes.json" \
    "$out/literal.json" -o "$out/page.html"
