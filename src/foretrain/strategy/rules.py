"""What must divide what: every broken rule as a problem that names the field, what is allowed and the nearest valid values."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from foretrain.core.errors import Problem
from foretrain.strategy.layout import split_layers
from foretrain.strategy.strategy import Strategy
from foretrain.workload.convnet import ConvNet
from foretrain.workload.model import Model, layer_kinds
from foretrain.workload.recipe import Part, Recipe, Workload

HALF = ("fp16", "bf16")
TWO = 2
PARTS: tuple[Part, ...] = ("embedding", "layers", "head")


def divisors(n: int) -> list[int]:
    """All divisors of ``n`` in ascending order.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


def nearest(value: float, valid: list[int], count: int = 2) -> tuple[int, ...]:
    """The ``count`` members of ``valid`` closest to ``value``, in ascending order.

    >>> nearest(100, [32, 64, 96, 128, 160])
    (96, 128)
    """
    others = [choice for choice in valid if choice != value]
    return tuple(sorted(sorted(others, key=lambda v: (abs(v - value), v))[:count]))


def around(value: int, step: int) -> tuple[int, ...]:
    """The multiples of ``step`` on either side of ``value``, none below ``step``.

    >>> around(100, 32), around(3, 6)
    ((96, 128), (6, 12))
    """
    below = max(value // step * step, step)
    return below, below + step


def must_divide(field: str, value: int, whole: int, whole_name: str, limit: int | None = None) -> Iterator[Problem]:
    """``value`` must divide ``whole``."""
    if whole % value:
        valid = [d for d in divisors(whole) if limit is None or d <= limit]
        yield Problem(
            field=field,
            value=value,
            message=f"must divide {whole_name} = {whole}",
            allowed=f"one of {', '.join(map(str, valid[:24]))}",
            nearest=nearest(value, valid),
        )


def tensor_parallel_rules(model: Model, recipe: Recipe, strategy: Strategy) -> Iterator[Problem]:
    """Heads, MLP columns and (with sequence parallelism) tokens are cut evenly over tp."""
    tp = int(strategy.tp)
    yield from must_divide("strategy.tp", tp, model.num_heads, "num_heads")
    if any(not kind.experts for kind in layer_kinds(model)):
        yield from must_divide("strategy.tp", tp, model.ffn_size, "ffn_size")
    elif model.experts and model.experts.shared_ffn_size:
        yield from must_divide("strategy.tp", tp, model.experts.shared_ffn_size, "experts.shared_ffn_size")
    if strategy.kv_replication:
        if tp > model.num_kv_heads and tp % model.num_kv_heads:
            yield Problem(
                field="strategy.tp",
                value=tp,
                message=f"must be a multiple of num_kv_heads = {model.num_kv_heads} when key-value heads are replicated",
                nearest=around(tp, model.num_kv_heads),
            )
    elif model.latent is None:  # latent attention makes keys and values of every head on the rank that owns the head
        both = [d for d in divisors(model.num_kv_heads) if model.num_heads % d == 0]
        if model.num_kv_heads % tp:
            yield Problem(
                field="strategy.tp",
                value=tp,
                message=f"must divide num_kv_heads = {model.num_kv_heads} (or set strategy.kv_replication=true)",
                allowed=f"one of {', '.join(map(str, both))}",
                nearest=nearest(tp, both),
            )
    parts = tp * int(strategy.cp) if strategy.sequence_parallel else int(strategy.cp)
    if int(recipe.seq_len) % parts:
        yield Problem(
            field="recipe.seq_len",
            value=int(recipe.seq_len),
            message=f"must be a multiple of {'tp x cp' if strategy.sequence_parallel else 'cp'} = {parts}",
            nearest=around(int(recipe.seq_len), parts),
        )


def pipeline_rules(model: Model, recipe: Recipe, strategy: Strategy) -> Iterator[Problem]:
    """Stages, model chunks and the schedule's demand on microbatches."""
    pp, vpp, m = strategy.pp, strategy.vpp, int(strategy.num_microbatches)
    num_layers = len(layer_kinds(model))
    if pp * vpp > num_layers:
        yield Problem(
            field="strategy.pp" if vpp == 1 else "strategy.vpp",
            value=pp if vpp == 1 else vpp,
            message=f"pp x vpp = {pp * vpp} needs at least as many layers as the model's {num_layers}",
            allowed=f"pp x vpp <= {num_layers}",
            nearest=(num_layers,) if vpp == 1 else (max(num_layers // pp, 1),),
        )
    if strategy.stage_layers and (len(strategy.stage_layers) != pp or sum(strategy.stage_layers) != num_layers):
        yield Problem(
            field="strategy.stage_layers",
            value=list(strategy.stage_layers),
            message=f"must list {pp} stages that add up to num_layers = {num_layers}",
        )
    if strategy.schedule == "interleaved":
        if vpp < 2 or pp < 2:
            yield Problem(
                field="strategy.vpp" if pp > 1 else "strategy.pp",
                value=vpp if pp > 1 else pp,
                message="the interleaved schedule needs at least 2 stages and 2 model chunks per stage",
                allowed=">= 2",
                nearest=(2,),
            )
        yield from chunk_rules(num_layers, strategy)
        yield from interleaving_rules(pp, m, strict=strategy.build.strict_interleaving)
    elif vpp > 1:
        yield Problem(
            field="strategy.schedule",
            value=strategy.schedule,
            message=f"vpp = {vpp} model chunks per stage need the interleaved schedule",
            allowed="interleaved, or vpp = 1",
            nearest=("interleaved",),
        )


def chunk_rules(num_layers: int, strategy: Strategy) -> Iterator[Problem]:
    """Chunks of the interleaved schedule are equally long; only the first and the last stage may have one layer less.

    Megatron-LM refuses other splits; an embedding and a head may stand for the missing layers, as in the 405B run of Llama 3 (arXiv
    2407.21783, section 3.3.2). Unequal chunks stall the schedule far beyond its closed form.
    """
    split = strategy.stage_layers or split_layers(num_layers, strategy.pp)
    longest = max(split)
    short = [longest - layers for layers in split]
    uneven = any(short[1:-1]) or max(short) > 1
    if uneven or longest % strategy.vpp:
        valid = [] if uneven else [d for d in divisors(longest) if d > 1]
        why = f"layers per stage {min(split)} to {longest}" if uneven else f"{longest} layers per stage"
        yield Problem(
            field="strategy.vpp",
            value=strategy.vpp,
            message=f"the interleaved schedule needs chunks of equal length; here {why}",
            allowed=f"one of {', '.join(map(str, valid))}" if valid else "vpp = 1, or a pp that divides the layers",
            nearest=nearest(strategy.vpp, valid) if valid else (1,),
        )


def interleaving_rules(pp: int, num_microbatches: int, *, strict: bool) -> Iterator[Problem]:
    """Microbatches of the interleaved schedule: a multiple of pp (Megatron-LM), or of the number of rounds (PyTorch)."""
    step = pp if strict else rounds(pp, num_microbatches)
    if num_microbatches % step:
        rule = f"pp = {pp} (rule of Megatron-LM; stack.build)" if strict else f"the number of rounds max(1, m // pp) = {step}"
        for field in ("strategy.num_microbatches", "strategy.pp"):
            yield Problem(
                field=field,
                value=num_microbatches if field.endswith("microbatches") else pp,
                message=f"with the interleaved schedule num_microbatches = {num_microbatches} must be a multiple of {rule}",
                nearest=around(num_microbatches, step) if field.endswith("microbatches") else nearest(pp, divisors(num_microbatches)),
            )


def rounds(pp: int, num_microbatches: int) -> int:
    """Rounds of PyTorch's flexible interleaved schedule, ``max(1, m // pp)`` (pytorch/pytorch pull request 129597).

    >>> rounds(4, 10), rounds(4, 3)
    (2, 1)
    """
    return max(1, num_microbatches // pp)


def batch_rules(model: Model | ConvNet, recipe: Recipe, strategy: Strategy) -> Iterator[Problem]:
    """The global batch is whole microbatches on whole data-parallel ranks, also at every step of a ramp."""
    step = int(strategy.dp) * int(strategy.microbatch_size)
    batch = int(recipe.global_batch_size)
    if batch % step:
        factors = f"{int(strategy.dp)} x {int(strategy.microbatch_size)}"
        text = f"global_batch_size = {batch} must be a multiple of dp x microbatch_size = {factors} = {step}"
        choices = around(batch, step)
        yield Problem(field="recipe.global_batch_size", value=batch, message=text, nearest=choices)
        yield Problem(field="strategy.dp", value=int(strategy.dp), message=text, nearest=nearest(int(strategy.dp), divisors(batch)))
        yield Problem(
            field="strategy.microbatch_size",
            value=int(strategy.microbatch_size),
            message=text,
            nearest=nearest(int(strategy.microbatch_size), divisors(batch)),
        )
    if recipe.batch_ramp is not None:
        for size in recipe.batch_ramp.sizes():
            if size % step:
                yield Problem(
                    field="recipe.batch_ramp",
                    value=size,
                    message=f"every batch of the ramp must be a multiple of dp x microbatch_size = {step}",
                    nearest=around(size, step),
                )
                break
    if recipe.document_lens and sum(recipe.document_lens) > int(recipe.seq_len):
        yield Problem(
            field="recipe.document_lens",
            value=sum(recipe.document_lens),
            message=f"the packed documents exceed seq_len = {int(recipe.seq_len)}",
        )


def expert_rules(model: Model, recipe: Recipe, strategy: Strategy) -> Iterator[Problem]:
    """Experts are spread evenly over ep ranks, each cut evenly over etp, inside the ranks of one stage."""
    ep, etp, tp = int(strategy.ep), int(strategy.etp), int(strategy.tp)
    if model.experts is None:
        for name, value in (("ep", ep), ("etp", etp)):
            if value != 1:
                text = "this model has no experts to spread"
                yield Problem(field=f"strategy.{name}", value=value, message=text, allowed="1", nearest=(1,))
        for name, ratio, none in (("capacity_factor", recipe.capacity_factor, 0), ("expert_imbalance", recipe.expert_imbalance, 1)):
            if float(ratio) != none:
                text = "this model has no experts"
                yield Problem(field=f"recipe.{name}", value=float(ratio), message=text, allowed=str(none), nearest=(none,))
        return
    yield from must_divide("strategy.ep", ep, model.experts.num_experts, "experts.num_experts")
    yield from must_divide("model.experts.num_groups", model.experts.num_groups, model.experts.num_experts, "experts.num_experts")
    chosen = ("experts_per_token", model.experts.num_experts), ("groups_per_token", model.experts.num_groups)
    for name, most in chosen:
        value = getattr(model.experts, name)
        if value > most:
            yield Problem(
                field=f"model.experts.{name}", value=value, message="exceeds what there is", allowed=f"1 to {most}", nearest=(most,)
            )
    if strategy.overlap_ep and (int(strategy.num_microbatches) < TWO or strategy.recompute == "full"):
        text = "hiding the dispatch needs the compute of a second microbatch, and no full recomputation (Megatron-LM)"
        yield Problem(field="strategy.overlap_ep", value=True, message=text, nearest=(False,))
    yield from must_divide("strategy.etp", etp, model.experts.ffn_size, "experts.ffn_size")
    ranks = tp * int(strategy.cp) * int(strategy.dp)
    yield from must_divide("strategy.ep", ep * etp, ranks, "tp x cp x dp (ep x etp)")
    if tp > 1 and not strategy.sequence_parallel:
        text = "experts with tensor parallelism need sequence parallelism: else every rank of tp would send the same tokens (Megatron-LM)"
        yield Problem(field="strategy.sequence_parallel", value=False, message=text, nearest=(True,))


def shard_rules(model: Model, recipe: Recipe, strategy: Strategy) -> Iterator[Problem]:
    """Replicas of shards, and heads exchanged for tokens."""
    dp, replicas, cp = int(strategy.dp), int(strategy.dp_replicate), int(strategy.cp)
    yield from must_divide("strategy.dp_replicate", replicas, dp, "dp")
    if replicas > 1 and (strategy.zero == 0 or model.experts is not None):
        text = "keeping replicas of the shards needs shards (zero 1 to 3), and no experts"
        yield Problem(field="strategy.dp_replicate", value=replicas, message=text, allowed="1", nearest=(1,))
    if strategy.context_parallel == "ulysses" and cp > 1:
        for name, heads in (("num_heads", model.num_heads), *(() if model.latent else (("num_kv_heads", model.num_kv_heads),))):
            held = max(heads // int(strategy.tp), 1)
            if name == "num_heads" or not strategy.kv_replication:
                yield from must_divide("strategy.cp", cp, held, f"the heads of a rank (ulysses), {name} / tp")


def adapter_rules(model: Model, recipe: Recipe, strategy: Strategy) -> Iterator[Problem]:
    """Frozen weights, adapters, and inputs that the model does not have."""
    if recipe.precision.weights == "nf4" and recipe.lora is None:
        text = "4-bit weights are frozen; training needs adapters (recipe.lora)"
        yield Problem(field="recipe.precision.weights", value="nf4", message=text, nearest=("bf16",))
    if recipe.lora is not None and model.latent is not None and {"q", "k", "v"} & set(recipe.lora.targets):
        text = "adapters inside latent attention are not modelled; target o, gate, up, down"
        yield Problem(field="recipe.lora.targets", value=list(recipe.lora.targets), message=text)
    if recipe.lora is None and not any(recipe.trains(part) for part in (*(("encoder",) if model.encoder_layers else ()), *PARTS)):
        yield Problem(field="recipe.frozen", value=list(recipe.frozen), message="leaves nothing to train")
    if recipe.lora is not None and recipe.frozen:
        yield Problem(field="recipe.frozen", value=list(recipe.frozen), message="adapters freeze everything else already", nearest=((),))
    encoder_len = int(recipe.encoder_seq_len)
    if encoder_len % int(strategy.cp):
        text = f"must be a multiple of cp = {int(strategy.cp)}"
        yield Problem(field="recipe.encoder_seq_len", value=encoder_len, message=text, nearest=around(encoder_len, int(strategy.cp)))
    if (encoder_len > 0) != (model.encoder_layers > 0):
        text = "the model has no encoder" if encoder_len else "an encoder-decoder needs the number of tokens its encoder reads"
        nearest_len = (int(recipe.seq_len),) if model.encoder_layers else (0,)
        yield Problem(field="recipe.encoder_seq_len", value=encoder_len, message=text, nearest=nearest_len)


def feature_rules(model: Model, recipe: Recipe, strategy: Strategy) -> Iterator[Problem]:
    """Features that need or exclude one another."""
    if sorted(strategy.mesh) != ["cp", "dp", "pp", "tp"]:
        yield Problem(field="strategy.mesh", value=list(strategy.mesh), message="must name each of tp, cp, dp, pp once")
    if int(strategy.cp) > 1 and not strategy.flash_attention:
        yield Problem(
            field="strategy.flash_attention", value=False, message="context parallelism needs a fused attention kernel", nearest=(True,)
        )
    if strategy.flash_attention and recipe.precision.activation not in HALF:
        yield Problem(
            field="strategy.flash_attention",
            value=True,
            message=f"fused attention kernels take 16-bit activations, not {recipe.precision.activation}",
            nearest=(False,),
        )
    for name, active in (("pp", strategy.pp > 1), ("recompute", strategy.recompute != "none")):
        if strategy.activation_offload == "layer" and active:
            text = f"offloading activations by layer does not work with {name} (NVIDIA Megatron-Bridge's guide to CPU offloading)"
            yield Problem(field="strategy.activation_offload", value="layer", message=text, nearest=("none",))
            yield Problem(field=f"strategy.{name}", value=getattr(strategy, name), message=text)
    if model.position == "learned" and 0 < model.num_positions < int(recipe.seq_len):
        yield Problem(
            field="recipe.seq_len",
            value=int(recipe.seq_len),
            message="exceeds the model's learned position table",
            allowed=f"1 to {model.num_positions}",
            nearest=(model.num_positions,),
        )
    if recipe.flop_convention == "convolutions":
        text = "is the convention of convolutional networks"
        yield Problem(field="recipe.flop_convention", value=recipe.flop_convention, message=text, nearest=("causal",))
    yield from type_rules(recipe)


def type_rules(recipe: Recipe) -> Iterator[Problem]:
    """What is computed with has a type."""
    if recipe.precision.weights == "none" or recipe.precision.math == "none" or recipe.precision.activation == "none":
        yield Problem(field="recipe.precision", message="math, activation and weights need a data type")


WHOLE = "convolutional networks are simulated data parallel only: every chip holds the whole network"
IMAGES = "means nothing for a convolutional network, which trains on images and in all its parts"
CONVNET_PLAN: tuple[tuple[str, object, str], ...] = (
    *((name, 1, WHOLE) for name in ("tp", "pp", "vpp", "cp", "ep", "etp")),
    ("sequence_parallel", False, WHOLE),
    ("stage_layers", (), WHOLE),
    ("recompute", "none", "recomputation of convolutional networks is not simulated; a smaller microbatch_size saves activations"),
    ("activation_offload", "none", "offloading activations of convolutional networks is not simulated"),
)
CONVNET_RECIPE: tuple[tuple[str, object, str], ...] = (
    ("seq_len", 1, "an image counts as one token"),
    ("encoder_seq_len", 0, IMAGES),
    ("document_lens", (), IMAGES),
    ("lora", None, IMAGES),
    ("frozen", (), IMAGES),
    ("flop_convention", "convolutions", "the conventions of transformers count attention; a convolutional network has its own"),
)
"""Fields of plan and recipe that a convolutional network leaves at one value, and why."""


def convnet_rules(recipe: Recipe, strategy: Strategy) -> Iterator[Problem]:
    """Convolutional networks run data parallel, in 16 bits or wider, on images."""
    for root, given, rules in (("strategy", strategy, CONVNET_PLAN), ("recipe", recipe, CONVNET_RECIPE)):
        for name, only, reason in rules:
            value = getattr(given, name)
            if value != only:
                yield Problem(field=f"{root}.{name}", value=value, message=reason, allowed=str(only), nearest=(only,))
    for part, wide in (("math", "bf16"), ("weights", "bf16"), ("activation", "bf16")):
        value = getattr(recipe.precision, part)
        if value in ("fp8", "nf4"):
            text = "convolutions and their weights are simulated in 16 bits or wider"
            yield Problem(field=f"recipe.precision.{part}", value=value, message=text, allowed="bf16, fp16, tf32, fp32", nearest=(wide,))
    replicas = int(strategy.dp_replicate)
    yield from must_divide("strategy.dp_replicate", replicas, int(strategy.dp), "dp")
    if replicas > 1 and strategy.zero == 0:
        text = "keeping replicas of the shards needs shards (zero 1 to 3)"
        yield Problem(field="strategy.dp_replicate", value=replicas, message=text, allowed="1", nearest=(1,))
    if sorted(strategy.mesh) != ["cp", "dp", "pp", "tp"]:
        yield Problem(field="strategy.mesh", value=list(strategy.mesh), message="must name each of tp, cp, dp, pp once")
    yield from type_rules(recipe)


RULES: tuple[Callable[[Model, Recipe, Strategy], Iterator[Problem]], ...] = (
    tensor_parallel_rules,
    pipeline_rules,
    batch_rules,
    expert_rules,
    shard_rules,
    adapter_rules,
    feature_rules,
)


def world_size_rules(strategy: Strategy, num_chips: int) -> Iterator[Problem]:
    """The degrees multiply to the number of chips."""
    world = int(strategy.world_size)
    if world != num_chips:
        others = world // int(strategy.dp)
        yield Problem(
            field="strategy.dp",
            value=int(strategy.dp),
            message=f"tp x pp x cp x dp = {int(strategy.tp)} x {strategy.pp} x {int(strategy.cp)} x {int(strategy.dp)} = {world} "
            f"must equal the {num_chips} chips",
            nearest=(num_chips // others,) if num_chips % others == 0 else (),
            allowed="" if num_chips % others == 0 else f"tp x pp x cp = {others} must divide {num_chips}",
        )


def check(workload: Workload, strategy: Strategy, num_chips: int) -> list[Problem]:
    """All broken rules of a single plan (plain numbers) on ``num_chips`` chips; an empty list is a valid plan."""
    model, recipe = workload.model, workload.recipe
    if isinstance(model, ConvNet):
        problems = [*convnet_rules(recipe, strategy), *batch_rules(model, recipe, strategy)]
    else:
        problems = [problem for rule in RULES for problem in rule(model, recipe, strategy)]
    return [*problems, *world_size_rules(strategy, num_chips)]


def warnings(workload: Workload, strategy: Strategy) -> list[str]:
    """What is allowed but probably not meant."""
    result = []
    m, pp = int(strategy.num_microbatches), strategy.pp
    if pp > 1 and m < pp and strategy.schedule != "interleaved":
        result.append(f"only {m} microbatches for {pp} stages: the bubble is {(pp - 1) / (m + pp - 1):.0%} of the pipeline's time")
    if strategy.recompute == "selective" and strategy.flash_attention:
        result.append("selective recomputation changes nothing here: the fused attention kernel keeps no scores")
    if strategy.sequence_parallel and int(strategy.tp) == 1:
        result.append("sequence parallelism changes nothing at tp = 1")
    return result
