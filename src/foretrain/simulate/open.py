"""The door: names, options and overrides in; a checked scenario out.

Everything becomes one nested document of text and numbers, overrides are applied to it, and only then is it validated into records: so
``path=value`` reaches every field, with the same units and the same errors as a file.
"""

from __future__ import annotations

import copy
import dataclasses
import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from foretrain.carbon.account import Amortisation
from foretrain.catalog import loader, yamlfile
from foretrain.catalog.provenance import Passport
from foretrain.catalog.schema import plain, validate
from foretrain.core.constants import DTYPE_BYTE
from foretrain.core.errors import InputError, NotFoundError, Problem
from foretrain.cost.account import Prices
from foretrain.run.run import num_steps
from foretrain.simulate.choose import choose
from foretrain.simulate.defaults import complete_recipe
from foretrain.simulate.models import default_models
from foretrain.simulate.scenario import Assumption, Scenario
from foretrain.strategy import rules
from foretrain.strategy.strategy import Strategy
from foretrain.system.chip import Chip
from foretrain.system.cluster import Cluster
from foretrain.system.memory import TIERS
from foretrain.system.server import tier
from foretrain.system.site import Site
from foretrain.system.stack import Stack
from foretrain.workload.convnet import ConvNet, place
from foretrain.workload.precision import PRESETS
from foretrain.workload.recipe import Recipe, Workload

ROOTS = ("model", "recipe", "strategy", "system", "stack", "site", "prices", "amortisation")
RECIPE_OPTIONS = ("seq_len", "global_batch_size", "tokens")
NAME_OPTIONS = ("precision", "stack", "site", "prices", "amortisation")
FILE_KEYS = (*ROOTS, "chips", "precision")
LONGEST_NAME = 4096
NUM_TIERS = 2
PUBLISHED_BATCH = "recipe.global_batch_tokens"
"""A catalogue model's global batch in tokens; the recipe counts in sequences, so ``simulate.defaults`` turns it into those."""
SHORT = {"system.chip": "system.server.chip"}

Document = dict[str, Any]


class _Draft:
    """The scenario document while it is being put together."""

    def __init__(self) -> None:
        self.document: Document = {root: {} for root in ROOTS}
        self.passports: dict[str, Passport] = {}
        self.notes: list[Assumption] = []
        self.where: dict[str, Callable[[tuple[str, ...]], str]] = {}
        self.places: dict[str, str] = {}
        """``file:line:col`` of what was read from a user's catalogue folder; empty for what replaced it."""

    def add(self, root: str, entry: loader.Entry) -> None:
        """Put a catalogue entry under ``root``."""
        self.document[root] = copy.deepcopy(entry.document)
        self.learn(entry)

    def learn(self, entry: loader.Entry) -> None:
        """Keep the passports and places of an entry, and note those from a user's folder."""
        self.passports.update(entry.passports)
        self.places.update(entry.places)
        for field, origin in entry.origins.items():
            self.note(field, origin.name, origin.reason)

    def forget(self, path: str) -> None:
        """Drop what is known about the section or number at ``path``, which is being replaced."""
        for known in (self.passports, self.places):
            for key in [key for key in known if key == path or key.startswith(f"{path}.")]:
                del known[key]
        self.places[path] = ""
        self.notes = [note for note in self.notes if note.field != path and not note.field.startswith(f"{path}.")]

    def note(self, field: str, value: object, reason: str) -> None:
        """Record a value the user did not give."""
        self.notes.append(Assumption(field=field, value=value, reason=reason))


def open_scenario(
    model: str,
    on: str | None = None,
    chips: object = None,
    options: Mapping[str, object] | None = None,
    overrides: Sequence[str] = (),
    catalog: Sequence[str | Path] = (),
) -> Scenario:
    """Resolve a description into a scenario.

    Parameters
    ----------
    model
        A catalogue id, a Hugging Face ``config.json`` or ``adapter_config.json`` or its folder, or a scenario YAML.
    on
        A catalogue system id; may be left to a scenario YAML.
    chips
        Number of chips; None takes one server, and says so.
    options
        Plan options by name (``tp``, ``microbatch_size``, ``precision``, ``site`` ...); None where not given.
    overrides
        ``path=value`` settings on any field of the document, applied last.
    catalog
        Folders of the user's own entries, searched before those of the environment and the shipped catalogue.

    Raises
    ------
    InputError
        With every problem found: unknown names, wrong units, values out of range, broken rules of the plan.
    """
    with loader.searching(catalog):
        return _open(model, on, chips, options or {}, overrides)


