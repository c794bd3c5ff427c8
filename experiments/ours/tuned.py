"""`Tuned` with its defaults beside scikit-learn's best, on every set of three kinds of output.

    python -m experiments.ours.tuned run --workers 8 --out FOLDER [--seconds 570] [--pack ALL.zip]
    python -m experiments.ours.tuned page --out FOLDER      # or ALL.zip: record, page and picture

15 sets of labels (example F1), 19 of rankings (Kendall's tau), 17 of several targets (aRRMSE).
`tuned_sets.py` has the protocol, `tuned_rivals.py` the rivals: forest, extra trees, boosting,
logistic and ridge regression, k-NN and chains, all within the seconds and on the cores that
`Tuned` has: 60 seconds and two cores; 15 seconds and one core for fewer than 1,000 rows. The last
fits come on top, and the record says what they took.

One set, outer fold and method is one job, a process of its own on cores of its own. What is done is
kept in the folder, so that a run goes on where it was; `--seconds` starts no job that might not end
in time. A worker is a pair of cores. `--inside` splits the training parts instead and looks at no
test row: for work on `Tuned`.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
import traceback
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.common import surroundings
from experiments.ours.tuned_sets import BUDGET, KINDS, SEED, SMALL, n_parts, part, row_scores

METHODS = ("tuned", "rivals")
#: Seconds that a job may need beyond its budget: the last fits, predictions, imports.
BEYOND = {"tuned": 60.0, "rivals": 120.0, "iokr": 60.0}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
THREADS += ("LOKY_MAX_CPU_COUNT",)


@dataclass(frozen=True)
class Job:
    """One set, outer fold and method."""

    kind: str
    data: str
    fold: int
    method: str
    small: bool

    @property
    def name(self) -> str:
        return f"{self.kind}_{self.data}_{self.fold}_{self.method}"


def jobs(kinds: list[str], names: list[str], methods: list[str], folds: int | None) -> list[Job]:
    """Return all jobs, those of large sets first, the largest of them before the others."""
    found = []
    for kind in kinds:
        for data in KINDS[kind].sets:
            if names and data not in names:
                continue
            rows = KINDS[kind].load(data)
            small = len(rows) < SMALL
            places = range(min(n_parts(rows), folds or n_parts(rows)))
            size = len(rows) * rows.Y.shape[1]
            found += [(size, Job(kind, data, i, m, small)) for i in places for m in methods]
    return [job for _, job in sorted(found, key=lambda pair: (pair[1].small, -pair[0]))]


# One job ---------------------------------------------------------------------------------------


def run_tuned(
    kind: str, part: Any, budget: float, threads: int
) -> tuple[str, dict[str, dict[str, Any]]]:
    """Fit `Tuned` with its defaults."""
    import skout

    clock = time.perf_counter()
    model = skout.Tuned(budget=budget, random_state=SEED).fit(part.X, part.Y)
    seconds = time.perf_counter() - clock
    report = {
        "predicted": model.predict(part.X_test),
        "setting": repr(model.best_estimator_),
        "said": model.summary(),
        "members": model.best_settings_,
        "fit_seconds": round(seconds, 2),
    }
    return "Tuned", {"Tuned": report}


def run_rivals(
    kind: str, part: Any, budget: float, threads: int
) -> tuple[str, dict[str, dict[str, Any]]]:
    """Fit scikit-learn's families."""
    from experiments.ours.tuned_rivals import best_of_scikit_learn

    return best_of_scikit_learn(kind, part.X, part.Y, part.X_test, budget, threads)


