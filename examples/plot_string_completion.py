"""
Correct misspelled words
========================

A reader mends *for_at* without thinking: it is *format*. Here a model learns to do the same. Inputs
are words with a mistake, outputs are the words, and both are compared by the short pieces that they
are made of, their n-grams.
"""

# %%
# Words and mistakes
# ------------------
# The words are those of Python's own documentation. A mistake hides a letter, doubles it, or swaps
# it with the next one. Marks at both ends let the n-grams know where a word starts and ends. A few
# hundred words are set aside: the model never sees them, with or without a mistake.

import re
from pydoc_data.topics import topics

import matplotlib.pyplot as plt
import numpy as np

from skout import iokr
from skout.decoding import StringDecoder
from skout.kernels import NGram

text = " ".join(topics.values()).lower()
rng = np.random.default_rng(0)
words = sorted(set(re.findall(r"\b[a-z]{4,10}\b", text)))
words = [f"<{word}>" for word in rng.permutation(words)]
new, known = words[:300], words[300:]


def mistaken(word):
    """Return a word with one mistake inside."""
    i = rng.integers(1, len(word) - 2)
    a, b, rest = word[:i], word[i], word[i + 1 :]
    swapped = rest[0] + b + rest[1:] if len(rest) > 1 else b + b + rest
    return a + ["_" + rest, b + b + rest, swapped][rng.integers(3)]


X_new, X_old = [mistaken(word) for word in new], [mistaken(word) for word in known[:300]]
print(f"{len(known)} words to learn from, for example", *zip(X_old[:3], known[:3], strict=True))

# %%
# One model, two ways back to words
# ---------------------------------
# The kernel counts how many n-grams two strings share: those of 2, 3 and 4 characters for inputs,
# of 2 for outputs. A prediction is a point in the space of the output kernel. The nearest *known*
# word is one way back to a word. `StringDecoder` instead reads from the point how often each 2-gram
# is expected, chains them into the best string, and so may find a word that it has never seen.


def corrector(size):
    """Learn from some known words, with two mistakes each."""
    Y = known[:size] * 2
    model = iokr(NGram((2, 3, 4)), NGram(2), alpha=1e-4)
    return model.fit([mistaken(word) for word in Y], Y)


def share(found, truth):
    return np.mean([a == b for a, b in zip(found, truth, strict=True)])


sizes = [300, 700, 1500]
curves = {}
for size in sizes:
    model = corrector(size)
    builder = StringDecoder(ends="known").fit(model.output_basis_, known[:size])
    for X, Y, which in ((X_old, known[:300], "known"), (X_new, new, "new")):
        F = model.predict_coordinates(X)
        chosen, built = model.decoder_.decode(F), builder.decode(F)
        curves.setdefault(f"{which} words, chosen", []).append(share(chosen, Y))
        curves.setdefault(f"{which} words, built", []).append(share(built, Y))
for name, curve in curves.items():
    print(f"{name:20s}", *(f"{value:6.1%}" for value in curve))

# %%
# Choosing can only find known words, and finds nearly all of them. Building pays for its freedom
# on known words, and is the only way to new ones.

for word, truth, guess in list(zip(X_new, new, built, strict=True))[:12]:
    print(f"{word:12s} -> {guess:12s}", "" if guess == truth else f"not {truth}")

# %%
# Pictures
# --------
# Left: the share of mended words. Right: what the model expects of the 2-grams of one new word. The
# string is built from the blue ones. Two of them, around the hidden letter, were not in the input;
# from the dotted line on, an expected count rounds to one.

right = [i for i, word in enumerate(new) if built[i] == word and "_" in X_new[i]]
i = max(right, key=lambda i: len(new[i]))
scores = builder.scores(F[[i]])[0]
top = np.argsort(-scores)[:16]
taken = [builder.ngrams_[j] in new[i] for j in top]

fig, (left, bars) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
for (name, curve), style in zip(curves.items(), ("C0--", "C0-", "C1--", "C1-"), strict=True):
    left.plot(sizes, curve, style, marker="o", label=name)
left.set(xlabel="words to learn from", ylabel="share of mended words", ylim=(-0.03, 1.03))
left.legend(frameon=False)
bars.bar(range(len(top)), scores[top], color=np.where(taken, "C0", "lightgray"))
bars.set_xticks(range(len(top)), [builder.ngrams_[j] for j in top], family="monospace")
bars.axhline(0.5, color="black", linewidth=0.8, linestyle=":")
bars.set(title=f"{X_new[i]}  becomes  {built[i]}", ylabel="expected count")
plt.show()
