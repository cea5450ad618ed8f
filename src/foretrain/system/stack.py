"""The software stack: the numbers of one framework version."""

from __future__ import annotations

from typing import Annotated

from foretrain.core.numeric import Num
from foretrain.core.record import record
from foretrain.core.units import Quantity


@record
class Stack:
    """What a software version costs, next to the chip's own numbers. (Which kernels it has is ``strategy.build``.)

    ``host_kernel_s`` and ``host_collective_s``: time the host needs for one op of the program and for one collective, with all that
    Python, autograd and the driver do for it, so that a pass of n ops never takes less than n times this. ``context_byte``: device
    memory outside the framework's allocator; ``communicator_byte``: more of it per communicator; ``fragmentation``: reserved over
    allocated, minus one.
    """

    name: str
    host_kernel_s: Annotated[Num, Quantity("s", ge=0)]
    host_collective_s: Annotated[Num, Quantity("s", ge=0)]
    context_byte: Annotated[Num, Quantity("B", ge=0)]
    communicator_byte: Annotated[Num, Quantity("B", ge=0)]
    fragmentation: Annotated[Num, Quantity(ge=0, le=1)]
