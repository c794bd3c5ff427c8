"""A text encoder in a few small files: weights as 8-bit integers, with a scale for each row.

python -m experiments.papers.text2mol_pack FOLDER N    writes FOLDER_0.npz to N-1 into the cache
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from experiments.papers.text2mol_data import CACHE

OTHERS = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


def pack(folder: Path, n_pieces: int) -> None:
    """Write the encoder of a folder as pieces of about the same size, the first with the rest."""
    weights = load_file(folder / "model.safetensors")
    pieces: list[dict[str, np.ndarray]] = [{} for _ in range(n_pieces)]
    pieces[0] = {
        f"file/{name}": np.frombuffer((folder / name).read_bytes(), np.uint8) for name in OTHERS
    }
    sizes = [0] * n_pieces
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
        np.savez_compressed(CACHE / f"{folder.name}_{k}.npz", **piece)


def unpack(name: str) -> Path:
    """Put the pieces together; return the folder of the encoder."""
    folder = CACHE / name
    if not (folder / "model.safetensors").is_file():
        folder.mkdir(exist_ok=True)
        stored: dict[str, np.ndarray] = {}
        for path in sorted(CACHE.glob(f"{name}_?.npz")):
            with np.load(path) as piece:
                stored |= {part: piece[part] for part in piece.files}
        weights = {}
        for part, values in stored.items():
            if part.startswith("file/"):
                (folder / part.removeprefix("file/")).write_bytes(values.tobytes())
            elif not part.endswith("/scale"):
                scale = stored.get(part + "/scale", np.float32(1.0))
                weights[part] = values.astype(np.float32) * scale
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


if __name__ == "__main__":
    pack(Path(sys.argv[1]), int(sys.argv[2]))
