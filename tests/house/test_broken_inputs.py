"""Two hundred broken inputs: each is exit code 2 with a line that names the field, never a traceback; and plans that are only too big."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from foretrain.cli.main import main

MODEL = "llama-3.1-8b"
BASE = ("simulate", MODEL, "--on", "dgx-h100", "--chips", "64")
PLAN = ("--tp", "2", "--pp", "1", "--dp", "32", "--microbatch-size", "1", "--global-batch-size", "512")
HUGE = "9" * 40


@dataclass(frozen=True)
class Case:
    """A command line (``{dir}`` is the folder of broken files), and text that one of the error lines must contain."""

    name: str
    words: tuple[str, ...]
    field: str


def command_lines() -> Iterator[Case]:
    yield Case("misspelt command", ("simulat", MODEL), "simulate")
    yield Case("unknown command", ("frobnicate",), "frobnicate")
    yield Case("no model", ("simulate",), "MODEL")
    yield Case("no model with system", ("simulate", "--on", "dgx-h100"), "MODEL")
    yield Case("two models", ("simulate", MODEL, "gpt3-175b", "--on", "dgx-h100"), "gpt3-175b")
    yield Case("unknown option", (*BASE, "--frobnicate", "1"), "--frobnicate")
    yield Case("misspelt option", (*BASE, "--microbatchsize", "1"), "--microbatch-size")
    yield Case("misspelt flag", (*BASE, "--jsn"), "--json")
    yield Case("option without value", (*BASE, "--tp"), "--tp")
    yield Case("option twice", (*BASE, "--tp", "1", "--tp", "2"), "--tp")
    yield Case("flag with value", (*BASE, "--json=perhaps"), "--json")
    yield Case("json and csv", (*BASE, "--json", "--csv"), "--csv")
    yield Case("csv and assumptions", (*BASE, "--csv", "--assumptions"), "--assumptions")
    yield Case("unknown kind", ("catalog", "list", "chip"), "kind")
    yield Case("unknown verb of the catalogue", ("catalog", "lst"), "list")


def names() -> Iterator[Case]:
    on = ("--on", "dgx-h100")
    yield Case("empty model", ("simulate", "", *on), "model")
    yield Case("blank model", ("simulate", "   ", *on), "model")
    yield Case("misspelt model", ("simulate", "lama-3.1-8b", *on), "llama-3.1-8b")
    yield Case("model in capitals", ("simulate", "LLAMA-3.1-9B", *on), "model")
    yield Case("unicode model", ("simulate", "llama-3.1-8\u0431", *on), "model")
    yield Case("emoji model", ("simulate", "\U0001f999", *on), "model")
    yield Case("model with null byte", ("simulate", "llama\0", *on), "model")
    yield Case("model with newline", ("simulate", "llama\n3", *on), "model")
    yield Case("model with escape code", ("simulate", "\x1b[31mllama", *on), "model")
    yield Case("model with surrogate", ("simulate", "llama\udcff", *on), "model")
    yield Case("very long model", ("simulate", "l" * 100_000, *on), "model")
    yield Case("very long path", ("simulate", "/".join(["l" * 200] * 100), *on), "model")
    yield Case("path traversal", ("simulate", "../../../../etc/passwd", *on), "model")
    yield Case("traversal in an id", ("simulate", "../models/gpt3-175b", *on), "model")
    yield Case("device file", ("simulate", "/dev/null", *on), "model")
    yield Case("root folder", ("simulate", "/", *on), "model")
    yield Case("no system", ("simulate", MODEL), "system")
    yield Case("empty system", ("simulate", MODEL, "--on", ""), "system")
    yield Case("misspelt system", ("simulate", MODEL, "--on", "dgx-h10"), "dgx-h100")
    yield Case("system is a model", ("simulate", MODEL, "--on", "gpt3-175b"), "system")
    yield Case("system with a path", ("simulate", MODEL, "--on", "../systems/dgx-h100"), "system")
    yield Case("system with null byte", ("simulate", MODEL, "--on", "dgx\0"), "system")
    yield Case("misspelt stack", (*BASE, "--stack", "megatron-cor"), "stack")
    yield Case("empty stack", (*BASE, "--stack", ""), "stack")
    yield Case("unknown site", (*BASE, "--site", "atlantis"), "site")
    yield Case("site with a path", (*BASE, "--site", "/etc/hosts"), "site")


NUMBER_OPTIONS = {
    "--tp": "strategy.tp",
    "--pp": "strategy.pp",
    "--vpp": "strategy.vpp",
    "--dp": "strategy.dp",
    "--cp": "strategy.cp",
    "--ep": "strategy.ep",
    "--etp": "strategy.etp",
    "--microbatch-size": "strategy.microbatch_size",
    "--global-batch-size": "recipe.global_batch_size",
    "--seq-len": "recipe.seq_len",
    "--chips": "system.num_chips",
}
BAD_NUMBERS = ("eight", "-1", "0", "1.5", "", "NaN")


def number_options() -> Iterator[Case]:
    for flag, field in NUMBER_OPTIONS.items():
        base = BASE[:4] if flag == "--chips" else BASE
        for value in BAD_NUMBERS:
            yield Case(f"{flag} {value!r}", (*base, flag, value), field)
    for flag, value in (
        ("--tp", HUGE), ("--pp", HUGE), ("--dp", "1e400"), ("--cp", "inf"), ("--seq-len", HUGE), ("--global-batch-size", "1e400"),
        ("--tp", "2 GiB"), ("--tp", "0x10"), ("--pp", "[1, 2]"), ("--dp", "true"), ("--tp", "\u0664\u0662"), ("--tp", "2; rm"),
    ):  # fmt: skip
        yield Case(f"{flag} {value:.8}", (*BASE, flag, value), NUMBER_OPTIONS[flag])
    for value in ("4", "-1", "two", "0.5"):
        yield Case(f"--zero {value}", (*BASE, "--zero", value), "strategy.zero")
    for value in ("0", "-15e12", "many", "15 GB", "1e400"):
        yield Case(f"--tokens {value}", (*BASE, "--tokens", value), "recipe.tokens")


def word_options() -> Iterator[Case]:
    for flag, field, values in (
        ("--precision", "recipe.precision", ("", "bf15", "BF16", "int4")),
        ("--recompute", "strategy.recompute", ("", "ful", "partial")),
        ("--schedule", "strategy.schedule", ("", "1f2b", "dualpipe")),
    ):
        for value in values:
            yield Case(f"{flag} {value!r}", (*BASE, flag, value), field)


def settings() -> Iterator[Case]:
    for text, field in (
        ("site.pue", "--set"), ("", "--set"), ("=1.2", "--set"), ("site..pue=1", "--set"), ("pue=1.2", "pue"), ("site=1", "site"),
        ("sight.pue=1.2", "site"), ("site.peu=1.2", "site.peu"), ("site.pue=0.9", "site.pue"), ("site.pue=1.2 W", "site.pue"),
        ("site.pue=", "site.pue"), ("site.pue=true", "site.pue"), ("site.pue=[1.2]", "site.pue"), ("site.pue={a: 1}", "site.pue"),
        ("site.pue=.nan", "site.pue"), ("site.pue=.inf", "site.pue"), ("site.pue=[", "site.pue"), ("site.pue=*a", "site.pue"),
        ("site.pue.low=1.2", "site.pue"), ("site.pue=!!python/name:os.system", "site.pue"), ("site.pue\0=1", "site.pue"),
        ("site.location_kg_per_j=369", "site.location_kg_per_j"), ("site.location_kg_per_j=369 g", "site.location_kg_per_j"),
        ("site.electricity_usd_per_j=0.08 USD/kW", "site.electricity_usd_per_j"),
        ("system.server.chip.hbm_byte=80", "system.server.chip.hbm_byte"),
        ("system.server.chip.hbm_byte=80 W", "system.server.chip.hbm_byte"),
        ("system.server.chip.hbm_byte=80 Gigabananas", "system.server.chip.hbm_byte"),
        ("system.server.chip.hbm_byte=-80 GiB", "system.server.chip.hbm_byte"),
        ("system.server.chip.hbm_byte=1e999 GiB", "system.server.chip.hbm_byte"),
        ("system.server.chip.hbm_bytes=80 GiB", "system.server.chip.hbm_byte"),
        ("system.server.chip.tdp_w=700 kB/s", "system.server.chip.tdp_w"),
        ("system.server.chip.dense_flop_per_s.bf16=0 TFLOP/s", "system.server.chip.dense_flop_per_s.bf16"),
        ("system.server.chip.kernels.tiles.9.m=128", "system.server.chip.kernels.tiles"),
        ("system.server.chip.kernels.tiles=[]", "system.server.chip.kernels.tiles"),
        ("system.fabric.tiers.0.byte_per_s=400 GB", "system.fabric.tiers.0.byte_per_s"),
        ("system.fabric.tiers=[]", "system.fabric.tiers"), ("system.fabric.topology=ring", "system.fabric.topology"),
        ("system.server=dgx", "system.server"), ("system.server.psu_efficiency=1.2", "system.server.psu_efficiency"),
        ("system.reliability.restart_s=-5 min", "system.reliability.restart_s"),
        ("prices.tenure=leased", "prices.tenure"), ("prices.rental_usd_per_chip_s=2.5", "prices.rental_usd_per_chip_s"),
        ("prices.utilisation=0", "prices.utilisation"), ("amortisation.accounting=both", "amortisation.accounting"),
        ("model.num_layers=0", "model.num_layers"), ("model.num_heads=-8", "model.num_heads"), ("model.norm=batchnorm", "model.norm"),
        ("model.windows=4096", "model.windows"), ("model.hidden_size=4096.5", "model.hidden_size"),
        ("recipe.precision.math=bf17", "recipe.precision.math"), ("recipe.optimizer=tiger", "recipe.optimizer"),
        ("recipe.flop_convention=8n", "recipe.flop_convention"), ("strategy.mesh=[tp, tp, dp, pp]", "strategy.mesh"),
        ("strategy.stage_layers=[1, 2, 3]", "strategy.stage_layers"), ("strategy.overlap_p2p=perhaps", "strategy.overlap_p2p"),
        ("strategy.build.attention_kernel=flash9", "strategy.build.attention_kernel"), ("strategy.tpp=8", "strategy.tpp"),
        ("strategy.dispatcher=pigeon", "strategy.dispatcher"), ("strategy.context_parallel=star", "strategy.context_parallel"),
        ("strategy.loss_chunks=0", "strategy.loss_chunks"), ("strategy.dp_replicate=3", "strategy.dp_replicate"),
        ("strategy.parameter_offload=2", "strategy.parameter_offload"), ("strategy.offload_tier=tape", "strategy.offload_tier"),
        ("recipe.lora.rank=0", "recipe.lora.rank"), ("recipe.lora.rnk=8", "recipe.lora.rnk"), ("recipe.frozen=[legs]", "recipe.frozen"),
        ("recipe.frozen=[embedding, layers, head]", "recipe.frozen"), ("recipe.expert_imbalance=2", "recipe.expert_imbalance"),
        ("recipe.capacity_factor=-1", "recipe.capacity_factor"), ("recipe.encoder_seq_len=512", "recipe.encoder_seq_len"),
        ("recipe.precision.weights=nf4", "recipe.precision.weights"), ("recipe.precision.weights=nf3", "recipe.precision.weights"),
        ("model.experts.num_experts=0", "model.experts.num_experts"), ("model.window_kind=round", "model.window_kind"),
        ("model.latent.kv_rank=512", "model.latent"), ("strategy.build.fp8_weight_copies=3", "strategy.build.fp8_weight_copies"),
    ):  # fmt: skip
        yield Case(f"--set {text!r}", (*BASE, "--set", text), field)


def contradictions() -> Iterator[Case]:
    yield Case("tp does not divide heads", (*BASE, "--tp", "3"), "strategy.tp")
    yield Case("tp above key-value heads", (*BASE, "--tp", "16"), "strategy.tp")
    yield Case("plan larger than machine", (*BASE, "--tp", "8", "--pp", "8", "--dp", "8"), "strategy.dp")
    yield Case("plan smaller than machine", (*BASE, "--tp", "2", "--pp", "1", "--dp", "2"), "strategy.dp")
    yield Case("more stages than layers", (*BASE, "--pp", "64", "--tp", "1", "--dp", "1"), "strategy.pp")
    yield Case("more chunks than layers", (*BASE, "--pp", "8", "--vpp", "8", "--schedule", "interleaved"), "strategy.vpp")
    yield Case("interleaved without chunks", (*BASE, "--pp", "4", "--vpp", "1", "--schedule", "interleaved"), "strategy.vpp")
    yield Case("chunks without interleaving", (*BASE, "--pp", "4", "--vpp", "2", "--schedule", "1f1b"), "strategy.schedule")
    yield Case("experts in a dense model", (*BASE, "--ep", "8"), "strategy.ep")
    yield Case("expert tp in a dense model", (*BASE, "--etp", "2"), "strategy.etp")
    yield Case("batch not whole", (*BASE, *PLAN[:-1], "500"), "recipe.global_batch_size")
    yield Case("batch below dp", (*BASE, *PLAN[:-1], "16"), "recipe.global_batch_size")
    yield Case("half a server", (*BASE[:4], "--chips", "12"), "system.num_chips")
    yield Case("cp does not divide the sequence", (*BASE, "--cp", "2", "--seq-len", "8191"), "recipe.seq_len")
    yield Case("learned positions too few", ("simulate", "gpt3-175b", *BASE[2:], "--seq-len", "4096"), "recipe.seq_len")
    yield Case("fp8 on A100", ("simulate", MODEL, "--on", "dgx-a100", "--precision", "fp8"), "recipe.precision")
    yield Case("cp without fused attention", (*BASE, "--cp", "2", "--set", "strategy.flash_attention=false"), "strategy.flash_attention")
    yield Case(
        "documents longer than the pack", (*BASE, "--seq-len", "1024", "--set", "recipe.document_lens=[2048]"), "recipe.document_lens"
    )


LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}
BOMB = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 8)}]\n" for n in range(9)
)
GOOD = f"model: {MODEL}\nsystem: dgx-h100\nchips: 64\n"


def changed(**changes: object) -> bytes:
    """A good Llama configuration with some keys changed; None removes a key."""
    config = {key: value for key, value in {**LLAMA, **changes}.items() if value is not None}
    return json.dumps(config).encode()


CONFIGS: dict[str, bytes] = {
    "empty": b"",
    "not json": b"hello",
    "cut off": changed()[:-20],
    "list": b"[1, 2]",
    "number": b"42",
    "null": b"null",
    "empty object": b"{}",
    "latin-1": b'{"model_type": "ll\xe4ma"}',
    "utf-16": json.dumps(LLAMA).encode("utf-16"),
    "binary": bytes(range(256)) * 8,
    "deep": b"[" * 100_000,
    "deep object": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "large": b'{"a": "' + b"x" * 2_000_000 + b'"}',
    "nan": changed(hidden_size=float("nan")),
    "infinity": changed(hidden_size=float("inf")),
    "very long number": b'{"model_type": "llama", "hidden_size": ' + b"9" * 6000 + b"}",
    "unknown architecture": changed(architectures=["FrobnicatorForCausalLM"], model_type="frobnicator"),
    "state space": changed(architectures=["MambaForCausalLM"], model_type="mamba", state_size=16),
    "encoder for another task": changed(architectures=["BertForTokenClassification"], model_type="bert"),
    "more experts per token than experts": changed(model_type="mixtral", architectures=None, num_local_experts=8, num_experts_per_tok=9),
    "no experts": changed(architectures=["MixtralForCausalLM"], model_type="mixtral"),
    "no layers": changed(num_hidden_layers=None),
    "no hidden size": changed(hidden_size=None),
    "zero heads": changed(num_attention_heads=0),
    "negative layers": changed(num_hidden_layers=-32),
    "text for a number": changed(hidden_size="four thousand"),
    "list for a number": changed(hidden_size=[4096]),
    "huge layers": changed(num_hidden_layers=10**30),
}
SCENARIOS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "scenario"),
    "text": (b"hello", "scenario"),
    "list": (b"- 1\n- 2\n", "scenario"),
    "tab": (b"model:\tx\n\t- y\n", "scenario"),
    "bomb": (BOMB.encode(), "scenario"),
    "loop": (b"model: &a [*a]\n", "scenario"),
    "deep": (b"[" * 5000, "scenario"),
    "deep mapping": (b"".join(b" " * n + b"a:\n" for n in range(200)), "scenario"),
    "large": (b"a: " + b"x" * 2_000_000, "model"),
    "latin-1": (b"model: ll\xe4ma\n", "model"),
    "control character": (b"model: a\x01b\n", "scenario"),
    "python object": (b"model: !!python/object/apply:os.system ['true']\n", "scenario"),
    "two documents": (b"model: a\n---\nmodel: b\n", "scenario"),
    "duplicate key": (f"{GOOD}chips: 32\n".encode(), "chips"),
    "number as key": (f"{GOOD}7: 8\n".encode(), "7"),
    "list as key": (f"{GOOD}[1, 2]: 8\n".encode(), "scenario"),
    "no model": (b"system: dgx-h100\n", "model"),
    "no system": (f"model: {MODEL}\n".encode(), "system"),
    "misspelt root": (f"{GOOD}stratgy: {{tp: 8}}\n".encode(), "strategy"),
    "misspelt field": (f"{GOOD}strategy: {{ttp: 8}}\n".encode(), "strategy.ttp"),
    "strategy is a word": (f"{GOOD}strategy: fast\n".encode(), "strategy"),
    "strategy is a list": (f"{GOOD}strategy: [8]\n".encode(), "strategy"),
    "recipe is null": (f"{GOOD}recipe: null\n".encode(), "recipe"),
    "wrong unit": (f"{GOOD}site: {{electricity_usd_per_j: 80 W}}\n".encode(), "site.electricity_usd_per_j"),
    "no unit": (f"{GOOD}stack: {{context_byte: 1}}\n".encode(), "stack.context_byte"),
    "negative chips": (f"model: {MODEL}\nsystem: dgx-h100\nchips: -64\n".encode(), "system.num_chips"),
    "chips are a list": (f"model: {MODEL}\nsystem: dgx-h100\nchips: [64]\n".encode(), "system.num_chips"),
    "system is a mapping": (f"model: {MODEL}\nsystem: {{chips: 64}}\n".encode(), "system"),
    "model is half given": (b"model: {name: x, num_layers: 2}\nsystem: dgx-h100\n", "model.hidden_size"),
    "scenario of itself": (b"model: self.yaml\nsystem: dgx-h100\n", "model"),
    "date as number": (f"{GOOD}strategy: {{tp: 2024-01-01}}\n".encode(), "strategy.tp"),
    "not divisible": (f"{GOOD}strategy: {{tp: 3}}\n".encode(), "strategy.tp"),
}


def files() -> Iterator[Case]:
    yield Case("no such file", ("simulate", "{dir}/nothing.json", "--on", "dgx-h100"), "model")
    yield Case("no such scenario", ("simulate", "{dir}/nothing.yaml"), "model")
    yield Case("folder without config", ("simulate", "{dir}/folder", "--on", "dgx-h100"), "config.json")
    yield Case("folder called config.json", ("simulate", "{dir}/config.json", "--on", "dgx-h100"), "model")
    yield Case("folder called scenario", ("simulate", "{dir}/folder.yaml"), "model")
    for name in CONFIGS:
        yield Case(f"config {name}", ("simulate", f"{{dir}}/{name}.json", "--on", "dgx-h100"), "model")
    for name, (_, field) in SCENARIOS.items():
        yield Case(f"scenario {name}", ("simulate", f"{{dir}}/{name}.yaml"), field)


CASES = [
    case for group in (command_lines, names, number_options, word_options, settings, contradictions, files) for case in group()
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All broken files."""
    path = tmp_path_factory.mktemp("broken")
    for name in ("folder", "config.json", "folder.yaml"):
        (path / name).mkdir()
    for name, content in CONFIGS.items():
        (path / f"{name}.json").write_bytes(content)
    for name, (content, _) in SCENARIOS.items():
        (path / f"{name}.yaml").write_bytes(content)
    (path / "scenario of itself.yaml").write_text(f"model: '{path}/scenario of itself.yaml'\nsystem: dgx-h100\n")
    return path


