"""The targets, by name: each module has those of one subject."""

from __future__ import annotations

from tests.fuzz.judge import Target
from tests.fuzz.targets import codecs, fakebrokers, frames, groups, logins, messages, records, schemas, spark, texts

#: {name: target}
TARGETS: dict[str, Target] = {
    target.name: target
    for module in (messages, fakebrokers, frames, records, codecs, groups, logins, texts, schemas, spark)
    for target in module.TARGETS
}
