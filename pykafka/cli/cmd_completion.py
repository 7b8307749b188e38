"""The command completion: scripts by which a shell completes the words of kafka-tools."""

from __future__ import annotations

import os

import click
from click.shell_completion import BashComplete, add_completion_class, get_completion_class, split_arg_string

NAME = "kafka-tools"
VARIABLE = "_KAFKA_TOOLS_COMPLETE"


@add_completion_class
class WholeWords(BashComplete):
    """Completion in bash by whole words: bash itself also splits at `:` and `=`, as in `-b host:9092`."""

    source_template = BashComplete.source_template.replace("env ", 'env COMP_LINE="${COMP_LINE:0:COMP_POINT}" ', 1)

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the beginning of the word at the cursor."""
        line = os.environ.get("COMP_LINE")
        if line is None:  # a script that was printed by an earlier release
            return super().get_completion_args()
        words = split_arg_string(line)[1:]
        # A backslash or an open quote before a space makes the space part of the last word.
        begun = bool(words) and (not line[-1].isspace() or words[-1][-1:].isspace())
        return (words[:-1], words[-1]) if begun else (words, "")


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a shell completion script. Load it by eval "$(kafka-tools completion bash)"."""
    found = get_completion_class(shell)
    if found is None:
        raise click.ClickException(f"click cannot complete in {shell}; choose another shell")
    click.echo(found(ctx.find_root().command, {}, NAME, VARIABLE).source())


COMMANDS = (completion,)