def check(code: int, out: str, err: str, case: Case) -> None:
    assert code == 2, (code, out, err)
    assert out == ""
    assert "Traceback" not in err
    lines = err.splitlines()
    assert lines
    assert all(line.startswith("error: ") for line in lines), err
    assert any(case.field in line for line in lines), err
    assert all(line.isprintable() for line in lines)
    assert len(err) < 20_000


def test_there_are_at_least_200_different_inputs() -> None:
    assert len({case.words for case in CASES}) >= 200
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_broken_input_is_refused_by_name(case: Case, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([word.replace("{dir}", str(folder)) for word in case.words])
    captured = capsys.readouterr()
    check(code, captured.out, captured.err, case)


@pytest.mark.parametrize("case", [case for case in CASES if "\0" not in "".join(case.words)][::25], ids=lambda case: case.name)
def test_broken_input_in_a_fresh_process(case: Case, folder: Path) -> None:
    words = [word.replace("{dir}", str(folder)) for word in case.words]
    done = subprocess.run([sys.executable, "-m", "foretrain.cli.main", *words], capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode, done.stdout, done.stderr, case)


def test_every_broken_rule_is_reported_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, "--set", "site.pue=0.5", "--set", "site.wue_l_per_j=3"]) == 2
    err = capsys.readouterr().err
    assert "site.pue" in err
    assert "site.wue_l_per_j" in err


