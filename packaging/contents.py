"""Do the distributions hold what they should? `make dist-check` runs this.

python packaging/contents.py dist              the wheel and the source distribution in a folder
python packaging/contents.py --group release   print the requirements of a dependency group
"""

from __future__ import annotations

import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_MEGABYTES = 60.0  # of the wheel; an index takes 100, a model of spectra has 27


def requirements(group: str) -> list[str]:
    """Return the requirements of a group of pyproject.toml that includes no other."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [line for line in groups["dependency-groups"][group] if isinstance(line, str)]


def package_files() -> set[str]:
    """Return the files of the package, as a wheel names them."""
    paths = (ROOT / "src").rglob("*")
    return {
        path.relative_to(ROOT / "src").as_posix()
        for path in paths
        if path.is_file() and "__pycache__" not in path.parts
    }


def problems(folder: Path) -> list[str]:
    """Return what is wrong with the distributions of a folder."""
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    said = []
    if not wheel.name.endswith("-py3-none-any.whl"):
        said.append(f"{wheel.name} is not pure Python")
    if wheel.stat().st_size > MOST_MEGABYTES * 1e6:
        said.append(f"{wheel.name} has {wheel.stat().st_size / 1e6:.2f} MB")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    with tarfile.open(sdist) as archive:
        members = {name.partition("/")[2] for name in archive.getnames()}
    for kind, missing in (
        ("wheel lacks", package_files() - names),
        ("wheel has besides", names - package_files()),
        ("sdist lacks", {f"src/{name}" for name in package_files()} - members),
    ):
        said += [f"the {kind} {name}" for name in sorted(missing)]
    return said


def main() -> None:
    if sys.argv[1] == "--group":
        sys.stdout.write(" ".join(requirements(sys.argv[2])) + "\n")
        return
    said = problems(Path(sys.argv[1]))
    sys.exit("\n".join(said) if said else 0)


if __name__ == "__main__":
    main()
