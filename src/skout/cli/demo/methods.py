"""The five methods: one predictor, filled in five ways, and the settings each may choose from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from ...basis import KernelBasis
from ...kernels import Gaussian
from ...predictor import StructuredPredictor, iokr, sisokr
from ...sketches import SubSample

__all__ = ["FULL", "QUICK", "Method", "Plan", "build_methods", "median_gaussian"]


@dataclass(frozen=True)
class Plan:
    """How much the demo does; everything that is not learned from data."""

    n_train: int = 1347
    n_test: int = 450
    n_held_out: int = 337  # of the training digits, to choose settings on
    input_size: int = 300  # landmarks of the input sketch
    output_size: int = 100  # landmarks of the output sketch
    n_trees: int = 100
    gamma_factors: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)  # of the median rule
    alphas: tuple[float, ...] = (1e-6, 1e-5, 1e-4, 1e-3)
    leaves: tuple[int, ...] = (1, 3)
    tree_features: tuple[float, ...] = (0.33, 1.0)
    n_repeats: int = 3  # timings are medians of this many


FULL = Plan()
QUICK = Plan(
    n_train=400,
    n_test=150,
    n_held_out=100,
    input_size=150,
    output_size=50,
    n_trees=20,
    gamma_factors=(2.0,),
    alphas=(1e-5, 1e-4),
    leaves=(1,),
    tree_features=(0.33,),
)


@dataclass(frozen=True)
class Method:
    """A name, what it is in words, an unfitted predictor and its grid of settings."""

    name: str
    what: str
    model: StructuredPredictor
    grid: dict[str, list[Any]]


def median_gaussian(rows: np.ndarray, seed: int) -> Gaussian:
    """Return a Gaussian kernel whose width is the median rule on `rows`."""
    return Gaussian(gamma="median").resolve(rows, np.random.default_rng(seed))


def build_methods(plan: Plan, inputs: Gaussian, outputs: Gaussian, seed: int) -> list[Method]:
    """Return the five methods; they differ only in the sketches and in the map.

    Parameters
    ----------
    plan : Plan
        Sizes and grids.
    inputs, outputs : Gaussian
        Kernels on upper and on lower halves; the output kernel is the same for all.
    seed : int
        Given to everything that draws.

    Returns
    -------
    methods : list of Method
        IOKR, SIOKR, ISOKR, SISOKR, FOREST.
    """
    few_x, few_y = SubSample(plan.input_size), SubSample(plan.output_size)
    ridge_grid: dict[str, list[Any]] = {
        "regressor__kernel__gamma": [f * float(inputs.gamma) for f in plan.gamma_factors],
        "regressor__alpha": list(plan.alphas),
    }
    forest_grid: dict[str, list[Any]] = {
        "regressor__min_samples_leaf": list(plan.leaves),
        "regressor__max_features": list(plan.tree_features),
    }
    exact = iokr(inputs, outputs, random_state=seed)
    in_only = iokr(inputs, outputs, input_sketch=few_x, random_state=seed)
    out_only = iokr(inputs, outputs, output_sketch=few_y, random_state=seed)
    both = sisokr(inputs, outputs, input_sketch=few_x, output_sketch=few_y, random_state=seed)
    trees = RandomForestRegressor(plan.n_trees, n_jobs=-1, random_state=seed)
    forest = StructuredPredictor(trees, KernelBasis(outputs, few_y, random_state=seed))
    return [
        Method("IOKR", "kernel ridge, nothing sketched", exact, ridge_grid),
        Method("SIOKR", "kernel ridge, inputs sketched", in_only, ridge_grid),
        Method("ISOKR", "kernel ridge, outputs sketched", out_only, ridge_grid),
        Method("SISOKR", "kernel ridge, both sketched", both, ridge_grid),
        Method("FOREST", "random forest, outputs sketched", forest, forest_grid),
    ]