def _open(model: str, on: str | None, chips: object, options: Mapping[str, object], overrides: Sequence[str]) -> Scenario:
    given = {name: value for name, value in options.items() if value is not None}
    draft = _Draft()
    file = _read_model(draft, model)
    system_name = _place(draft, on or file.get("system"), chips if chips is not None else file.get("chips"))
    _add_names(draft, system_name, {**file, **{name: given[name] for name in NAME_OPTIONS if name in given}})
    _merge_file(draft, file)
    for name, value in given.items():
        if name not in NAME_OPTIONS:
            root = "recipe" if name in RECIPE_OPTIONS else "strategy"
            draft.forget(f"{root}.{name}")
            draft.document[root][name] = value
    _choose_attention(draft)
    for text in overrides:
        _set(draft, text)
    return _resolve(draft, system_name)


def _names_in(node: Any, *keys: str) -> list[str]:
    """Names of the mapping that ``keys`` lead to; none where something else is, which validation will say."""
    for key in keys:
        node = node.get(key) if isinstance(node, dict) else None
    return list(node) if isinstance(node, dict) else []


def _choose_attention(draft: _Draft) -> None:
    """The stack's fused attention kernel, or another that the chip has; none where there is none or activations are wider than 16 bits."""
    strategy, precision = draft.document["strategy"], draft.document["recipe"]["precision"]
    activation = precision.get("activation") if isinstance(precision, dict) else None
    chip = draft.document["system"]["server"]["chip"]
    known = _names_in(chip, "kernels", "attention")
    kernel = strategy["build"].get("attention_kernel")
    if not strategy.get("flash_attention"):
        return
    if known and kernel not in known:
        strategy["build"]["attention_kernel"] = known[-1]
        draft.note("strategy.build.attention_kernel", known[-1], f"{chip.get('name')} has no {kernel}")
    wide = activation in DTYPE_BYTE and activation not in rules.HALF
    if wide or not known:
        strategy["flash_attention"] = False
        none = f"{chip.get('name')} has no fused attention kernel"
        why = f"fused attention kernels take 16-bit activations, not {activation}" if wide else none
        draft.note("strategy.flash_attention", value=False, reason=why)


def _resolve(draft: _Draft, system_name: str) -> Scenario:
    """Validate every root, fill the recipe, choose the plan, check the rules."""
    document = draft.document
    cluster = _record(draft, Cluster, "system")
    stack = _record(draft, Stack, "stack")
    site, prices = _record(draft, Site, "site"), _record(draft, Prices, "prices")
    amortisation = _record(draft, Amortisation, "amortisation")
    model = _record(draft, loader.model_record(document["model"]), "model")
    complete_recipe(document["recipe"], model, int(cluster.num_chips), draft.notes)
    workload = Workload(model=model, recipe=_record(draft, Recipe, "recipe"))
    if isinstance(model, ConvNet):
        _place_layers(draft, model)
    problems = _machine_rules(workload, cluster) + _attention_rule(document["strategy"], cluster.server.chip)
    if problems:
        raise InputError(problems)
    offload_tier = document["strategy"].get("offload_tier")
    if offload_tier in TIERS:
        tier(cluster.server, offload_tier)
    models = default_models()
    strategy = choose(workload, document["strategy"], cluster, stack, models, draft.notes, draft.where.get("strategy"))
    tokens_per_step = workload.recipe.seq_len * workload.recipe.global_batch_size
    return Scenario(
        model_name=model.name,
        system_name=system_name,
        workload=workload,
        strategy=strategy,
        cluster=cluster,
        stack=stack,
        site=site,
        prices=prices,
        amortisation=amortisation,
        models=models,
        num_steps=num_steps(workload.recipe.tokens, tokens_per_step) + ramp_steps(workload.recipe),
        document={**document, "model": plain(model), "recipe": plain(workload.recipe), "strategy": plain(strategy)},
        assumptions=tuple(draft.notes),
        warnings=tuple(rules.warnings(workload, strategy)),
        passports=draft.passports,
    )


def ramp_steps(recipe: Recipe) -> float:
    """Steps that a batch ramp takes beyond those of the full batch for the same tokens.

    The ramp's tokens are shared equally between its batch sizes. Its steps are timed like full ones, which bounds them from above.
    """
    ramp = recipe.batch_ramp
    if ramp is None:
        return 0.0
    share = ramp.tokens / len(ramp.sizes())
    steps = sum(share / (size * recipe.seq_len) for size in ramp.sizes())
    return float(round(float(steps - ramp.tokens / (ramp.end * recipe.seq_len))))


