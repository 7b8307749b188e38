"""completion: what makes a shell complete the words of kafka-tools."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

NAME = "kafka-tools"
VARIABLE = "_KAFKA_TOOLS_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that makes SHELL complete commands and options: eval "$(kafka-tools completion bash)"."""
    found = get_completion_class(shell)
    if found is None:
        raise click.ClickException(f"click cannot complete in {shell}; choose another shell")
    click.echo(found(ctx.find_root().command, {}, NAME, VARIABLE).source())


COMMANDS = (completion,)