def run_iokr(
    kind: str, part: Any, budget: float, threads: int
) -> tuple[str, dict[str, dict[str, Any]]]:
    """Fit the library's model as it comes, which chooses nothing."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler, StandardScaler

    from skout import KernelRidge, sisokr

    scale = StandardScaler() if isinstance(part.X, np.ndarray) else MaxAbsScaler()
    model: Any = KernelRidge("gaussian")
    if kind != "targets":
        model = sisokr("gaussian", {"labels": "f1", "rankings": "kendall"}[kind], random_state=SEED)
    clock = time.perf_counter()
    found = make_pipeline(scale, model).fit(part.X, part.Y).predict(part.X_test)
    seconds = round(time.perf_counter() - clock, 2)
    return "iokr", {"iokr": {"predicted": found, "setting": "defaults", "fit_seconds": seconds}}


RUNNERS = {"tuned": run_tuned, "rivals": run_rivals, "iokr": run_iokr}


def carry_out(job: Job, folder: Path, scale: float, inside: bool) -> None:
    """Run one job in this process; write its rows (.npz), then what it says (.json)."""
    budget, threads = BUDGET[job.small]
    split = part(KINDS[job.kind].load(job.data), job.fold, inside)
    clock = time.perf_counter()
    first, report = RUNNERS[job.method](job.kind, split, budget * scale, threads)
    said: dict[str, Any] = {
        "kind": job.kind,
        "data": job.data,
        "fold": job.fold,
        "method": job.method,
        "first": first,
        "n_train": len(split.Y),
        "n_test": len(split.Y_test),
        "budget": budget * scale,
        "cores": threads,
        "seconds": round(time.perf_counter() - clock, 2),
        "models": {},
    }
    rows = {}
    for name, one in report.items():
        if "predicted" in one:
            rows[name] = row_scores(job.kind, split, one.pop("predicted")).astype(np.float32)
            one["score"] = _score(job.kind, rows[name])
        said["models"][name] = one
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / f"{job.name}.npz", test=split.test, **rows)
    text = json.dumps(said | {"where": surroundings()}, default=repr)
    (folder / f"{job.name}.part").write_text(text + "\n")
    (folder / f"{job.name}.part").rename(folder / f"{job.name}.json")


def _score(kind: str, rows: np.ndarray) -> float:
    from experiments.ours.tuned_sets import score

    return round(score(kind, rows.astype(np.float64)), 6)


# All jobs --------------------------------------------------------------------------------------


class Run:
    """Jobs in processes, each on cores of its own."""

    def __init__(self, options: argparse.Namespace, todo: list[Job]) -> None:
        self.options, self.folder = options, Path(options.out)
        self.end = time.monotonic() + options.seconds if options.seconds else float("inf")
        self.queues: dict[bool, queue.SimpleQueue[Job]] = {
            small: queue.SimpleQueue() for small in (True, False)
        }
        self.left = len(todo)
        for job in todo:
            self.queues[job.small].put(job)
        self.failed: list[str] = []
        self.lock = threading.Lock()

    def start(self) -> None:
        """Run large sets on pairs of cores, then small ones on each core."""
        cores = sorted(os.sched_getaffinity(0))
        pairs = [cores[2 * i : 2 * i + 2] for i in range(self.options.workers)]
        workers = [threading.Thread(target=self.work, args=(pair,)) for pair in pairs if pair]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def work(self, pair: list[int]) -> None:
        self.drain(self.queues[False], pair)
        halves = [threading.Thread(target=self.drain, args=(self.queues[True], [c])) for c in pair]
        for half in halves:
            half.start()
        for half in halves:
            half.join()

    def drain(self, jobs: queue.SimpleQueue[Job], cores: list[int]) -> None:
        while True:
            try:
                job = jobs.get_nowait()
            except queue.Empty:
                return
            budget = BUDGET[job.small][0] * self.options.scale
            expected = budget + BEYOND[job.method] * (0.1 if job.small else 0.5)
            if time.monotonic() + expected > self.end:
                continue
            self.one(job, cores, 2.0 * (budget + BEYOND[job.method]))

    def one(self, job: Job, cores: list[int], limit: float) -> None:
        """Run a job in a process that sees only its cores, and say how it went."""
        options = self.options
        words = [sys.executable, "-m", "experiments.ours.tuned", "job"]
        words += [job.kind, job.data, str(job.fold), job.method]
        words += ["--out", str(self.folder), "--scale", str(options.scale)]
        words += ["--inside"] * options.inside
        threads = str(BUDGET[job.small][1])
        environment = {**os.environ, **dict.fromkeys(THREADS, threads)}
        clock = time.monotonic()
        try:
            done = subprocess.run(
                words,
                env=environment,
                cwd=Path(__file__).parents[2],
                capture_output=True,
                text=True,
                timeout=limit,
                check=False,
                preexec_fn=lambda: os.sched_setaffinity(0, cores),
            )
            problem = done.stderr[-4000:] if done.returncode else ""
        except subprocess.TimeoutExpired:
            problem = f"stopped after {limit:.0f} s"
        with self.lock:
            self.left -= 1
            seconds = time.monotonic() - clock
            print(f"{self.left:4d} left, {job.name}: {seconds:.0f} s", flush=True)
            if problem:
                self.failed.append(job.name)
                (self.folder / f"{job.name}.txt").write_text(problem)
                print(f"     FAILED, see {job.name}.txt: {problem.strip()[-200:]}", flush=True)


def run(options: argparse.Namespace) -> None:
    """Run what is not in the folder yet."""
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    if options.unpack and Path(options.unpack).is_file():
        zipfile.ZipFile(options.unpack).extractall(folder)
    wanted = jobs(options.kinds, options.sets, options.methods, options.folds)
    todo = [job for job in wanted if not (folder / f"{job.name}.json").is_file()]
    print(f"{len(wanted)} jobs, {len(todo)} to do", flush=True)
    clock = time.monotonic()
    work = Run(options, todo)
    work.start()
    print(f"{time.monotonic() - clock:.0f} s, {work.left} not started, {len(work.failed)} failed")
    if options.pack:
        pack(folder, Path(options.pack))


def pack(folder: Path, target: Path) -> None:
    """Put all that the jobs wrote into one .zip file."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            if path.suffix in (".json", ".npz", ".txt"):
                archive.write(path, path.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("run", "job", "page"):
        command = commands.add_parser(name)
        command.add_argument("--out", default=str(Path(__file__).parents[1] / "cache" / "tuned"))
        if name == "page":
            continue
        command.add_argument("--scale", type=float, default=1.0, help="of all budgets")
        command.add_argument("--inside", action="store_true", help="look at no test row")
    add = commands.choices["run"].add_argument
    add("--workers", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="pairs of cores")
    add("--seconds", type=float, help="start no job that might end later")
    add("--pack", help="put the folder into this .zip file at the end")
    add("--unpack", help="start with the jobs of such a file, if it is there")
    add("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    add("--sets", nargs="+", default=[])
    add("--methods", nargs="+", default=list(METHODS), choices=list(RUNNERS))
    add("--folds", type=int, help="only the first of them")
    add = commands.choices["job"].add_argument
    add("kind", choices=list(KINDS))
    add("data")
    add("fold", type=int)
    add("method", choices=list(RUNNERS))
    options = parser.parse_args()
    if options.command == "run":
        run(options)
    elif options.command == "job":
        small = len(KINDS[options.kind].load(options.data)) < SMALL
        job = Job(options.kind, options.data, options.fold, options.method, small)
        try:
            carry_out(job, Path(options.out), options.scale, options.inside)
        except Exception:
            traceback.print_exc()
            sys.exit(1)
    else:
        from experiments.ours import tuned_page

        tuned_page.write(Path(options.out))


if __name__ == "__main__":
    main()
