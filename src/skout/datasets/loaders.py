"""One function for each data set or family: find the files, read them, say what they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._numerics.validation import check_number, resolve
from .catalogue import SOURCES
from .dataset import Dataset
from .files import locate, packed
from .originals import at_hand, fetch, read
from .parsers import parse


def _load(kind: str, name: str, noun: str = "data set", download: bool = False) -> Dataset:
    """Load by kind and name; an unknown name is answered with those that there are."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a string. Got {name!r} instead.")
    family = {own: source for (group, own), source in SOURCES.items() if group == kind}
    source = resolve(name, family, noun)
    if download and not at_hand(source):
        fetch(source)
    published = at_hand(source) and not packed(source)
    fields = read(source) if published else parse(locate(source), source)
    if source.n_train is not None:
        rows, n = source.shape[0], source.n_train
        split = {"train": slice(0, n), "test": slice(n, rows)}
        fields["split"] = split if n else {"test": split["test"]}
    return Dataset(
        name=name,
        description=source.description,
        licence=source.licence,
        citation=source.citation,
        **fields,
    )


# Vectors to label sets, vectors, numbers, rankings -----------------------------------------------


def load_multilabel(name: str, *, download: bool = False) -> Dataset:
    """Load a multi-label data set: a CSR matrix of features, an array of labels 0 and 1.

    Parameters
    ----------
    name : str
        "bibtex", "bookmarks", "corel16k001", "delicious", "mediamill", "yeast", ...;
        `skout datasets --kind multilabel` lists all.
    download : bool, default False
        Whether to download the public files, into the cache, where they are not at hand.

    Returns
    -------
    data : Dataset

    Raises
    ------
    FileNotFoundError
        If a file is not at hand: the message says where to get it and where to put it.
    ValueError
        If there is no such data set, or a file is corrupted.

    Examples
    --------
    >>> from skout.datasets import load_multilabel
    >>> load_multilabel("yeast")  # doctest: +SKIP
    Dataset('yeast', X (2417, 103), Y (2417, 14), train 1500, test 917)
    >>> load_multilabel("yest")
    Traceback (most recent call last):
    ValueError: Unknown multi-label data set 'yest'. Did you mean 'yeast'? ...
    """
    return _load("multilabel", name, "multi-label data set", download)


def load_bibtex() -> Dataset:
    """Load bibtex: tags of 7,395 bibliographic entries, from their words (table 4.2).

    Returns
    -------
    data : Dataset
        X (7395, 1836) CSR, Y (7395, 159), 4,880 training and 2,515 test rows.

    Examples
    --------
    >>> from skout.datasets import load_bibtex
    >>> X, Y = load_bibtex().train  # doctest: +SKIP
    """
    return load_multilabel("bibtex")


def load_delicious() -> Dataset:
    """Load delicious: tags of 16,105 web pages, from their words.

    Returns
    -------
    data : Dataset
        X (16105, 500) CSR, Y (16105, 983), 12,920 training and 3,185 test rows.

    Examples
    --------
    >>> from skout.datasets import load_delicious
    >>> X, Y = load_delicious().test  # doctest: +SKIP
    """
    return load_multilabel("delicious")


def load_multioutput(name: str, *, download: bool = False) -> Dataset:
    """Load a data set of regression of several targets; missing values are NaN.

    Parameters
    ----------
    name : str
        "rf1", "rf2", "scm1d", "scm20d", "atp1d", "wage", ...;
        `skout datasets --kind multioutput` lists all.
    download : bool, default False
        Whether to download the public files, into the cache, where they are not at hand.

    Returns
    -------
    data : Dataset
        names["nominal"], where it is there, has the columns of X that are codes of categories.

    Examples
    --------
    >>> from skout.datasets import load_multioutput
    >>> load_multioutput("jura")  # doctest: +SKIP
    Dataset('jura', X (359, 15), Y (359, 3))
    """
    return _load("multioutput", name, "multi-output data set", download)