def _place_layers(draft: _Draft, net: ConvNet) -> None:
    """Work out the sizes of all layers; one that does not fit is reported with its line in the scenario file.

    What was settled about attention on the way concerns no convolutional network, and is not mentioned.
    """
    draft.notes[:] = [note for note in draft.notes if not note.field.endswith(("flash_attention", "attention_kernel"))]
    try:
        place(net)
    except InputError as error:
        where = draft.where.get("model")
        if where is None:
            raise
        located = [dataclasses.replace(problem, where=where(tuple(problem.field.split(".")[1:]))) for problem in error.problems]
        raise InputError(located) from None


def _record(draft: _Draft, cls: type[Any], root: str) -> Any:
    from_file, from_folder = draft.where.get(root), loader.place_finder(draft.places, root)

    def where(keys: tuple[str, ...]) -> str:
        """The scenario file unless only an entry of a user's folder has the field."""
        exact = draft.places.get(".".join((root, *keys)), "")
        return exact or (from_file(keys) if from_file else from_folder(keys))

    return validate(cls, draft.document[root], root, where)


def _read_model(draft: _Draft, model: str) -> Mapping[str, Any]:
    """Fill ``model`` and the recipe's published defaults; returns a scenario file's other keys, empty for the other kinds."""
    if not model:
        allowed = "a catalogue id, a config.json or its folder, a scenario YAML"
        raise InputError([Problem(field="model", message="is missing", allowed=allowed)])
    if "\0" in model or len(model) > LONGEST_NAME:
        raise InputError([Problem(field="model", message="is not a name or a path", value=model[:80])])
    path = Path(model)
    if model.endswith((".yaml", ".yml")):
        return _read_scenario(draft, path)
    hub = model.rpartition("/")[2].lower()
    if model.count("/") == 1 and hub in loader.ids("models") and not path.exists():
        draft.note("model", hub, f"the catalogue's entry for {model}")
        model = hub
    if model.endswith(".json") or "/" in model or (path.is_dir() and model not in loader.ids("models")):
        from foretrain.formats.hf import is_adapter, read

        if is_adapter(path):
            _adapted_model(draft, path)
            return {}
        parsed, inferred = read(path)
        draft.document["model"] = plain(parsed)
        for key, value, reason in inferred:
            draft.note(f"model.{key}", value, reason)
        return {}
    _catalogue_model(draft, model)
    return {}


def _adapted_model(draft: _Draft, path: Path) -> None:
    """The catalogue model that an adapter file names as its base, and the adapter as ``recipe.lora``."""
    from foretrain.formats.hf import read_adapter

    lora, base = read_adapter(path)
    name = base.rsplit("/", 1)[-1].lower().removesuffix("-hf")
    if name not in loader.ids("models"):
        advice = f"give its config.json instead, with --set 'recipe.lora={{rank: {lora.rank}, targets: [{', '.join(lora.targets)}]}}'"
        near = tuple(difflib.get_close_matches(name, loader.ids("models"), n=2))
        message = f"the adapter's base model is not in the catalogue; {advice}"
        raise NotFoundError([Problem(field="model", value=base, message=message, nearest=near, where=str(path))])
    draft.add("model", loader.Entry(document=loader.raw("models", name)["model"], passports={}))
    draft.document["recipe"]["lora"] = plain(lora)
    draft.note("model", name, f"the base model that the adapter file names ({base})")
    draft.note("recipe.lora", f"rank {lora.rank} on {', '.join(lora.targets)}", "from the adapter file; everything else is frozen")


def _catalogue_model(draft: _Draft, name: str) -> None:
    model, recipe = loader.model(name)
    draft.add("model", model)
    draft.add("recipe", recipe)
    for field, passport in recipe.passports.items():
        if field != PUBLISHED_BATCH:
            draft.note(field, passport.value_text, f"published for this model ({passport.source})")


