"""Where the ranks of a group sit: how many share a server, how many servers they span."""

from __future__ import annotations

from foretrain.core.numeric import Num, clip, maximum
from foretrain.program.program import Group
from foretrain.system.fabric import Fabric


def place(group: Group, fabric: Fabric) -> tuple[Num, ...]:
    """How many branches the group has at each tier, inside to outside; their product is the group's size.

    A unit of tier k (a server, then the cluster) holds ``size_k`` chips. Ranks are numbered along the chips, so members ``stride`` apart
    put ``m_k = clip(size_k / stride, 1, size)`` of them into one unit; the outermost unit holds them all. The branches are ``m_0``,
    ``m_1 / m_0`` and so on: ``(members per server, servers)`` on a fabric of two tiers.

    Exact when group and server sizes divide each other, as meshes of powers of two do; otherwise the mean over the servers (12
    neighbours on servers of 8 give 8 and 1.5). A group is taken to start where a unit starts.

    Returns
    -------
    tuple
        One number per tier, each >= 1, dimensionless, scalar or (candidates,).
    """
    size, stride = group.size, maximum(group.stride, 1.0)
    inside: Num = 1.0
    branches: list[Num] = []
    for tier in fabric.tiers[:-1]:
        members = clip(tier.size / stride, 1.0, size)
        branches.append(members / inside)
        inside = members
    branches.append(size / inside)
    return tuple(branches)
