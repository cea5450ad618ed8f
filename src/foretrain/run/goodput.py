"""Checkpoints, failures and waiting for data: how much of a job's time they take."""

from __future__ import annotations

from foretrain.core.numeric import Num, ceil_div, maximum, minimum, sqrt
from foretrain.core.record import record
from foretrain.system.cluster import Cluster

NEVER_PER_S = 1e-30
"""Failure rate that stands for "never" where a rate of zero would divide: one in more than 1e22 years."""

LEAST_KEPT = 1e-9
"""Share of the time that a job keeps at least; below it the first-order model means "never finishes"."""


@record
class Interruptions:
    """What failures and the defence against them cost over a run, in expected seconds.

    ``checkpoint_s``: writing checkpoints; ``lost_s``: work since the last checkpoint, done again; ``restart_s``: from the
    failures to useful work; ``interval_s``: useful time between checkpoints; ``num_failures``: expected number.
    """

    checkpoint_s: Num
    lost_s: Num
    restart_s: Num
    interval_s: Num
    num_failures: Num


def transfer_time(num_byte: Num, storage_byte_per_s: Num, server_byte_per_s: Num, num_servers: Num) -> Num:
    """Seconds to move ``num_byte`` of a checkpoint or of data between all servers and the file system.

    ``bytes / min(file system, servers x server)`` with both rates in B/s. Every server moves an equal share and the job waits:
    an upper bound where checkpoints are written in the background.

    >>> transfer_time(6e12, 2e12, 5e9, 100.0)
    12.0
    """
    return num_byte / minimum(storage_byte_per_s, num_servers * server_byte_per_s)


def checkpoint_times(checkpoint_byte: Num, cluster: Cluster) -> tuple[Num, Num]:
    """Seconds to write and to read a checkpoint of ``checkpoint_byte`` on ``cluster``.

    A server that is used in part can still give its full storage rate, so servers are rounded up.
    """
    storage, num_servers = cluster.storage, ceil_div(cluster.num_chips, cluster.server.num_chips)
    return (
        transfer_time(checkpoint_byte, storage.write_byte_per_s, storage.server_byte_per_s, num_servers),
        transfer_time(checkpoint_byte, storage.read_byte_per_s, storage.server_byte_per_s, num_servers),
    )


def input_stall(input_byte: Num, step_s: Num, cluster: Cluster) -> Num:
    """Seconds per step that all chips wait for ``input_byte``, the data of one step, from the file system.

    ``max(bytes / min(file system, servers x server) - step_s, 0)``: the next step's data are read while this one computes, once in all
    (ranks of one replica share them), so only what is slower than the step is waited for (the data stall of Mohan et al., VLDB 14(5), 2021,
    arXiv 2007.06775, for a full prefetch queue). The reading of this job has the file system to itself, and decoding costs nothing.
    """
    storage, num_servers = cluster.storage, ceil_div(cluster.num_chips, cluster.server.num_chips)
    return maximum(transfer_time(input_byte, storage.read_byte_per_s, storage.server_byte_per_s, num_servers) - step_s, 0.0)


def checkpoint_interval(write_s: Num, failure_per_s: Num, work_s: Num) -> Num:
    """Useful seconds between checkpoints: ``min(sqrt(2 write_s / failure_per_s), work_s)``.

    The optimum to first order in the write time (Young, CACM 17(9), 1974, pp. 530-531; Daly, FGCS 22(3), 2006, pp. 303-312, without the
    restart time that Daly adds to the mean time between failures). Valid while a write and a restart are short beside that time. A job
    that is shorter than the optimum writes one checkpoint, at its end; without failures that is the only one. A free
    checkpoint (``write_s = 0``) is written all the time.

    >>> round(float(checkpoint_interval(10.0, 1 / 6000.0, 1e6)), 1), checkpoint_interval(10.0, 0.0, 1e6)
    (346.4, 1000000.0)
    """
    return minimum(sqrt(2.0 * write_s / maximum(failure_per_s, NEVER_PER_S)), work_s)


def interrupt(work_s: Num, write_s: Num, restart_s: Num, failure_per_s: Num) -> Interruptions:
    """Checkpoint, rework and restart time of a job with ``work_s`` of useful work, all in seconds.

    Failures come at ``failure_per_s`` over the whole wall time T, and each costs half an interval t with its checkpoint d, and a
    restart r (Daly 2006, first-order cost function with half a segment lost)::

        T = work (1 + d / t) + f T ((t + d) / 2 + r)   =>   T = work (1 + d / t) / (1 - f ((t + d) / 2 + r))

    The failed time's share ``f ((t + d) / 2 + r)`` is clipped at ``1 - LEAST_KEPT``: a job that fails faster than it works gets
    1e9 times its working time, a finite stand-in for "never". Against Daly's exact sum over exponential failures, T is within 1 %
    while ``d`` and ``r`` are below a hundredth of ``1 / f`` and within 10 % below a tenth, on the high side. At the optimal interval the
    shares ``d / t`` and ``f t / 2`` are equal. Everything vanishes with ``f``, but for the one checkpoint at the end.
    """
    interval_s = checkpoint_interval(write_s, failure_per_s, work_s)
    # write_s / interval_s, in a form that is 0, and not 0 / 0, for a checkpoint that takes no time
    write_share = maximum(sqrt(0.5 * write_s * failure_per_s), write_s / work_s)
    lost_share = 0.5 * failure_per_s * (interval_s + write_s)
    restart_share = failure_per_s * restart_s
    shrink = minimum((1.0 - LEAST_KEPT) / maximum(lost_share + restart_share, LEAST_KEPT), 1.0)
    wall_s = work_s * (1.0 + write_share) / (1.0 - shrink * (lost_share + restart_share))
    return Interruptions(
        checkpoint_s=work_s * write_share,
        lost_s=wall_s * shrink * lost_share,
        restart_s=wall_s * shrink * restart_share,
        interval_s=interval_s,
        num_failures=wall_s * failure_per_s,
    )
