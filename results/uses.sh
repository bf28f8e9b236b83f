# Make what docs/uses.md measures again: five sets of each kind for two data sets, then the scores by the examples, of
# which the last needs the library transformers. It takes some hours of a CPU core, and repeats nothing that is in
# runs/uses. The store runs/glyphs is that of docs/results.md; runs/ucf101-distinct is made as runs/ucf101-21 is there,
# from the list of all 545 training clips.
set -e
mkdir -p runs/uses results/uses
prism() { python -m prism "$@" --no-progress; }
missing() { ! [ -e "$1" ]; }

for store in ucf101-distinct glyphs; do
    at=runs/uses/$store
    for seed in 0 1 2 3 4; do
        condensed() {
            out=$at-$1-$seed.safetensors; shift
            missing "$out" || return 0
            prism condense runs/$store -o "$out" --recipe small "$@" --seed $seed --network-seed $seed
        }
        coded() {  # name, clips of each class, quality of H.264
            out=$at-$1-$seed.safetensors
            missing "$out" || return 0
            prism select runs/$store -o "$out" --recipe takes --vpc 1 --takes "$2" --quality "$3" --seed $seed
        }
        condensed default
        condensed packed --recipe packed --storage h264
        condensed ce --recipe cross-entropy
        case $store in
        # A little more bytes than the condensed sets.
        ucf101-distinct) coded lowest5 5 0; coded lowest12 12 0; coded coded6 6 35 ;;
        glyphs) coded lowest3 3 0; coded lowest6 6 0; coded coded5 5 35 ;;
        esac
    done
    case $store in
    ucf101-distinct) rivals="lowest5 lowest12 coded6" pixels="1536 6144 98304" ;;
    glyphs) rivals="lowest3 lowest6 coded5" pixels="864 55296" ;;
    esac
    sets=$(printf "$at-%s-{seed}.safetensors " default packed ce $rivals)
    out=runs/uses/memory-$store.json
    missing $out || continue
    python -m examples.class_incremental runs/$store $sets --pixels $pixels --output $out
done

at=runs/uses/ucf101-distinct
for seed in 0 1 2 3 4; do
    missing $at-random-$seed.safetensors &&
        prism select runs/ucf101-distinct -o $at-random-$seed.safetensors --vpc 1 --seed $seed
    for name in random default ce coded6; do
        missing $at-$name-$seed && prism export $at-$name-$seed.safetensors -o $at-$name-$seed --to tensors
    done
done
exports=$(printf "$at-%s-{seed} " random default ce coded6)
out=runs/uses/transformer-ucf101-distinct.json
! missing $out || python -m examples.finetune_transformers runs/ucf101-distinct $exports --output $out
cp runs/uses/*.json results/uses
