#!/usr/bin/env bash
# Text to molecule on a GPU, several networks at a time:
#     bash experiments/papers/text2mol_gpu.sh trial|final SECONDS OUT
# Nothing is begun that would end after so many seconds. What `text2mol_pack.py` and
# `text2mol.py prepare` wrote is in experiments/cache, the latter perhaps as .npz.xz.
set -u
until=$(($(date +%s) + $2))
out=$3
text2mol=${TEXT2MOL:-python3 -m experiments.papers.text2mol}
cache=${CACHE:-experiments/cache}
export PYTHONPATH="src:.${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=true HF_HUB_OFFLINE=1
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True OMP_NUM_THREADS=${OMP_NUM_THREADS:-6}
mkdir -p "$out"
if [ ! -f "$cache/text2mol.npz" ]; then
    python3 -c "import lzma, shutil; shutil.copyfileobj(lzma.open('$cache/text2mol.npz.xz'), open('$cache/text2mol.npz', 'wb'))"
fi

log() { # prefix every line of a process by its name
    sed -u "s/^/$1: /" | grep --line-buffered -v -e MISSING -e 'Loading weights' -e '^[a-z0-9-]*: $' | tee "$out/$1.log"
}

options="--encoder all-MiniLM-L6-v2 --out $out --until $until"
$text2mol vectors $options 2>&1 | log vectors # which the others then read
nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv,noheader -l 15 >"$out/gpu.log" 2>&1 &
monitor=$!
trap 'kill $monitor 2>/dev/null' EXIT
case $1 in
trial) # does all of it learn? a few epochs
    $text2mol pretrain $options --epochs 1 --runs read:0:1 2>&1 | log read
    ;;
final)
    $text2mol networks $options --runs unread:0:1 unread:0:0.25 unread:0:0.5 unread:{1,2}:1 unread:{1,2}:0.25 \
        2>&1 | log unread &
    jobs=$!
    $text2mol pretrain $options --epochs 4 --runs read:0:1 read:0:0.25 read:0:0.5 2>&1 | log read0 &
    jobs="$jobs $!"
    for seed in 1 2; do
        (
            until [ -f "$cache/pretrained_all-MiniLM-L6-v2.pt" ] || [ "$(date +%s)" -gt "$until" ]; do
                sleep 1
            done
            sleep 2
            $text2mol networks $options --runs read:$seed:1 read:$seed:0.25 read:$seed:0.5 2>&1 |
                log read$seed
        ) &
        jobs="$jobs $!"
    done
    wait $jobs
    ;;
esac
