"""Every number of the catalogue has a passport, and every passport a source."""

from __future__ import annotations

from foretrain.catalog.check import check


def test_catalogue_is_in_order() -> None:
    assert not check()
