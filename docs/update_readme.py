"""Puts the present output of the first command, and the present accuracy, into the README; run after predictions have moved."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from foretrain.simulate.simulate import simulate_scenario
from foretrain.validate.measurements import load_rows
from foretrain.validate.metrics import errors
from foretrain.validate.null_model import null_step_s

README = Path(__file__).parents[1] / "README.md"
OUTPUT = re.compile(r"(```shell\n(foretrain simulate [^\n]+)\n```\n\n```text\n)(.*?)(?=```)", re.DOTALL)
ACCURACY = re.compile(r"(<!-- accuracy -->\n)(.*?)(?=<!-- end -->)", re.DOTALL)
TABLES = {
    "korthikanti-table-5": "Megatron-LM, GPT 22B to 1T, 8 to 512 A100 ([Korthikanti et al.](https://arxiv.org/abs/2205.05198), table 5)",
    "narayanan-table-1": "Megatron-LM, GPT 1.7B to 1T, 32 to 3,072 A100 ([Narayanan et al.](https://arxiv.org/abs/2104.04473), table 1)",
}


def output_of(command: str) -> str:
    """What a command line prints, for a reader without a terminal."""
    words = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(words, capture_output=True, text=True, encoding="utf-8", check=True)
    return "\n".join(line.rstrip() for line in done.stdout.rstrip().splitlines()) + "\n"


def accuracy() -> str:
    """One row per measured table: errors of predicted step times, and those of the null model."""
    lines = [
        "| Measured step times | Rows | Mean absolute error | Largest | Mean error | Null model: mean absolute, largest |",
        "|---|---|---|---|---|---|",
    ]
    for table, title in TABLES.items():
        rows = load_rows(table)
        measured = [row.measured_s for row in rows]
        ours = errors([float(simulate_scenario(row.scenario).step.time.step_s) for row in rows], measured)
        null = errors([null_step_s(row.scenario) for row in rows], measured)
        lines.append(
            f"| {title} | {ours.n} | {ours.mean:.1%} | {ours.largest:.1%} | {ours.bias:+.1%} | {null.mean:.1%}, {null.largest:.1%} |"
        )
    return "\n".join(lines) + "\n"


def updated(text: str) -> str:
    """The README's text with output and accuracy as they are now."""
    text = OUTPUT.sub(lambda match: match[1] + output_of(match[2]), text, count=1)
    return ACCURACY.sub(lambda match: match[1] + accuracy(), text, count=1)


if __name__ == "__main__":
    README.write_text(updated(README.read_text(encoding="utf-8")), encoding="utf-8")
