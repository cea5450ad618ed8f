"""The options that describe a scenario, shared by every command that takes one."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from foretrain.simulate.scenario import Scenario

_PLAN = "Plan (what is not given is chosen and shown)"
_SETUP = "Setting"
_OUTPUT = "Output"


def option(name: str, group: str, text: str) -> Parameter:
    """An option with a value, read as text."""
    return Parameter(name=name, group=group, help=text, allow_leading_hyphen=True, negative=(), show_default=False)


def flag(name: str, text: str) -> Parameter:
    """An option without a value."""
    return Parameter(name=name, group=_OUTPUT, help=text, negative=(), show_default=False)


CATALOG = option("--catalog", _SETUP, "Folder of your own entries, searched first; repeatable (also: FORETRAIN_CATALOG).")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Given:
    """What the user says about machine and plan, as text; ``simulate.open`` checks it, so that all errors look alike."""

    on: Annotated[str | None, option("--on", _SETUP, "System id of the catalogue, e.g. dgx-h100.")] = None
    chips: Annotated[str | None, option("--chips", _SETUP, "Number of chips (default: one server).")] = None
    stack: Annotated[str | None, option("--stack", _SETUP, "Software stack of the catalogue.")] = None
    site: Annotated[str | None, option("--site", _SETUP, "Site of the catalogue: PUE, grid, electricity price.")] = None
    tokens: Annotated[str | None, option("--tokens", _SETUP, "Tokens of the whole run, e.g. 15e12.")] = None
    settings: Annotated[
        list[str] | None,
        option("--set", _SETUP, "path=value on any field, repeatable, e.g. site.pue=1.2 or system.server.chip.hbm_byte='96 GiB'."),
    ] = None
    catalog: Annotated[list[str] | None, CATALOG] = None
    tp: Annotated[str | None, option("--tp", _PLAN, "Tensor-parallel degree.")] = None
    pp: Annotated[str | None, option("--pp", _PLAN, "Pipeline stages.")] = None
    vpp: Annotated[str | None, option("--vpp", _PLAN, "Model chunks per pipeline stage (interleaved schedule).")] = None
    dp: Annotated[str | None, option("--dp", _PLAN, "Data-parallel degree.")] = None
    cp: Annotated[str | None, option("--cp", _PLAN, "Context-parallel degree.")] = None
    ep: Annotated[str | None, option("--ep", _PLAN, "Expert-parallel degree.")] = None
    etp: Annotated[str | None, option("--etp", _PLAN, "Tensor-parallel degree of the experts.")] = None
    microbatch_size: Annotated[str | None, option("--microbatch-size", _PLAN, "Sequences per microbatch.")] = None
    global_batch_size: Annotated[str | None, option("--global-batch-size", _PLAN, "Sequences per optimizer step.")] = None
    seq_len: Annotated[str | None, option("--seq-len", _PLAN, "Tokens per sequence.")] = None
    precision: Annotated[str | None, option("--precision", _PLAN, "fp32, tf32, fp16, bf16 or fp8.")] = None
    zero: Annotated[str | None, option("--zero", _PLAN, "ZeRO stage, 0 to 3 (1: Megatron's distributed optimizer; 3: FSDP).")] = None
    recompute: Annotated[str | None, option("--recompute", _PLAN, "none, selective or full.")] = None
    schedule: Annotated[str | None, option("--schedule", _PLAN, "gpipe, 1f1b or interleaved.")] = None

    def options(self) -> dict[str, object]:
        """The options by the names that ``open_scenario`` takes; None where not given."""
        names = (field.name for field in dataclasses.fields(self))
        return {name: getattr(self, name) for name in names if name not in ("on", "chips", "settings", "catalog")}

    def open(self, model: str) -> Scenario:
        """The scenario of ``model`` under these options."""
        from foretrain.simulate.open import open_scenario

        return open_scenario(model, self.on, self.chips, self.options(), self.settings or (), self.catalog or ())


NOTHING = Given()
"""No option given."""
