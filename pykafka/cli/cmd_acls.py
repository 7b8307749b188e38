"""The noun acls: list, create, delete."""

from __future__ import annotations

from typing import Any

import click

from pykafka.admin import AclBinding, AclFilter, AclOperation, PatternType, Permission, ResourceType
from pykafka.admin.acls import CLUSTER_NAME
from pykafka.cli import show
from pykafka.cli.options import Session, session_command
from pykafka.cli.verbs import Noun, ask, change_command, counted, dry_run_option, fail, print_rows, report
from pykafka.cli.watching import listing_command

_RESOURCES = {
    one.name.lower().replace("_", "-"): one
    for one in ResourceType
    if one not in (ResourceType.UNKNOWN, ResourceType.ANY)
}
_OPERATIONS = {
    one.name.lower().replace("_", "-"): one
    for one in AclOperation
    if one not in (AclOperation.UNKNOWN, AclOperation.ANY)
}
_COLUMNS = ("Principal", "Host", "Permission", "Operation", "Resource", "Name", "Pattern")

Resource = tuple[ResourceType, str | None]


class ResourceParam(click.ParamType[Resource]):
    """A resource as TYPE:NAME, or a type alone."""

    name = "type:name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Resource:
        """Return type and name; the name is None if it is missing."""
        if isinstance(value, tuple):
            return value
        kind, sign, name = value.partition(":")
        if kind not in _RESOURCES or (sign and not name):
            self.fail(f"{value!r} is not TYPE:NAME; types are {', '.join(_RESOURCES)}", param, ctx)
        return _RESOURCES[kind], name or None

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Return the types that begin so."""
        return [click.shell_completion.CompletionItem(one) for one in _RESOURCES if one.startswith(incomplete)]


acls = Noun("acls", help="Access control lists: who may do what.")
_operation = click.option(
    "-O",
    "--operation",
    "operations",
    type=click.Choice(list(_OPERATIONS)),
    metavar="OPERATION",
    multiple=True,
    help=f"{', '.join(_OPERATIONS)}; may be repeated.",
)
_principal = click.option("-P", "--principal", "principals", multiple=True, help="As User:alice; may be repeated.")
_host = click.option("--host", help="The client's address.")


@acls.command("list")
@click.option("-r", "--resource", type=ResourceParam(), help="As topic:clicks, or topic; it may end a prefix, too.")
@_principal
@_operation
@_host
@click.option("--permission", type=click.Choice(["allow", "deny"]), help="These alone.")
@listing_command
def list_(
    session: Session,
    resource: Resource | None,
    principals: tuple[str, ...],
    operations: tuple[str, ...],
    host: str | None,
    permission: str | None,
    as_json: bool,
) -> None:
    """List ACLs: all, or those that match. Of a resource by name also those of prefixes, and of all names."""
    filters = _filters(resource, principals, operations, host, permission, PatternType.MATCH)
    with session.client() as client:
        found = dict.fromkeys(acl for wanted in filters for acl in client.admin.describe_acls(wanted))
    print_rows(sorted(found, key=str), as_json, _COLUMNS, _cells)


def _cells(one: AclBinding) -> tuple[object, ...]:
    return (one.principal, one.host, one.permission, one.operation, one.resource, one.name, one.pattern)


def _filters(
    resource: Resource | None,
    principals: tuple[str, ...],
    operations: tuple[str, ...],
    host: str | None,
    permission: str | None,
    pattern: PatternType,
) -> list[AclFilter]:
    kind, name = resource or (ResourceType.ANY, None)
    return [
        AclFilter(
            kind,
            name,
            principal,
            AclOperation.ANY if operation is None else _OPERATIONS[operation],
            Permission.ANY if permission is None else Permission[permission.upper()],
            host,
            pattern if name is not None else PatternType.ANY,
        )
        for principal in principals or (None,)
        for operation in operations or (None,)
    ]


@acls.command("create")
@click.option(
    "-r",
    "--resource",
    "resources",
    type=ResourceParam(),
    required=True,
    multiple=True,
    help="As topic:clicks, group:*, or cluster; may be repeated.",
)
@_principal
@_operation
@click.option("--host", default="*", show_default=True, help="The client's address.")
@click.option("--prefixed", is_flag=True, help="For all names that begin so (since Kafka 2.0).")
@click.option("--deny", is_flag=True, help="Deny it, instead of allowing it; that goes first.")
@dry_run_option
@session_command
def create(
    session: Session,
    resources: tuple[Resource, ...],
    principals: tuple[str, ...],
    operations: tuple[str, ...],
    host: str,
    prefixed: bool,
    deny: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Create ACLs: one for each resource, principal and operation. Since Kafka 0.11."""
    if not principals or not operations:
        raise click.UsageError("say who may do what: --principal User:alice --operation read")
    for principal in principals:
        if ":" not in principal:
            raise click.UsageError(f"{principal!r} is no principal; write User:{principal}")
    for kind, name in resources:
        if name is None and kind != ResourceType.CLUSTER:
            raise click.UsageError(f"name the resource: {kind.name.lower().replace('_', '-')}:NAME; * stands for all")
    permission = Permission.DENY if deny else Permission.ALLOW
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    wanted = [
        AclBinding(kind, name or CLUSTER_NAME, principal, _OPERATIONS[operation], permission, host, pattern)
        for kind, name in resources
        for principal in principals
        for operation in operations
    ]
    if dry_run:
        print_rows(wanted, as_json, _COLUMNS, _cells, unchanged=True)
        return
    with session.client() as client:
        results = client.admin.create_acls(wanted, raise_errors=False)
    report(results, as_json, "acl", lambda one, _: f"Created: {one}.")


@acls.command("delete")
@click.option("-r", "--resource", type=ResourceParam(), help="As topic:clicks, or topic.")
@_principal
@_operation
@_host
@click.option("--permission", type=click.Choice(["allow", "deny"]), help="These alone.")
@click.option("--prefixed", is_flag=True, help="ACLs of prefixes alone; by default of names alone.")
@click.option("--all", "everything", is_flag=True, help="All ACLs of the cluster.")
@change_command
def delete(
    session: Session,
    resource: Resource | None,
    principals: tuple[str, ...],
    operations: tuple[str, ...],
    host: str | None,
    permission: str | None,
    prefixed: bool,
    everything: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete the ACLs that match, and print them. Since Kafka 0.11."""
    narrow = bool(resource or principals or operations or host or permission)
    if narrow == everything:
        raise click.UsageError("say which: --resource, --principal, --operation, --host, --permission; or --all")
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    filters = _filters(resource, principals, operations, host, permission, pattern)
    with session.client() as client:
        there = dict.fromkeys(acl for wanted in filters for acl in client.admin.describe_acls(wanted))
        if there:
            ask(f"Delete {counted(len(there), 'ACL')}?", yes, dry_run)
        errors: list[Any] = []
        if there and not dry_run:
            results = client.admin.delete_acls(filters, raise_errors=False)
            there = dict.fromkeys(one for found in results.values() for one in found)
            errors = list(results.errors.values())
    print_rows(sorted(there, key=str), as_json, _COLUMNS, _cells)
    if not as_json:
        text = "Nothing was changed." if dry_run or not there else f"Deleted {counted(len(there), 'ACL')}."
        show.console().print(text)
    fail(errors)


COMMANDS = (acls,)
