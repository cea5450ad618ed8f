"""The integer part of a pipeline: which stage holds which layers, once per group of words."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from foretrain.core.record import record


@record
class Stage:
    """``count`` equal stages, the first at index ``first``.

    ``layers`` counts the layers of each kind of the model, in order of the kinds' first appearance;
    ``embedding`` and ``head`` say whether the stage owns them (and, with the head, the modules of multi-token prediction).
    """

    first: int
    count: int
    layers: tuple[int, ...]
    embedding: bool
    head: bool

    @property
    def num_layers(self) -> int:
        """All layers of the stage."""
        return sum(self.layers)


def split_layers(num_layers: int, pp: int) -> tuple[int, ...]:
    """Layers per stage when the user gives no split.

    Equal when ``num_layers`` is a multiple of ``pp``. Otherwise the first and the last stage, which also hold embedding and head, are
    not longer than the others: the way the 405B run of Llama 3 placed 126 layers on 16 stages (arXiv 2407.21783, section 3.3.2).

    >>> split_layers(126, 16)
    (7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7)
    >>> sum(split_layers(30, 4))
    30
    """
    per_stage = num_layers // pp
    extra = num_layers - per_stage * pp
    middle_first = sorted(range(pp), key=lambda stage: (stage in (0, pp - 1), stage == 0, stage))
    longer = set(middle_first[:extra])
    return tuple(per_stage + (stage in longer) for stage in range(pp))


def lay_out(kinds: Sequence[Hashable], pp: int, stage_layers: tuple[int, ...] = ()) -> tuple[Stage, ...]:
    """Stage kinds of a pipeline: neighbouring stages with the same content become one kind with a count.

    Parameters
    ----------
    kinds
        The kind of every layer, first to last.
    pp
        Pipeline stages.
    stage_layers
        Layers per stage as the user gave them; empty chooses by ``split_layers``.

    >>> [(s.first, s.count, s.num_layers) for s in lay_out(["full"] * 126, 16)]
    [(0, 1, 7), (1, 14, 8), (15, 1, 7)]
    >>> [s.layers for s in lay_out(["dense", "experts", "experts", "experts"], 2)]
    [(1, 1), (0, 2)]
    """
    distinct = tuple(dict.fromkeys(kinds))
    split = stage_layers or split_layers(len(kinds), pp)
    stages: list[Stage] = []
    begin = 0
    for index, layers in enumerate(split):
        part = kinds[begin : begin + layers]
        begin += layers
        stage = Stage(
            first=index,
            count=1,
            layers=tuple(part.count(kind) for kind in distinct),
            embedding=index == 0,
            head=index == len(split) - 1,
        )
        previous = stages[-1] if stages else None
        if previous and replace(previous, first=index, count=1) == stage:
            stages[-1] = replace(previous, count=previous.count + 1)
        else:
            stages.append(stage)
    return tuple(stages)
