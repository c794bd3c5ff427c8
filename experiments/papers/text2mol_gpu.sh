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

$text2mol vectors 2>&1 | log vectors
mpnet="--encoder all-mpnet-base-v2 --out $out --until $until"
minilm="--encoder all-MiniLM-L6-v2 --out $out --until $until"
case $1 in
trial)
    $text2mol pretrain $mpnet --runs dsokr:0 contrastive:0 2>&1 | log mpnet &
    $text2mol pretrain $minilm --epochs 4 --runs dsokr:0 contrastive:0 regression:0 dsokr-unread:0 \
        2>&1 | log minilm &
    ;;
esac
nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv,noheader -l 15 >"$out/gpu.log" 2>&1 &
monitor=$!
wait %1 %2
kill $monitor 2>/dev/null
