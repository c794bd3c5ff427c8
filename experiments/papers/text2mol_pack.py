"""A text encoder in a few small files: weights as 8-bit integers, with a scale for each row.

python -m experiments.papers.text2mol_pack FOLDER    writes cache/encoder_0.npz, cache/encoder_1.npz
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from experiments.papers.text2mol_data import CACHE

OTHERS = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
N_PIECES = 2


def pack(folder: Path) -> None:
    """Write the encoder of a folder as pieces of about the same size."""
    weights = load_file(folder / "model.safetensors")
    pieces: list[dict[str, np.ndarray]] = [{} for _ in range(N_PIECES)]
    sizes = [0] * N_PIECES
    for name, values in sorted(weights.items(), key=lambda item: -item[1].size):
        if "pooler" in name or "position_ids" in name:
            continue
        k = int(np.argmin(sizes))
        sizes[k] += values.size
        if values.ndim == 2:
            scale = np.abs(values).max(axis=1, keepdims=True) / 127.0 + 1e-12
            pieces[k][name] = np.round(values / scale).astype(np.int8)
            pieces[k][name + "/scale"] = scale.astype(np.float32)
        else:
            pieces[k][name] = values
    for k, piece in enumerate(pieces):
        np.savez_compressed(CACHE / f"encoder_{k}.npz", **piece)
    (CACHE / "encoder").mkdir(exist_ok=True)
    for name in OTHERS:
        shutil.copy(folder / name, CACHE / "encoder" / name)


def unpack() -> Path:
    """Put the pieces together; return the folder of the encoder."""
    folder = CACHE / "encoder"
    if not (folder / "model.safetensors").is_file():
        weights: dict[str, np.ndarray] = {}
        for k in range(N_PIECES):
            with np.load(CACHE / f"encoder_{k}.npz") as piece:
                stored = {name: piece[name] for name in piece.files}
            for name, values in stored.items():
                if not name.endswith("/scale"):
                    scale = stored.get(name + "/scale", np.float32(1.0))
                    weights[name] = values.astype(np.float32) * scale
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


if __name__ == "__main__":
    pack(Path(sys.argv[1]))
