"""The papers in ten commands: what each message is, and what shows it in a few minutes on a CPU.

make reproduce ONLY=tractable   and so on; docs/ten_commands.md has them all
"""

from __future__ import annotations

from experiments.common import read_record
from experiments.ours import robust_outputs, tractable
from experiments.papers import figure_5_2, verdicts
from experiments.papers.entries import CONFIGS, Config
from experiments.papers.verdicts import Row, Value, claim, own


def robust() -> list[Row]:
    """Return what two robust losses gain over the squared one, where outputs are wrong."""
    record = read_record("robust_outputs")
    draws = record["settings"]["seeds"]
    rows = []
    for row in record["results"][1:]:
        mean, spread = row["MRR: gain"]
        margin = Value(mean, spread, spread / draws**0.5)
        text = f"MRR {row['MRR'][0]:.3f}, {mean:+.3f} beside the squared loss"
        said = claim(row["loss"], "better where outputs are wrong", text, margin)
        rows.append(own(said, "the paper shows it on no data"))
    return rows


#: Messages that no table or figure of the papers shows by itself in minutes.
MESSAGES = (
    Config(
        "dsokr",
        "DSOKR beside a network of all outputs, with a thirteenth of its weights",
        (),
        verdicts.figure_5_2,
        ("figure_5_2",),
        figure_5_2.plan_networks,
        needs="PyTorch",
    ),
    Config(
        "robust-losses",
        "Robust losses help where some training outputs are wrong",
        (),
        robust,
        ("robust_outputs",),
        robust_outputs.plan,
        needs="usps.npz, PyTorch",
    ),
    Config(
        "tractable",
        "SISOKR is tractable where IOKR is not: 135,000 molecules",
        (),
        tractable.verdict,
        ("tractable",),
        tractable.plan,
        needs="lpm24_train_props.parquet, RDKit",
    ),
)


def by_name(names: str = "") -> list[Config]:
    """Return the entries of some names, separated by commas; all of them if there is none."""
    known = {config.name.lower(): config for config in (*CONFIGS, *MESSAGES)}
    wanted = [name.strip().lower() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ValueError(
            f"There is no {', '.join(unknown)} among the tables and figures. Known: "
            f"{', '.join(known)}."
        )
    return [known[name] for name in dict.fromkeys(wanted)] or list(known.values())
