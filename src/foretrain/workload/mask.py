"""How much of the score matrix the attention mask lets through."""

from __future__ import annotations

from foretrain.core.numeric import Num, minimum


def _seen_pairs(length: Num, window: int) -> Num:
    """Query-key pairs of a causal document of ``length`` tokens, each query seeing at most ``window`` keys (0: all before it)."""
    reach = minimum(length, float(window)) if window else length
    return reach * (reach + 1) / 2 + (length - reach) * reach


def seen_share(seq_len: Num, window: int = 0, document_lens: tuple[int, ...] = ()) -> Num:
    """Pairs that a causal mask lets through over all ``seq_len`` squared pairs.

    Parameters
    ----------
    seq_len
        Tokens per packed sequence.
    window
        Keys each query may see, itself included; 0 for all before it.
    document_lens
        Tokens of each document in the pack; attention does not cross documents. Empty: one document. The rest of the pack is padding
        that no query attends to.

    >>> seen_share(4.0)
    0.625
    >>> seen_share(4096.0, document_lens=(1024,) * 4) * 4 / seen_share(1024.0)
    1.0
    """
    pairs: Num = 0.0
    for length in document_lens or (seq_len,):
        pairs = pairs + _seen_pairs(length, window)
    return pairs / (seq_len * seq_len)


def packing_efficiency(seq_len: Num, document_lens: tuple[int, ...]) -> Num:
    """Useful over processed tokens of a pack; 1 when no documents are listed.

    >>> round(packing_efficiency(4096.0, (1000, 1000, 1000)), 3)
    0.732
    """
    return (sum(document_lens) if document_lens else seq_len) / seq_len
