"""One entry for each table and figure of the papers: what makes it, what shows it, what differs.

`reproduce.py` runs the entries, `page.py` shows them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from experiments.papers import (
    figure_3_1,
    figure_4_2,
    figure_5_2,
    figure_5_3,
    figure_5_5,
    table_3_3,
    table_3_4,
    table_4_2,
    tables,
    verdicts,
)
from experiments.papers.massbank_plan import plan as massbank_plan
from experiments.pieces import Plan, Size


@dataclass(frozen=True)
class Config:
    """A table or figure of the papers.

    Attributes
    ----------
    name, title : str
    show : tuple of functions
        Each prints a part of the page from the records.
    verdict : function
        Returns the rows of the paper beside ours.
    records : tuple of str
        What `show` and `verdict` read.
    plan : function, optional
        The run on a CPU; configs may share one. Without it the records are all there is.
    needs : str
        Data, packages; "" is nothing.
    gpu : str
        What was made on a GPU and is shown from the committed record.
    figures : tuple of str
    """

    name: str
    title: str
    show: tuple[Callable[[], Any], ...]
    verdict: Callable[[], list[verdicts.Row]]
    records: tuple[str, ...]
    plan: Callable[[Size], Plan] | None = None
    needs: str = ""
    gpu: str = ""
    figures: tuple[str, ...] = ()


_GAUSSIANS = tuple(f"Gaussian, gamma {g}" for g in ("1e-09", "1e-06", "0.001", "1"))

CONFIGS = (
    Config(
        "figure-3.1",
        "Robust regression with Huber's loss: error and time of the sketches",
        (partial(tables.figure_3_1, "huber"),),
        verdicts.figure_3_1,
        ("figure_3_1",),
        figure_3_1.plan,
        figures=("figure_3_1_huber.png",),
    ),
    Config(
        "figure-.2",
        "The same with the epsilon-insensitive loss (appendix A)",
        (partial(tables.figure_3_1, "epsilon"),),
        verdicts.figure_a_2,
        ("figure_3_1",),
        figure_3_1.plan,
        figures=("figure_3_1_epsilon.png",),
    ),
    Config(
        "table-3.3",
        "Joint quantile regression, Boston",
        (tables.table_3_3,),
        verdicts.table_3_3,
        ("table_3_3",),
        table_3_3.plan,
        needs="qr_boston.csv.gz",
    ),
    Config(
        "table-3.4",
        "Multi-output ridge regression, rf1",
        (tables.table_3_4, tables.table_3_4_folds),
        verdicts.table_3_4,
        ("table_3_4_official", "table_3_4_folds"),
        table_3_4.plan,
        needs="mtr_rf1.npz",
    ),
    Config(
        "table-.2",
        "Multi-output ridge regression, rf1: each target (appendix A)",
        (),
        verdicts.table_2,
        ("table_3_4_official",),
        table_3_4.plan,
        needs="mtr_rf1.npz",
    ),
    Config(
        "figure-4.2",
        "Synthetic least squares: time with m_x and m_y, and the trade-off",
        (tables.figure_4_2,),
        verdicts.figure_4_2,
        ("figure_4_2",),
        figure_4_2.plan,
        figures=("figure_4_2.png",),
    ),
    Config(
        "figure-B.4",
        "Synthetic least squares: error of SISOKR with m_x and m_y",
        (tables.figure_b_4,),
        verdicts.figure_b_4,
        ("figure_4_2",),
        figure_4_2.plan,
        figures=("figure_b_4.png",),
    ),
    Config(
        "figure-B.5",
        "Synthetic least squares: error of SIOKR and ISOKR",
        (tables.figure_b_5,),
        verdicts.figure_b_5,
        ("figure_4_2",),
        figure_4_2.plan,
        figures=("figure_b_5.png",),
    ),
    Config(
        "table-4.2",
        "Label sets, bibtex: F1 of the four methods",
        (tables.table_4_2,),
        verdicts.table_4_2,
        ("table_4_2", "table_4_2_lambda", "table_4_2_rivals"),
        table_4_2.plan,
        needs="ml_bibtex.npz",
    ),
    Config(
        "table-4.3",
        "Label sets, bibtex: seconds of the four methods",
        (tables.table_4_3,),
        verdicts.table_4_3,
        ("table_4_3",),
        table_4_2.plan_seconds,
        needs="ml_bibtex.npz",
    ),
    Config(
        "table-4.4",
        "Metabolite identification, on MassBank",
        (tables.table_4_4, tables.massbank),
        verdicts.table_4_4,
        ("massbank", "table_4_4"),
        massbank_plan,
        needs="massbank_*.parquet, RDKit, the candidates that massbank.py prepares",
    ),
    Config(
        "figure-5.2",
        "DSOKR on synthetic least squares",
        (tables.figure_5_2,),
        verdicts.figure_5_2,
        ("figure_5_2", "figure_5_2_perfect"),
        figure_5_2.plan,
        needs="PyTorch for the networks",
        gpu="the networks",
        figures=("figure_5_2.png",),
    ),
    Config(
        "figure-5.3",
        "Perfect h on SMI2Mol for graph kernels",
        (tables.figure_5_3,),
        verdicts.figure_5_3,
        ("figure_5_3", "figure_5_3_draws", "figure_5_3_large"),
        figure_5_3.plan,
        needs="qm9_smiles.csv.gz, RDKit",
        figures=("figure_5_3.png",),
    ),
    Config(
        "table-5.1",
        "SMILES to molecule, QM9",
        (tables.smi2mol,),
        verdicts.table_5_1,
        ("smi2mol",),
        gpu="all of it",
        figures=("smi2mol.png",),
    ),
    Config(
        "table-5.2",
        "Text to molecule, ChEBI-20",
        (partial(tables.text2mol, ("Hits@1 %", "Hits@10 %", "MRR")),),
        verdicts.table_5_2,
        ("text2mol",),
        gpu="all of it",
    ),
    Config(
        "table-C.4",
        "Text to molecule, ChEBI-20, with the mean rank (appendix C)",
        (partial(tables.text2mol, ("Hits@1 %", "Hits@10 %", "MRR", "mean rank")),),
        verdicts.table_4,
        ("text2mol",),
        gpu="all of it",
    ),
    Config(
        "figure-5.5",
        "Perfect h on ChEBI-20, cosine and Gaussian kernels",
        (partial(tables.perfect_mrr, ("cosine", "whitened cosine", "Gaussian, gamma 1e-06")),),
        verdicts.figure_5_5,
        ("figure_5_5",),
        figure_5_5.plan,
        needs="text_molecule_*.csv.gz, chebi20_candidate_pool.csv.gz, mol2vec_*.npz, RDKit",
        figures=("figure_5_5.png",),
    ),
    Config(
        "figure-C.7",
        "Perfect h on ChEBI-20, widths of the Gaussian kernel",
        (partial(tables.perfect_mrr, _GAUSSIANS),),
        verdicts.figure_c_7,
        ("figure_5_5", "figure_5_5_single"),
        partial(figure_5_5.plan, single=True),
        needs="as figure-5.5",
    ),
)