def _read_scenario(draft: _Draft, path: Path) -> Mapping[str, Any]:
    """A scenario file: the roots of the document, each a catalogue id or a mapping, plus ``chips`` and ``precision``."""
    document, where = yamlfile.parse(yamlfile.read_text(path, "model"), str(path), "scenario")
    problems = [
        Problem(
            field=str(key),
            message="is not a known field of a scenario",
            allowed=", ".join(FILE_KEYS),
            nearest=tuple(difflib.get_close_matches(str(key), FILE_KEYS, n=2)),
            where=where((str(key),)),
        )
        for key in document
        if key not in FILE_KEYS
    ]
    if "model" not in document:
        problems.append(Problem(field="model", message="is missing", where=where(())))
    problems.extend(
        Problem(field=root, message="must be a mapping of fields", value=document[root], where=where((root,)))
        for root in ("recipe", "strategy")
        if not isinstance(document.get(root, {}), dict)
    )
    if problems:
        raise InputError(problems)
    for root in ROOTS:
        draft.where[root] = lambda keys, root=root: where((root, *keys))  # type: ignore[misc]
    if isinstance(document["model"], dict):
        draft.document["model"] = document["model"]
    elif str(document["model"]).endswith((".yaml", ".yml")):
        text = "a scenario cannot take its model from another scenario"
        raise InputError([Problem(field="model", value=document["model"], message=text, where=where(("model",)))])
    else:
        _read_model(draft, str(document["model"]))
    return document


def _place(draft: _Draft, on: object, chips: object) -> str:
    """Fill ``system``: a catalogue system and the number of chips."""
    if not isinstance(on, str) or not on:
        raise NotFoundError([Problem(field="system", message="is missing", value=on, allowed=", ".join(loader.ids("systems")))])
    _, entry = loader.system(on)
    draft.add("system", entry)
    if chips is None:
        chips = draft.document["system"]["server"]["num_chips"]
        draft.note("system.num_chips", chips, "not given; one server")
    draft.document["system"]["num_chips"] = chips
    return on


def _add_names(draft: _Draft, system_name: str, chosen: Mapping[str, Any]) -> None:
    """Fill ``stack``, ``site``, ``prices`` and ``amortisation`` from the catalogue: the chosen names, else the system's."""
    names, _ = loader.system(system_name)
    for root, kind in (("stack", "stacks"), ("site", "sites"), ("prices", "prices"), ("amortisation", "amortisations")):
        name = chosen.get(root, names[root])
        if root in chosen and isinstance(name, dict):
            name = names[root]
        if root not in chosen:
            draft.note(root, loader.title(name), f"the default of {system_name}")
        draft.add(root, loader.entry(kind, name, root))
    stack = draft.document["stack"]
    draft.document["strategy"] = {**stack.pop("strategy", {}), "build": stack.pop("build", {})}
    recipe = stack.pop("recipe", {})
    peaks = _names_in(draft.document, "system", "server", "chip", "dense_flop_per_s")
    widest = next((word for word in ("bf16", "fp16", "fp32") if word in peaks), "fp32")
    word = str(chosen.get("precision", widest))
    if word not in PRESETS:
        allowed = ", ".join(PRESETS)
        near = tuple(difflib.get_close_matches(word, PRESETS, n=2))
        raise InputError([Problem(field="recipe.precision", value=word, message="is not a known precision", allowed=allowed, nearest=near)])
    if "precision" not in chosen:
        reason = f"not given; weights and math in {word}, gradients, master copy and moments in fp32"
        draft.note("recipe.precision", word, reason if widest == "bf16" else f"{reason}; the chip has no bf16")
    draft.document["recipe"] = {**draft.document["recipe"], **recipe, "precision": plain(PRESETS[word])}


def _merge_file(draft: _Draft, file: Mapping[str, Any]) -> None:
    """A scenario file's mappings, laid over what the catalogue gave, field by field."""
    for root in ROOTS:
        if root != "model" and isinstance(file.get(root), dict):
            _lay_over(draft.document[root], file[root])
            for keys in _leaves(file[root], (root,)):
                draft.places[".".join(keys)] = ""


