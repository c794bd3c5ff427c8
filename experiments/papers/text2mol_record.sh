#!/usr/bin/env bash
# The record, the figure and the pages of text to molecule, from what `text2mol_gpu.sh` wrote:
#     bash experiments/papers/text2mol_record.sh FOLDER
set -eu
export PYTHONPATH="src:.${PYTHONPATH:+:$PYTHONPATH}"
python=${PYTHON:-.venv/bin/python}
$python -m experiments.papers.text2mol evaluate --out "$1"
if ! grep -q text2mol.png experiments/papers/entries.py; then # the pages show it from now on
    sed -i '/"table-5.2"/,/gpu=/ s/gpu="all of it",/&\n        figures=("text2mol.png",),/' experiments/papers/entries.py
fi
$python -m experiments.page
$python -m experiments.ours.beyond page
