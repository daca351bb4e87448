"""Unmix, then invert image by image: the preparation that gives span-sme its first images, and whether it can."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from leakscope.attacks.composition import Adapted, Composition, HeadStart, Keep, Prepared, State
from leakscope.attacks.images import Pixels
from leakscope.attacks.inversion.cone import Cone, Search
from leakscope.attacks.inversion.decoder import Decoder
from leakscope.attacks.inversion.front import Front, mean_place, unsent
from leakscope.attacks.inversion.labels import likeness, outer_products, owners
from leakscope.attacks.inversion.leaves import dead_leaves
from leakscope.attacks.inversion.preimage import Preimages
from leakscope.attacks.known import Known
from leakscope.attacks.matching import Layerwise
from leakscope.attacks.span import row_space, sees_raw_image
from leakscope.attacks.watch import Watch
from leakscope.types import stream

GAP = 0.95
"""Ratio of the singular values N + 1 and N above which there is no end of the span to be seen."""
ZEROS = 0.1
"""Share of zeros that the features of images must have."""
LEAVES, FEW = 200, 20
"""Synthetic images for the decoder, and for a first look at what features are like."""
FIT = 0.05
"""|f(x) - z|^2 / |z|^2 above which z were no features of an image, because none has been found for them."""
ENOUGH = 0.5
"""Share of the images that must be found."""
STEPS = 3
"""Of the inversion, for every iteration of the attack."""
SURE = 5.0
"""Logit of the label that belongs to a feature vector, where labels are variables."""


def obstacle(attack: Composition, known: Known) -> str | None:
    """Why the features cannot be told apart, as far as a look at the update can tell."""
    layer = known.feature_layer
    if layer is None:
        return "the model has no fully connected layer on image vectors"
    if f"{layer}.bias" not in known.sizes:
        return f"{layer} has no trained bias, which tells how large the features are"
    if known.training.optimizer != "sgd":
        return f"steps of {known.training.optimizer} are no sums of outer products"
    if isinstance(attack.matching, Layerwise):
        return "the update is noisy"
    if not isinstance(attack.images, Pixels) or sees_raw_image(known):
        return f"{layer} sees the image itself"
    if missing := unsent(known):
        return f"the batch statistics of {missing[0]} in train mode were not sent"
    dW, _ = outer_products(known)
    if known.n >= min(dW.shape):
        return f"{layer} has {min(dW.shape)} rows, too few for N={known.n}"
    sizes = row_space(dW, known.n)[1]
    gap = float(sizes[known.n] / sizes[known.n - 1])
    if not gap <= GAP:
        return f"the update of {layer} does not end at rank {known.n} (gap {gap:.2f})"
    return None


@dataclass(frozen=True, kw_only=True)
class TryInversion:
    """Prepares an attack on pixels with `Invert` where the first fully connected layer allows it, and says why not."""

    polish: float
    share: float

    def __call__(self, attack: Composition, known: Known) -> Adapted:
        why = obstacle(attack, known)
        if why is None:
            zeros = Scene.of(known, FEW).zeros
            if zeros < ZEROS:
                why = f"{100 * zeros:.0f} % of the features are zero, too few to tell one image from another"
        if why is not None:
            return attack, known, {"inversion": f"not used: {why}"}
        return replace(attack, preparation=Invert(polish=self.polish, share=self.share)), known, {}


@dataclass(frozen=True)
class Scene:
    """The known front with synthetic images sent through it."""

    front: Front
    leaves: Tensor
    """(M, C, H, W) in [0, 1]."""
    features: Tensor
    """(M, F)."""

    @classmethod
    def of(cls, known: Known, count: int = LEAVES) -> Scene:
        front = Front.of(known)
        leaves = dead_leaves(count, known.shape, stream(0, "dead leaves")).to(known.w0)
        with torch.no_grad():
            return cls(front, leaves, torch.cat([front(some) for some in torch.split(leaves, 50)]))

    @property
    def zeros(self) -> float:
        """Share of features that are zero; none where one is negative."""
        return 0.0 if bool((self.features < 0).any()) else float((self.features == 0).double().mean())

    def cone(self) -> Cone:
        known = self.front.known
        dW, db = outer_products(known)
        scale = float(self.features.cpu().double().square().mean().sqrt())
        return Cone.of(dW, db, row_space(dW, known.n)[0], zeros=self.zeros, scale=scale)

    def decoder(self) -> Decoder:
        return Decoder.fit(self.features, self.leaves, self.front.cells)


@dataclass(frozen=True, kw_only=True)
class Invert:
    """The features of every image first, then each image by itself; the attack looks for those that are missing."""

    polish: float
    """The part of its own rate at which the attack moves all images, those found included; 0: they are held."""
    share: float
    """The part of its own iterations that is left to it, where there is anything to move."""

    def __call__(
        self, attack: Composition, known: Known, *, seed: int, watch: Watch, before: Prepared | None, keep: Keep
    ) -> Prepared:
        work = Work(attack, known, seed, None if before is None else before.state)
        seconds, began = 0.0 if before is None else before.seconds, time.perf_counter()

        def so_far() -> Prepared:
            return work.prepared(seconds + time.perf_counter() - began)

        for what, done, total in work.pieces():
            watch.prepare(what, done, total)
            keep(so_far)
            if watch.stop():
                break
        return so_far()

    def compose(self, attack: Composition, found: State) -> Composition:
        """The attack as it was, where too little was found."""
        images = attack.images
        if not found or not isinstance(images, Pixels):
            return attack
        start = HeadStart(images=found["images"], variables=found["variables"])
        idle = not self.polish and bool(found["held"].all())
        iterations = 1 if idle else max(1, round(self.share * attack.iterations))
        if self.polish:
            images = replace(images, start=start.images, lr=self.polish * images.lr)
        else:
            images = replace(images, start=start.images, held=found["held"])
        return replace(attack, images=images, start=start, iterations=iterations)

    def steps(self, iterations: int) -> float:
        """A step of the inversion needs no second derivative."""
        return (self.share + STEPS / 4) * iterations


class Work:
    """What one preparation has found so far, piece by piece."""

    def __init__(self, attack: Composition, known: Known, seed: int, state: State | None) -> None:
        self.attack, self.known, self.seed = attack, known, seed
        self.scene = Scene.of(known)
        self.cone = self.scene.cone()
        self.search = Search(torch.zeros(0, known.n, dtype=torch.double))
        self.preimages: Preimages | None = None
        if state is not None:
            self.search = Search(state["found"], state["attempts"], state["failures"])
            if state["preimages"] is not None:
                self.preimages = self._begin()
                self.preimages.unpack(state["preimages"])

    def pieces(self) -> Iterator[tuple[str, int, int]]:
        """What was done, how much of it, and how much there is."""
        while not self.search.over:
            self.search = self.search.further(self.cone, self.seed)
            yield "feature vectors", len(self.search.found), self.known.n
        if not self.enough:
            return
        self.preimages = self.preimages or self._begin()
        while self.preimages.done < self.preimages.steps:
            self.preimages.step()
            yield "steps of the inversion", self.preimages.done, self.preimages.steps

    @property
    def enough(self) -> bool:
        return len(self.search.found) >= ENOUGH * self.known.n

    @property
    def finished(self) -> bool:
        inverted = self.preimages is not None and self.preimages.done == self.preimages.steps
        return self.search.over and (inverted or not self.enough)

    def _begin(self) -> Preimages:
        """With the decoder's pictures."""
        z = self.cone.features(self.search.found).to(self.known.w0)
        start, front = self.scene.decoder()(z), self.scene.front
        front = front.at(mean_place(front.known, start, self._labels(z)))
        return Preimages(front, z, start, STEPS * self.attack.iterations, self.attack.chunk)

    def _labels(self, features: Tensor) -> Tensor:
        """The likeliest label of each feature vector: among those known, or of all."""
        alike, known = likeness(self.known, features), self.known.labels
        return alike.argmax(1) if known is None else known[owners(alike, known)]

    def prepared(self, seconds: float) -> Prepared:
        state = {
            "found": self.search.found,
            "attempts": self.search.attempts,
            "failures": self.search.failures,
            "preimages": None if self.preimages is None else self.preimages.pack(),
        }
        found, note = self._outcome()
        return Prepared(
            found=found,
            seconds=seconds,
            notes={"inversion": note},
            finished=self.finished,
            state=None if self.finished else state,
        )

    def _outcome(self) -> tuple[State, str]:
        """Images and variables in the order of the labels, and what there is to say; nothing where it is too little."""
        n, programmes = self.known.n, f"{self.search.attempts} programmes"
        if self.preimages is None:
            return {}, f"not used: {len(self.search.found)} of {n} feature vectors in {programmes}"
        misfits = self.preimages.misfit()
        good = misfits < FIT
        if int(good.sum()) < ENOUGH * n:
            return {}, f"not used: {int(good.sum())} of {n} feature vectors have an image ({programmes})"
        note = f"{int(good.sum())} of {n} images ({programmes}, misfit {float(misfits[good].median()):.1e})"
        return self._placed(self.preimages.images[good], self.preimages.wanted, good), note

    def _placed(self, images: Tensor, features: Tensor, good: Tensor) -> State:
        """Each image at its label's place; noise where none was found."""
        known = self.known
        alike = likeness(known, features)[good]
        places = list(range(len(images))) if known.labels is None else owners(alike, known.labels)
        noise = torch.randn(known.n, *known.shape, generator=stream(self.seed, "images not found")).to(known.w0)
        noise[places] = known.normalisation.apply(images)
        logits = known.w0.new_zeros(known.n, known.classes)
        logits[places, alike.argmax(1)] = SURE
        held = torch.zeros(known.n, dtype=torch.bool, device=known.w0.device)
        held[places] = True
        return {"images": noise, "held": held, "variables": {"y": logits} if known.labels is None else {}}
