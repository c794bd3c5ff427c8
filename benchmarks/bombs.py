"""Small files that unpack to gigabytes: what each reader takes before it refuses them.

    python -m benchmarks.bombs

Each file is read in a process of its own. `grown_megabytes` is how far its peak memory rises above
what it had before, `cpu_seconds` what it computed. `before` are figures of an attack on commit
4b718a2, where it tried the same files.
"""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

from benchmarks.measure import print_table, write_record

MEGABYTES = {"array": 600, "line": 600, "others": 300}
# Peak memory in MB and seconds.
BEFORE = {"array of zeros.mzML": (1600, 14), "one line.mgf.gz": (1700, None)}
READ = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
from skout.readers import read_massbank, read_mgf, read_msp, read_mzml, read_sdf, read_smiles
from skout.apps.spectra.readers.molecules import stream_molecules

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))

path, name = sys.argv[1:]
readers = {"mgf": read_mgf, "msp": read_msp, "txt": read_massbank, "mzML": read_mzml}
readers |= {"sdf": read_sdf, "smi": read_smiles}
readers |= {"pool": lambda path: list(stream_molecules(path))}
before, clock, error = peak(), time.process_time(), None
try:
    readers[name](path)
except ValueError as found:
    error = str(found)
found = {"grown_megabytes": (peak() - before) / 1024, "cpu_seconds": time.process_time() - clock}
print(json.dumps(found | {"error": error}))
"""
TERM = '<cvParam accession="MS:{}" value="{}"/>'


def packed(start: bytes, repeated: bytes, megabytes: int, end: bytes = b"") -> bytes:
    """Return an archive of one text many times."""
    return gzip.compress(start + repeated * (megabytes * 10**6 // len(repeated)) + end, 9)


def mzml(megabytes: int) -> bytes:
    """Return a spectrum with an array of zeros."""
    binary = base64.b64encode(zlib.compress(bytes(megabytes * 10**6), 9)).decode()
    terms = "".join(TERM.format(number, "") for number in (1000523, 1000574, 1000514))
    return (
        f"<mzML><run><spectrumList><spectrum>{TERM.format(1000511, 2)}<binaryDataArray>{terms}"
        f"<binary>{binary}</binary></binaryDataArray></spectrum></spectrumList></run></mzML>"
    ).encode()


def files() -> dict[str, tuple[str, bytes]]:
    """Return the names of files, the reader of each, and what is in it."""
    most = MEGABYTES["others"]
    head = b"<mzML><run><spectrumList><spectrum>"
    return {
        "array of zeros.mzML": ("mzML", mzml(MEGABYTES["array"])),
        "one line.mgf.gz": ("mgf", packed(b"", b"A", MEGABYTES["line"])),
        "one record of peaks.mgf.gz": ("mgf", packed(b"BEGIN IONS\n", b"1 1\n", most)),
        "many spectra.mgf.gz": ("mgf", packed(b"", b"BEGIN IONS\n1 1\nEND IONS\n", most)),
        "one line of peaks.msp.gz": ("msp", packed(b"Name: a\nNum Peaks: 1\n", b"1 1;", most)),
        "one field.txt.gz": ("txt", packed(b"ACCESSION: ", b"A", most)),
        "text.mzML.gz": ("mzML", packed(head, b"A", most)),
        "elements.mzML.gz": ("mzML", packed(head, b"<a/>", most)),
        "one line.smi.gz": ("smi", packed(b"", b"C", most)),
        "many molecules.smi.gz": ("smi", packed(b"", b"C\n", most)),
        "one molecule.sdf.gz": ("sdf", packed(b"", b"C\n", most)),
        "one line of a pool.smi.gz": ("pool", packed(b"", b"C", most)),
    }


def main() -> None:
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (reader, content) in files().items():
            path = Path(folder) / name
            path.write_bytes(content)
            run = [sys.executable, "-c", READ, str(path), reader]
            done = subprocess.run(run, capture_output=True, text=True, check=True)
            grown, seconds = BEFORE.get(name, (None, None))
            before = {"before_megabytes": grown, "before_seconds": seconds}
            size = {"file": name, "megabytes": len(content) / 1e6}
            rows.append(size | before | json.loads(done.stdout))
    print_table(rows, [column for column in rows[0] if column != "error"])
    print(write_record("bombs", {"megabytes_unpacked": MEGABYTES}, rows))


if __name__ == "__main__":
    main()
