"""The software stack: the numbers of one framework version."""

from __future__ import annotations

from typing import Annotated

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.core.units import Quantity

CPU_ADAM_EFFICIENCY = 0.45
"""Share of the host's memory bandwidth that DeepSpeed's vectorised CPU Adam reaches (range 0.07 to 0.55). ZeRO-Offload (Ren et al., arXiv
2101.06840, table 4) gives 0.22 s for 1e9 and 2.57 s for 10e9 parameters on two sockets with 256 GB/s: 28 bytes a
parameter make 0.50 and 0.43. PyTorch's own CPU Adam takes 14.76 s for the larger one, 0.07."""


@record
class Stack:
    """What a software version costs, next to the chip's own numbers. (Which kernels it has is ``strategy.build``.)

    ``host_kernel_s`` and ``host_collective_s``: time the host needs for one op of the program and for one collective, with all that
    Python, autograd and the driver do for it, so that a pass of n ops never takes less than n times this. ``context_byte``: device
    memory outside the framework's allocator; ``communicator_byte``: more of it per communicator; ``fragmentation``: reserved over
    allocated, minus one. ``host_optimizer_efficiency``: share of the host's memory bandwidth that its optimizer reaches on the CPU.
    """

    name: str
    host_kernel_s: Annotated[Num, Quantity("s", ge=0)]
    host_collective_s: Annotated[Num, Quantity("s", ge=0)]
    context_byte: Annotated[Num, Quantity("B", ge=0)]
    communicator_byte: Annotated[Num, Quantity("B", ge=0)]
    fragmentation: Annotated[Num, Quantity(ge=0, le=1)]
    host_optimizer_efficiency: Annotated[Num, Quantity(gt=0, le=1)] = CPU_ADAM_EFFICIENCY