def load_rf1() -> Dataset:
    """Load rf1: river flow at 8 sites, 48 hours ahead (table 3.4).

    Returns
    -------
    data : Dataset
        X (9125, 64) with NaN in 120 rows, Y (9125, 8), 4,108 training and 5,017 test rows.

    Examples
    --------
    >>> from skout.datasets import load_rf1
    >>> X, Y = load_rf1().train  # doctest: +SKIP
    """
    return load_multioutput("rf1")


def load_regression(name: str, fold: int | None = None) -> Dataset:
    """Load a data set of regression of one target.

    Parameters
    ----------
    name : str
        "bike", "boston", "engel", "kin40k", "otoliths", ...;
        `skout datasets --kind regression` lists all.
    fold : int, optional
        Which of the ten official folds, 0 to 9, is the test part. Not of "boston", "engel" and
        "otoliths", which have none.

    Returns
    -------
    data : Dataset
        extra["fold"] has the number of the fold that each row is in, where there are folds.

    Examples
    --------
    >>> from skout.datasets import load_regression
    >>> load_regression("airfoil", fold=0)  # doctest: +SKIP
    Dataset('airfoil', X (1503, 5), Y (1503,), train 1353, test 150)
    """
    if fold is not None and check_number(fold, "fold", integer=True) > 9:
        raise ValueError(f"fold must be None or an integer from 0 to 9. Got {fold!r} instead.")
    data = _load("regression", name, "regression data set")
    if fold is None:
        return data
    if "fold" not in data.extra:
        raise ValueError(f"{name!r} has no official folds: leave fold out. Got fold={fold!r}.")
    held = data.extra["fold"] == fold
    return replace(data, split={"train": np.flatnonzero(~held), "test": np.flatnonzero(held)})


def load_boston() -> Dataset:
    """Load the median house values of 506 districts of Boston (table 3.3).

    Returns
    -------
    data : Dataset
        X (506, 13), Y (506,), no official split.

    Examples
    --------
    >>> from skout.datasets import load_boston
    >>> load_boston().names["features"][:3]  # doctest: +SKIP
    array(['crim', 'zn', 'indus'], dtype='<U7')
    """
    return load_regression("boston")


def load_engel() -> Dataset:
    """Load the food expenditure of 235 Belgian households and their income.

    Returns
    -------
    data : Dataset
        X (235, 1), Y (235,), no official split.

    Examples
    --------
    >>> from skout.datasets import load_engel
    >>> income, food = load_engel().X, load_engel().Y  # doctest: +SKIP
    """
    return load_regression("engel")


def load_label_ranking(name: str, *, download: bool = False) -> Dataset:
    """Load a data set of label ranking.

    Parameters
    ----------
    name : str
        "authorship", "sushi", "vehicle", "wine", ...;
        `skout datasets --kind ranking` lists all.
    download : bool, default False
        Whether to download the public files, into the cache, where they are not at hand.

    Returns
    -------
    data : Dataset
        Y[i, j] is the position of label j in row i, 0 for the best. In "algae", which has ties,
        it is the number of labels that are before j.

    Examples
    --------
    >>> from skout.datasets import load_label_ranking
    >>> load_label_ranking("vehicle")  # doctest: +SKIP
    Dataset('vehicle', X (846, 18), Y (846, 4))
    """
    return _load("ranking", name, "label ranking data set", download)


def load_usps() -> Dataset:
    """Load the USPS digits: 16 x 16 grey pixels in [0, 1] and the digit.

    Returns
    -------
    data : Dataset
        X (9298, 256), Y (9298,), 7,291 training and 2,007 test rows.

    Examples
    --------
    >>> from skout.datasets import load_usps
    >>> pixels, digits = load_usps().train  # doctest: +SKIP
    """
    return _load("images", "usps")


