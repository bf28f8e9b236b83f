#!/bin/sh
# Condense the built-in data set and score the result. Every step is a command that you can repeat.
# Usage: PRISM=prism sh examples/demo.sh FOLDER
set -eu
out=$1
prism=${PRISM:-prism}
recipe=demo
step() { echo "\$ prism $*"; "$prism" "$@"; }
score() { step evaluate "$out/$1.safetensors" --data "$out/store" -o "$out/$1.json" --recipe "$recipe" --label "$2"; }

rm -rf "$out"
mkdir -p "$out"
step motion -o "$out/videos" --kind glyphs --train-per-class 60 --test-per-class 30 --size 48
step ingest "$out/videos" -o "$out/store" --recipe "$recipe"
step condense "$out/store" -o "$out/prism.safetensors" --recipe "$recipe"
step condense "$out/store" -o "$out/paper.safetensors" --recipe paper --recipe "$recipe" --lr 0
step select "$out/store" -o "$out/random.safetensors" --recipe "$recipe"
step select "$out/store" -o "$out/herding.safetensors" --recipe "$recipe" --method herding --epochs 5
score prism "condensed"
score paper "PRISM, as published"
score random "random clips"
score herding "herding"
step evaluate --train "$out/store" --data "$out/store" -o "$out/full.json" --recipe "$recipe" \
    --epochs 15 --seeds 2 --label "all training clips"
step report "$out/full.json" "$out/prism.json" "$out/herding.json" "$out/random.json" "$out/paper.json" \
    -o "$out/page.html"
