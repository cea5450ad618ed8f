"""What leaves the chip: bytes that offload moves per pass and per step, and what it keeps in each memory tier.

ZeRO-Offload (Ren et al., arXiv 2101.06840) keeps optimizer states in host memory and updates them there; ZeRO-Infinity (Rajbhandari et
al., arXiv 2104.07857) also keeps weights outside and streams them in, from host memory or NVMe. Everything here is linear in the
offloaded share and zero without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.program.memory import moment_byte
from foretrain.program.optimizer import update_byte
from foretrain.program.program import OffloadTransfer
from foretrain.program.sharding import Held, held_shard, trained_shard
from foretrain.strategy.strategy import OffloadTier, Strategy
from foretrain.workload.recipe import Recipe

UPDATE_FLOP = 15.0
"""Floating-point operations per parameter of Adam's update: 3 for the first moment, 4 for the second, 2 bias corrections, root, quotient
and guard (3), step and weight decay (3); Kingma and Ba, arXiv 1412.6980, algorithm 1."""


@record
class OptimizerOffload:
    """Per rank and step, for the optimizer's update.

    ``host_byte`` and ``host_flop``: work of the host's CPUs; ``link_byte``: gradients down and weights up between chip and
    host for it; ``read_byte`` and ``write_byte``: states and weights that come from the offload tier to where they are updated, and back.
    """

    host_byte: Num
    host_flop: Num
    link_byte: Num
    read_byte: Num
    write_byte: Num


def state_byte(recipe: Recipe, strategy: Strategy) -> float:
    """Bytes of moments and master copy outside the chip per parameter; CPUs that update need a master copy even if the chip keeps its own.

    >>> state_byte(Recipe(seq_len=1, global_batch_size=1, tokens=1), Strategy())
    12.0
    """
    precision = recipe.precision
    master = precision.byte("master") if strategy.offload_master or strategy.offload_update == "host" else 0.0
    return master + moment_byte(recipe)


def optimizer_offload(held: Held, recipe: Recipe, strategy: Strategy) -> OptimizerOffload:
    """Work of updating the parameters that a rank holds before ZeRO divides them, as far as it leaves the chip.

    On the host: gradients go down, CPUs read and write the states, weights come up, but for those that stay outside; states and weights
    of a farther tier pass through host memory. On the chip: offloaded states come in and go back. Whatever the chip updates of the
    weights that stay outside goes out to them.
    """
    weights, grads = recipe.precision.byte("weights"), recipe.precision.byte("grads")
    own = trained_shard(held, strategy, 1)
    moved = own * strategy.optimizer_offload
    by_host = 1.0 if strategy.offload_update == "host" else 0.0
    streamed = 0.0 if strategy.offload_update == "host" and strategy.offload_tier == "host" else 1.0
    on_chip = own - by_host * moved
    stay_outside = strategy.parameter_offload
    states = streamed * moved * state_byte(recipe, strategy)
    return OptimizerOffload(
        host_byte=by_host * moved * update_byte(recipe),
        host_flop=by_host * moved * UPDATE_FLOP,
        link_byte=by_host * moved * (grads + weights * (1.0 - stay_outside)),
        read_byte=states,
        write_byte=states + stay_outside * weights * (on_chip + streamed * by_host * moved),
    )


def block_offload(held: Held, activation_byte: Num, recipe: Recipe, strategy: Strategy) -> tuple[OffloadTransfer, ...]:
    """What the passes of a block stream, if it keeps ``activation_byte`` for its backward pass.

    Weights come in for the forward pass and again for the backward pass (once for it and its recomputation); at ZeRO stage 3 every rank
    brings its own shard, which is then gathered (arXiv 2104.07857, section 6.1). Activations go out forward and come back backward.
    """
    weights = held_shard(held, strategy, 3) * strategy.parameter_offload * recipe.precision.byte("weights")
    kept = activation_byte * (1.0 if strategy.activation_offload == "layer" else 0.0)
    return (
        OffloadTransfer(phase="forward", read_byte=weights, write_byte=kept),
        OffloadTransfer(phase="backward", read_byte=weights + kept, write_byte=0.0),
    )


def tier_bytes(held: Held, activation_byte: Num, recipe: Recipe, strategy: Strategy) -> Mapping[OffloadTier, Num]:
    """Bytes that a rank keeps outside its chip, by tier.

    States, weights and the ``activation_byte`` of all microbatches in flight are in the offload tier; an update on the host also holds the
    gradients of the states in host memory. Buffers for data on their way to a farther tier are small and not counted.
    """
    moved = trained_shard(held, strategy, 1) * strategy.optimizer_offload
    weights = held_shard(held, strategy, 3) * strategy.parameter_offload * recipe.precision.byte("weights")
    kept = activation_byte * (1.0 if strategy.activation_offload == "layer" else 0.0)
    outside = moved * state_byte(recipe, strategy) + weights + kept
    gradients = moved * recipe.precision.byte("grads") * (1.0 if strategy.offload_update == "host" else 0.0)
    if strategy.offload_tier == "host":
        return {"host": outside + gradients}
    return {"host": gradients, strategy.offload_tier: outside}


def offload_fields(held: Held, activation_byte: Num, flying: Num, recipe: Recipe, strategy: Strategy) -> dict[str, Any]:
    """What a ``Program`` says about offload, by its fields' names.

    ``held``: what the heaviest rank holds before ZeRO divides it; ``activation_byte``: what it keeps of one microbatch for the backward
    pass, of which ``flying`` are in flight.
    """
    update = optimizer_offload(held, recipe, strategy)
    streamed = block_offload(held, activation_byte, recipe, strategy)
    return {
        "offload_host_byte": update.host_byte,
        "offload_host_flop": update.host_flop,
        "offload_link_byte": update.link_byte,
        "offload_read_byte": update.read_byte,
        "offload_write_byte": update.write_byte,
        "offload_hidden_byte": sum(move.read_byte + move.write_byte for move in streamed) * strategy.num_microbatches,
        "offload_tier": strategy.offload_tier,
        "tier_byte": tier_bytes(held, flying * activation_byte, recipe, strategy),
    }
