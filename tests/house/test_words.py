"""The words of the house: the field's own, in names, docstrings, comments, messages and pages.

`WORDS` has what is not written, and what is written instead. Where a word means what it means in
any sentence, `ORDINARY` has the phrase and the reason. What is still to be cleaned is counted by
folder in `LEFT`: the numbers may only fall, and are to be 0.
"""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "skout"

WORDS = {
    "judges?|judged|judging": "scorer, scoring",
    r"rehears\w*": "out-of-fold predictions",
    "evidence": "re-ranking features",
    "last[ _]words?": "re-ranking",
    "doubts?": "uncertainty, predictive variance, intervals",
    "holes?|holed": "missing targets, observed",
    "on_?card|cards?": "GPU, device",
    "(?-i:Room)(?= |$|[(.:])": "memory budget",
    "hubs?|prices? (?:of|for) (?:a )?hubs?": "hubness, hubness penalty",
    "short[ _-]?lists?": "prediction sets",
    "learnt": "learned",
    "at[ _]hand": "available",
    "look(?:s|ed) at": "read, sampled, compared",
    "(?:is|are|was|were|been) told": "passed, logged",
}
PATTERN = re.compile("|".join(f"(?<![a-z])(?:{word})(?![a-z])" for word in WORDS), re.IGNORECASE)
# Phrases in which such a word is ordinary, and why.
ORDINARY = {
    r"model[ _]cards?|_?card\.py|persistence[./]card|skout card": "the README of a model, its name",
    'a card (?:of a model|as Hugging)|the (?:whole )?card(?= and|[."])|of a card,': "the same",
    r'command\("card"\)': "the same",
    r"^ *card : str|(?-i:_Card)\b|parts of a card|## Card|Cards of models": "the same",
    "MLflow and cards|(?:model|of) hubs?|hubs? (?:read|show|takes)|Face hubs?": "sites of models",
    r"a \*?hub\b|of hubs\b|## Hubs": "the node that hubness is about",
    "told (?:apart|from|by)|(?:be|been) told": "distinguished",
    r"evidence\.md|evidence: (?:begin|end)|^evidence|## Evidence": "what was measured",
    "in doubt": "an idiom",
    "a short list:": "a list that is short",
    "(?:first|after) looks? at": "a person looked",
}
ALLOWED = re.compile("|".join(f"(?:{phrase})" for phrase in ORDINARY), re.IGNORECASE)

LEFT = {"src/skout/apps": 0, "src/skout/kinds": 0, "src/skout/solvers": 2, "src/skout": 0}
LEFT |= {"docs": 0, "README.md": 0}
# Functions that give results names which say nothing.
VAGUE = {"found", "one", "own", "some"}
MOST_VAGUE = {"src/skout/apps": 0, "src/skout/kinds": 0, "src/skout": 0}


def words_in(text):
    """Return the words of a line that are not to be written."""
    return [match.group() for match in PATTERN.finditer(ALLOWED.sub(" ", text))]


def vague_functions(source):
    """Return the names of functions that assign or take a name of `VAGUE`."""
    names = []
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                is_stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
                name = node.id if is_stored else getattr(node, "arg", None)
                if name in VAGUE and (is_stored or isinstance(node, ast.arg)):
                    names.append(function.name)
                    break
    return names


def folder_of(path, folders):
    """Return the first folder that has a file."""
    name = path.relative_to(ROOT).as_posix()
    return next(folder for folder in folders if name.startswith(folder))


def count_words():
    """Return how often each folder has such words, and the lines."""
    counts, lines = Counter(dict.fromkeys(LEFT, 0)), []
    docs = ROOT / "docs"
    pages = [*docs.glob("*.md"), *docs.glob("coming_from/*.md"), ROOT / "README.md"]
    for path in [*PACKAGE.rglob("*.py"), *pages]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for word in words_in(line):
                counts[folder_of(path, LEFT)] += 1
                lines.append(f"{path.relative_to(ROOT)}:{number}: {word!r} in {line.strip()}")
    return counts, lines


def test_the_words_of_the_field():
    counts, lines = count_words()
    over = [folder for folder in LEFT if counts[folder] > LEFT[folder]]
    shown = [line for line in lines if any(line.startswith(folder) for folder in over)]
    assert not over, "\n".join(shown)


def test_names_say_what_results_are():
    counts, functions = Counter(dict.fromkeys(MOST_VAGUE, 0)), []
    for path in PACKAGE.rglob("*.py"):
        vague = vague_functions(path.read_text(encoding="utf-8"))
        counts[folder_of(path, MOST_VAGUE)] += len(vague)
        functions += [f"{path.relative_to(ROOT)}: {name}" for name in vague]
    over = [folder for folder in MOST_VAGUE if counts[folder] > MOST_VAGUE[folder]]
    shown = [line for line in functions if any(line.startswith(folder) for folder in over)]
    assert not over, "\n".join(shown)


@pytest.mark.parametrize("folder", ["src", "tests", "experiments", "benchmarks", "examples"])
def test_file_names(folder):
    names = [path.name for path in (ROOT / folder).rglob("*.py")]
    assert [
        name for name in names if words_in(name) and name not in {"card.py", "test_card.py"}
    ] == []


@pytest.mark.parametrize(
    "line",
    [
        "def judge(model):",
        "the rehearsal",
        "a last word",
        "_learnt_score = None",
        '"""Targets with holes."""',
        "on_card = True",
        "hubs and prices",
        "the rows at hand",
        "doubt = std",
    ],
)
def test_a_word_is_caught(line):
    assert words_in(line)


def test_a_vague_name_is_caught():
    assert vague_functions("def f(x):\n    found = x\n    return found") == ["f"]
    assert vague_functions("def f(some):\n    return 1") == ["f"]
    assert vague_functions("def f(x):\n    coef = x\n    return coef") == []