def test_an_error_says_value_allowed_and_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, "--tp", "3"]) == 2
    err = capsys.readouterr().err
    for words in ("strategy.tp", "3", "allowed", "nearest"):
        assert words in err


def test_an_error_in_a_file_says_where(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(folder / "wrong unit.yaml")]) == 2
    assert "wrong unit.yaml:4:" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("simulate", "llama-3.1-405b", "--on", "dgx-a100", "--chips", "8"),
        ("simulate", "gpt3-175b", "--on", "dgx-h100", "--chips", "1"),
        (*BASE, "--tp", "1", "--pp", "1", "--dp", "64", "--zero", "0", "--microbatch-size", "8", "--recompute", "none"),
    ],
)
def test_out_of_memory_is_an_answer(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"]["status"] == "oom"
    assert document["verdict"]["ok"] is False
    assert document["step"]["step_s"] is None


def test_marginal_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*BASE, *PLAN, "--zero", "1", "--recompute", "none"]
    assert main([*words, "--json"]) == 0
    need = json.loads(capsys.readouterr().out)["memory"]["device_byte"]
    reserved = "system.server.chip.reserved_byte=0 GiB"
    assert main([*words, "--set", f"system.server.chip.hbm_byte={need * 1.02} B", "--set", reserved]) == 0
    out = capsys.readouterr().out
    assert "MARGINAL" in out
    assert "MFU" in out
