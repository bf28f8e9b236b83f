#!/bin/sh
# Condense the built-in data set and score the result. Every step is a command that you can repeat.
# Usage: PRISM=prism sh examples/demo.sh FOLDER
set -eu
out=$1
prism=${PRISM:-prism}
recipe=demo
# Prints a command as it can be pasted, then runs it.
step() {
    printf '$ %s' "$prism"
    for word; do
        case $word in
        *[!A-Za-z0-9_./-]*) printf " '%s'" "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    echo
    "$prism" "$@"
}

rm -rf "$out"
mkdir -p "$out"
step motion -o "$out/videos" --kind glyphs --train-per-class 60 --test-per-class 30 --size 48
step ingest "$out/videos" -o "$out/store" --recipe "$recipe"
step condense "$out/store" -o "$out/prism.safetensors" --recipe "$recipe"
step export "$out/prism.safetensors" -o "$out/condensed.gif" --to gif
echo "The condensed videos play in $out/condensed.gif. Next, how well networks learn from them:"
step select "$out/store" -o "$out/random.safetensors" --recipe "$recipe"
step evaluate "$out/prism.safetensors" --data "$out/store" -o "$out/prism.json" --recipe "$recipe" \
    --label "condensed"
step evaluate "$out/random.safetensors" --data "$out/store" -o "$out/random.json" --recipe "$recipe" \
    --label "random clips"
step report "$out/prism.json" "$out/random.json" -o "$out/page.html"
echo "That is a first page. What follows adds rivals and a ceiling, and sixteen networks make its headline exact:"
step condense "$out/store" -o "$out/start.safetensors" --recipe "$recipe" --iterations 0
step condense "$out/store" -o "$out/paper.safetensors" --recipe paper --recipe "$recipe" --lr 0
step select "$out/store" -o "$out/herding.safetensors" --recipe "$recipe" --method herding --epochs 5
step evaluate "$out/start.safetensors" --data "$out/store" -o "$out/start.json" --recipe "$recipe" \
    --label "small mean clips"
step evaluate "$out/paper.safetensors" --data "$out/store" -o "$out/paper.json" --recipe "$recipe" \
    --label "PRISM as published"
step evaluate "$out/herding.safetensors" --data "$out/store" -o "$out/herding.json" --recipe "$recipe" \
    --label "herding"
step evaluate "$out/prism.safetensors" --data "$out/store" -o "$out/prism.json" --recipe "$recipe" \
    --seeds 16 --label "condensed" --resume
step evaluate --train "$out/store" --data "$out/store" -o "$out/full.json" --recipe "$recipe" \
    --epochs 5 --label "all training clips"
step report "$out/full.json" "$out/prism.json" "$out/start.json" "$out/herding.json" "$out/random.json" \
    "$out/paper.json" -o "$out/page.html" --overwrite