# Molecules, text, spectra ------------------------------------------------------------------------


def load_qm9(properties: bool = False) -> Dataset:
    """Load the 130,831 molecules of QM9 that passed its consistency check.

    Parameters
    ----------
    properties : bool, default False
        Whether Y has 12 properties instead of the molecules (this needs `skout[disk]`).

    Returns
    -------
    data : Dataset
        X has SMILES; Y the same, for the task of strings to graphs, or an array (130831, 12).

    Examples
    --------
    >>> from skout.datasets import load_qm9
    >>> load_qm9().X[:3]  # doctest: +SKIP
    array(['C', 'N', 'O'], dtype=object)
    """
    return _load("molecules", "qm9_properties" if properties else "qm9")


def load_lpm24() -> Dataset:
    """Load L+M-24: 160,560 molecules, each with a set of properties (needs `skout[disk]`).

    Returns
    -------
    data : Dataset
        X has SMILES; Y is a CSR matrix (160560, 1071) of 0 and 1.

    Examples
    --------
    >>> from skout.datasets import load_lpm24
    >>> load_lpm24().names["outputs"][:2]  # doctest: +SKIP
    """
    return _load("molecules", "lpm24")


def load_mol2vec() -> Dataset:
    """Load the vectors that Mol2vec has for 3,138 substructures.

    Returns
    -------
    data : Dataset
        X has the Morgan identifiers, as strings, and "UNK"; Y (3138, 300) the vectors.

    Examples
    --------
    >>> from skout.datasets import load_mol2vec
    >>> load_mol2vec().Y.shape  # doctest: +SKIP
    (3138, 300)
    """
    return _load("molecules", "mol2vec")


def load_text_molecule(name: str) -> Dataset:
    """Load descriptions of molecules and their SMILES.

    Parameters
    ----------
    name : "chebi20", "iupac", "pcdes" or "pubchem324k"
        "iupac" has the names of molecules of PubChem324k, with a training part; of the others
        there are the validation and test parts only.

    Returns
    -------
    data : Dataset
        X has the texts, Y the SMILES; extra["cid"] the numbers in PubChem (in "pcdes" a running
        number).

    Examples
    --------
    >>> from skout.datasets import load_text_molecule
    >>> load_text_molecule("pcdes")  # doctest: +SKIP
    Dataset('pcdes', X (4500,), Y (4500,), validation 1500, test 3000)
    """
    return _load("text", name, "data set of texts and molecules")


def load_chebi20() -> Dataset:
    """Load captions of ChEBI-20, and the SMILES of all its 33,010 molecules as candidates.

    Returns
    -------
    data : Dataset
        X has 6,601 captions, Y the SMILES: 3,301 for validation and 3,300 for testing.

    Examples
    --------
    >>> from skout.datasets import load_chebi20
    >>> captions, smiles = load_chebi20().test  # doctest: +SKIP
    """
    return load_text_molecule("chebi20")


def load_massbank(*, sample: bool = False) -> Dataset:
    """Load 44,054 MS/MS spectra of MassBank and the molecules behind them (`skout[disk]`).

    Parameters
    ----------
    sample : bool, default False
        Load the 2,298 spectra that come with skout instead, one a molecule. extra["contributor"]
        and extra["license"] say to whom each is owed.

    Returns
    -------
    data : Dataset
        X has the spectra, as the kernels on spectra take them; Y the SMILES. `candidates` has for
        each spectrum the molecules of its formula, as canonical SMILES of RDKit without stereo;
        158 spectra have none. extra["inchikey"][i][:14] names the molecule without stereo: to
        split so that no test molecule is seen in training, group by it.

    Examples
    --------
    >>> from skout.datasets import load_massbank
    >>> data = load_massbank()  # doctest: +SKIP
    >>> data.candidates[0][:2]  # doctest: +SKIP
    """
    return _load("spectra", "massbank-sample" if sample else "massbank")
