"""Wrong calls: each line with the comment `wrong` must be an error, and no other."""

import numpy as np

import skout
from skout import KernelClassifier, KernelMachine, KernelRidge, StructuredPredictor, Tuned
from skout.kernels import Gaussian
from skout.sketches import SubSample

X, y = np.eye(3), np.ones(3)

KernelRidge(kernel=5)  # wrong
KernelRidge(alpha="big")  # wrong
KernelRidge(sketch=100)  # wrong
KernelRidge(random_state="seed")  # wrong
KernelRidge(gamma=2.0)  # wrong
KernelRidge().fit(X)  # wrong
KernelRidge().fit(3, y)  # wrong
KernelRidge().predict()  # wrong
KernelClassifier(loss=3)  # wrong
KernelMachine(loss=(1, 2))  # wrong
Tuned(budget=[1, 2])  # wrong
Tuned(random_state="seed")  # wrong
Gaussian(gamma=[1.0, 2.0])  # wrong
SubSample(size="many")  # wrong
skout.sisokr(kernel="gaussian")  # wrong
skout.sisokr("gaussian", 7)  # wrong
StructuredPredictor(KernelRidge(), "f1", decoder=3)  # wrong
skout.load(3)  # wrong
skout.save("model.skout")  # wrong
