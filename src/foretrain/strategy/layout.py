"""The integer part of a pipeline: which stage holds which layers, once per group of words."""

from __future__ import annotations

from foretrain.core.record import record


@record
class Stage:
    """``count`` equal stages, the first at index ``first``.

    ``layers`` counts the layers of each attention window of the model's pattern, in pattern order of first appearance;
    ``embedding`` and ``head`` say whether the stage owns them.
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


def window_counts(first_layer: int, num_layers: int, windows: tuple[int, ...]) -> tuple[int, ...]:
    """How many of the layers ``first_layer ... first_layer + num_layers - 1`` have each window of the repeating pattern.

    >>> window_counts(1, 3, (4096, 0))
    (1, 2)
    """
    distinct = tuple(dict.fromkeys(windows))
    pattern = [windows[layer % len(windows)] for layer in range(first_layer, first_layer + num_layers)]
    return tuple(pattern.count(window) for window in distinct)


def lay_out(num_layers: int, windows: tuple[int, ...], pp: int, stage_layers: tuple[int, ...] = ()) -> tuple[Stage, ...]:
    """Stage kinds of a pipeline: neighbouring stages with the same content become one kind with a count.

    Parameters
    ----------
    num_layers
        Layers of the model.
    windows
        The model's repeating pattern of attention windows.
    pp
        Pipeline stages.
    stage_layers
        Layers per stage as the user gave them; empty chooses by ``split_layers``.

    >>> [(s.first, s.count, s.num_layers) for s in lay_out(126, (0,), 16)]
    [(0, 1, 7), (1, 14, 8), (15, 1, 7)]
    """
    split = stage_layers or split_layers(num_layers, pp)
    stages: list[Stage] = []
    begin = 0
    for index, layers in enumerate(split):
        stage = Stage(
            first=index,
            count=1,
            layers=window_counts(begin, layers, windows),
            embedding=index == 0,
            head=index == len(split) - 1,
        )
        begin += layers
        previous = stages[-1] if stages else None
        if previous and (previous.layers, previous.embedding, previous.head) == (stage.layers, stage.embedding, stage.head):
            stages[-1] = Stage(
                first=previous.first,
                count=previous.count + 1,
                layers=previous.layers,
                embedding=previous.embedding,
                head=previous.head,
            )
        else:
            stages.append(stage)
    return tuple(stages)