def _leaves(node: Mapping[str, Any], keys: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The paths of the values in nested mappings."""
    for key, value in node.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*keys, str(key)))
        else:
            yield (*keys, str(key))


def _lay_over(below: Document, above: Mapping[str, Any]) -> None:
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(below.get(key), dict):
            _lay_over(below[key], value)
        else:
            below[key] = value


def _set(draft: _Draft, text: str) -> None:
    """Apply ``path=value``; the value is read as YAML, so ``true``, ``3``, ``[1, 2]`` and ``400 Gbit/s`` mean what they look like."""
    path, equals, value_text = text.partition("=")
    path = path.strip()
    for short, long in SHORT.items():
        if f"{path}.".startswith(short + "."):
            path = long + path.removeprefix(short)
    keys = path.split(".")
    if not equals or not all(keys):
        raise InputError([Problem(field="--set", value=text, message="must read path=value", allowed="e.g. site.pue=1.1")])
    if keys[0] not in ROOTS or len(keys) < 2:
        near = tuple(difflib.get_close_matches(keys[0], ROOTS, n=2))
        message = "is not a field of the scenario" if keys[0] not in ROOTS else "names a whole section, not a field"
        raise InputError([Problem(field=path, value=value_text, message=message, allowed=f"paths below {', '.join(ROOTS)}", nearest=near)])
    node: Any = draft.document
    for depth, key in enumerate(keys[:-1]):
        node = _step_into(node, key, ".".join(keys[: depth + 1]), value_text)
    value = _value(path, value_text)
    if path == "recipe.precision" and isinstance(value, str) and value in PRESETS:
        value = plain(PRESETS[value])
    draft.forget(path)
    if path in loader.SECTIONS and isinstance(value, str):
        entry = loader.entry(loader.SECTIONS[path], value, path)
        value = copy.deepcopy(entry.document)
        draft.learn(entry)
    if isinstance(node, list):
        _step_into(node, keys[-1], path, value_text)
        node[int(keys[-1])] = value
    else:
        node[keys[-1]] = value


def _step_into(node: Any, key: str, path: str, value: str) -> Any:
    """The child of a mapping or list; a missing mapping of the path is an error that names its siblings."""
    if isinstance(node, dict) and isinstance(node.get(key), (dict, list)):
        return node[key]
    if isinstance(node, dict) and key in ("batch_ramp", "precision", "build", "lora", "experts", "latent") and node.get(key) is None:
        node[key] = {}
        return node[key]
    if isinstance(node, list) and key.isdigit() and int(key) < len(node):
        return node[int(key)]
    names = [str(name) for name in node] if isinstance(node, dict) else [str(index) for index in range(len(node))]
    raise InputError(
        [
            Problem(
                field=path,
                value=value,
                message="is not a section of the scenario",
                allowed=", ".join(names),
                nearest=tuple(difflib.get_close_matches(key, names, n=2)),
            )
        ]
    )


def _value(path: str, text: str) -> Any:
    try:
        plain_text = not any(getattr(event, "anchor", None) for event in yaml.parse(text, Loader=yaml.SafeLoader))
        value = yaml.safe_load(text) if plain_text else None
    except (yaml.YAMLError, ValueError, RecursionError):
        plain_text = False
    if not plain_text:
        raise InputError([Problem(field=path, value=text, message="is not a plain value")])
    return value


def _attention_rule(plan: Mapping[str, Any], chip: Chip) -> list[Problem]:
    """A plan with fused attention names a kernel that the chip has."""
    build = plan.get("build")
    default = Strategy()
    kernel = build.get("attention_kernel", default.build.attention_kernel) if isinstance(build, Mapping) else default.build.attention_kernel
    known = chip.kernels.attention
    if plan.get("flash_attention", default.flash_attention) is not True or not isinstance(kernel, str) or kernel in known:
        return []
    allowed = ", ".join(known) or "none; set strategy.flash_attention=false"
    message, near = f"{chip.name} has no such kernel", tuple(known)[-1:]
    return [Problem(field="strategy.build.attention_kernel", value=kernel, message=message, allowed=allowed, nearest=near)]


def _machine_rules(workload: Workload, cluster: Cluster) -> list[Problem]:
    """What the machine cannot do whatever the plan."""
    chip = cluster.server.chip
    problems = []
    for part in ("math", "activation"):
        dtype = getattr(workload.recipe.precision, part)
        if dtype not in chip.dense_flop_per_s:
            known = ", ".join(chip.dense_flop_per_s)
            problems.append(
                Problem(field=f"recipe.precision.{part}", value=dtype, message=f"{chip.name} has no peak for it", allowed=known)
            )
        elif dtype not in chip.kernels.matmul_efficiency:
            problems.append(Problem(field=f"system.chip.kernels.matmul_efficiency.{dtype}", message="is missing"))
    if not chip.kernels.tiles:
        problems.append(Problem(field="system.server.chip.kernels.tiles", message="must list at least one tile", value=[]))
    if chip.reserved_byte >= chip.hbm_byte:
        message = f"leaves nothing of hbm_byte = {float(chip.hbm_byte):.4g} B"
        problems.append(Problem(field="system.server.chip.reserved_byte", value=float(chip.reserved_byte), message=message))
    if len(cluster.fabric.tiers) < NUM_TIERS:
        problems.append(
            Problem(field="system.fabric.tiers", message="must list the links inside the server, then those between servers", value=[])
        )
    chips, per_server = int(cluster.num_chips), int(cluster.server.num_chips)
    if chips > per_server and chips % per_server:
        near = rules.around(chips, per_server)
        problems.append(
            Problem(field="system.num_chips", value=chips, message=f"must fill whole servers of {per_server} chips", nearest=near)
        )
    return problems
