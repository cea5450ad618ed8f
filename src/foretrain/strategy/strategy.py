"""The parallel plan."""

from __future__ import annotations

from typing import Annotated, Literal

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.core.units import Quantity
from foretrain.strategy.build import Build

Degree = Annotated[Num, Quantity(integer=True, ge=1, le=1e7)]
Word = Annotated[int, Quantity(integer=True, ge=1, le=1e5)]
Recompute = Literal["none", "selective", "full"]
OffloadTier = Literal["host", "remote", "nvme"]
Schedule = Literal["gpipe", "1f1b", "interleaved"]
Dispatcher = Literal["alltoall", "allgather", "deepep"]
ContextParallel = Literal["ring", "all_gather", "ulysses"]


@record
class Strategy:
    """Degrees of parallelism and the choices that go with them.

    Numbers (float or array over candidates): ``tp``, ``dp``, ``cp``, ``ep``, ``etp``, ``dp_replicate``, ``microbatch_size``
    (sequences), ``num_microbatches`` (per data-parallel rank and step).
    Words (one value per call): ``pp``, ``vpp`` and everything else.

    ``ep`` spreads experts over the ranks of tp, cp and dp, ``etp`` cuts each expert; the ranks that are left, tp cp dp / (ep etp), hold
    the same experts (Megatron-LM's parallel folding, Liu et al., arXiv 2504.14960). ``dispatcher``: tokens travel to their experts by
    ``alltoall`` (a copy per expert), ``deepep`` (a copy per rank) or ``allgather`` (all of them to all ranks);
    ``overlap_ep``: under the compute of another microbatch.
    ``context_parallel``: keys and values go round a ``ring``, are gathered (``all_gather``), or heads are exchanged for tokens
    (``ulysses``).

    ``zero`` is the ZeRO stage over the data-parallel group: 1 shards optimizer states (Megatron's distributed
    optimizer), 2 also gradients, 3 also weights (FSDP); ``dp_replicate`` groups of ranks keep a whole set of shards each (HSDP).
    ``loss_chunks``: pieces of the sequence for which logits are made one after another. ``stage_layers`` gives the layers of each of the
    ``pp`` stages; empty lets ``strategy.layout`` choose. ``mesh`` lists the axes from the innermost
    (neighbouring chips) to the outermost.
    Offload: ``offload_tier`` is the memory that takes what leaves the chip. ``optimizer_offload`` is the share of moments and master copy
    kept there (without ``offload_master`` the chip keeps the master copy, as in Megatron Core), ``offload_update`` where they are updated:
    on the ``host`` by its CPUs (ZeRO-Offload) or on the ``chip``, to which they are then streamed. ``parameter_offload`` is the share of
    the weights kept there and streamed in layer by layer (ZeRO-Infinity). ``activation_offload`` ``layer`` moves each layer's stored
    activations out and back. ``live_params``: parameters that ZeRO-3 may leave gathered (DeepSpeed's ``stage3_max_live_parameters``);
    never less than the layer in use and the next one.
    """

    tp: Degree = 1
    pp: Word = 1
    vpp: Word = 1
    dp: Degree = 1
    cp: Degree = 1
    ep: Degree = 1
    etp: Degree = 1
    dp_replicate: Degree = 1
    microbatch_size: Degree = 1
    num_microbatches: Degree = 1
    sequence_parallel: bool = False
    zero: Annotated[int, Quantity(integer=True, ge=0, le=3)] = 0
    recompute: Recompute = "none"
    schedule: Schedule = "1f1b"
    flash_attention: bool = True
    kv_replication: bool = False
    overlap_grad_reduce: bool = True
    overlap_param_gather: bool = True
    overlap_p2p: bool = True
    overlap_tp: bool = False
    overlap_ep: bool = False
    dispatcher: Dispatcher = "alltoall"
    context_parallel: ContextParallel = "ring"
    loss_chunks: Word = 1
    optimizer_offload: Annotated[Num, Quantity(ge=0, le=1)] = 0.0
    activation_offload: Literal["none", "layer"] = "none"
    parameter_offload: Annotated[Num, Quantity(ge=0, le=1)] = 0.0
    offload_tier: OffloadTier = "host"
    offload_update: Literal["host", "chip"] = "host"
    offload_master: bool = True
    live_params: Annotated[Num, Quantity(ge=0, le=1e15)] = 0.0
    stage_layers: tuple[Word, ...] = ()
    build: Build = Build()
    mesh: tuple[Literal["tp", "cp", "dp", "pp"], ...] = ("tp", "cp", "dp", "pp")

    @property
    def world_size(self) -> Num:
        """Chips the plan occupies: tp x pp x dp x cp."""
        return self.tp * self.pp * self.dp * self.cp

    @property
    def expert_replicas(self) -> Num:
        """Ranks of a stage that hold the same experts: tp x cp x dp / (ep x etp)."""
        return self.tp * self.cp * self.dp / (self.ep * self.etp)
