# SPDX-License-Identifier: Apache-2.0
"""How texts are written, and rules across fields: the CEL of the API server, beside the sentence that a person reads.

Rules are attached to the types as `RULES`; the CRDs carry them as `x-kubernetes-validations`. `validate` evaluates them
for study files, too. Its evaluator knows the operators, `has`, `size`, `matches`, `all`, `exists`, `map`, `filter`,
`double`, `duration`, `startsWith`, `type`, `isQuantity`, `sum` of a list, `format` and `split` of a text, `getFullYear`
of a date.
"""

from typing import Annotated, NamedTuple

from pydantic import Field
from pydantic.config import JsonDict

from gpubench import units
from gpubench.values import FrozenModel

POOL_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
NAME = r"^[a-z0-9]([-a-z0-9_.]*[a-z0-9])?$"
VOLUME_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
OBJECT_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
PATH = r"^/.+$"
LABEL_KEY = r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
ENVIRONMENT_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
FOLDER = r"^[A-Za-z0-9_][-A-Za-z0-9_.]*(/[A-Za-z0-9_][-A-Za-z0-9_.]*)*$"
CURRENCY = r"^[A-Z]{3}$"
PERIOD = r"^[0-9]{4}-(0[1-9]|1[0-2])(-[0-3][0-9])?/[0-9]{4}-(0[1-9]|1[0-2])(-[0-3][0-9])?$"
ASCII = r"^[ -~]+$"
SCHEDULE = (
    r"^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|"
    r"[0-9*?][-0-9*?,/]*( +[0-9*?][-0-9*?,/]*){2}( +[0-9A-Za-z*?][-0-9A-Za-z*?,/]*){2})$"
)
TIME_ZONE = r"^[A-Za-z][-+0-9A-Za-z_]*(/[-+0-9A-Za-z_]+)*$"

#: The API server's message about a `pattern` is the expression. So each is a rule of the schema, with its sentence.
SENTENCES = {
    units.DURATION_PATTERN: "write hours, minutes and seconds, such as 1h30m, 15m or 90s",
    units.WINDOW_PATTERN: "write seconds and milliseconds, such as 500ms, 1s or 1s500ms",
    units.DECIMAL_PATTERN: 'write a decimal number as text, such as "10.21"',
    units.PROCESSORS_PATTERN: 'write processors, such as "4", "0.5" or 500m',
    units.QUANTITY_PATTERN: 'write a quantity, such as "4", 80Gi or 1536Mi',
    POOL_NAME: "write the name of a GpuPool: small letters, digits, - and .",
    NAME: "write small letters, digits, -, _ and ., beginning and ending with a letter or digit",
    VOLUME_NAME: "write small letters, digits and -, beginning and ending with a letter or digit",
    OBJECT_NAME: "write the name of an object of Kubernetes: small letters, digits, - and .",
    PATH: "write an absolute path, such as /data/mnist",
    FOLDER: "write a folder below the volume's own, such as team-a/studies: names of letters, digits, -, _ and ., not "
    "beginning with - or ., with / between them",
    LABEL_KEY: "write a name of at most 63 letters, digits, -, _ and ., with a DNS prefix and / before it if need be",
    LABEL_VALUE: "write letters, digits, -, _ and ., beginning and ending with a letter or digit",
    ENVIRONMENT_NAME: "write letters, digits and _, beginning with a letter or _",
    ASCII: "write letters, digits, spaces and signs of ASCII, such as A100-40GB",
    SCHEDULE: "write the five fields of cron, such as 0 */4 * * *, or @hourly, @daily, @weekly, @monthly or @yearly",
    TIME_ZONE: "write a time zone by its name in the IANA database, such as Europe/Berlin or UTC",
    PERIOD: "write the first and the last month or day, such as 2026-08/2026-10",
    CURRENCY: "write the three capital letters of ISO 4217, such as USD",
}

#: For `json_schema_extra`: how the API server merges a list, and that no entry stands twice.
SET: JsonDict = {"x-kubernetes-list-type": "set"}

Time = Annotated[str, Field(max_length=40, json_schema_extra={"format": "date-time"})]
Name = Annotated[str, Field(min_length=1, max_length=63, pattern=NAME)]
ShortName = Annotated[str, Field(min_length=1, max_length=40, pattern=NAME)]
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=OBJECT_NAME)]
PoolName = Annotated[str, Field(min_length=1, max_length=63, pattern=POOL_NAME)]
Path = Annotated[str, Field(min_length=1, max_length=1024, pattern=PATH)]
Workers = Annotated[int, Field(ge=1, le=4096)]
Batch = Annotated[int, Field(ge=1, le=67_108_864)]  # elements of a message for the workload allreduce


def list_map(key: str) -> JsonDict:
    """A list whose entries are told apart by one of their fields."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


class EnvironmentVariable(FrozenModel):
    """A plain environment variable of the gang's container."""

    name: str = Field(min_length=1, max_length=128, pattern=ENVIRONMENT_NAME, description="Name of the variable.")
    value: str = Field("", max_length=4096, description="Value of the variable.")


class Rule(NamedTuple):
    """One `x-kubernetes-validations` entry."""

    cel: str
    sentence: str
    field: str | None = None  # JSON path of the field to blame, where it is not the object itself
    detail: str | None = None  # what follows the sentence when the values are known, with %s and %d in it
    values: tuple[str, ...] = ()  # CEL for each of them; without any, the field's own
    transition: bool = False  # speaks of `oldSelf`: meaningless outside an update

    @property
    def sentence_cel(self) -> str | None:
        """CEL that gives the sentence with the values in it.

        It is one call of `format`: the API server cannot bound the length of `string(number)`, and refuses a rule
        that goes on to add to it.
        """
        if self.detail is None:
            return None
        text = f"{self.sentence.replace('%', '%%')}; {self.detail}".replace("'", "\\'")
        return f"'{text}'.format([{', '.join(self.values or (f'self{self.field}',))}])"


def unchangeable(field: str, *, parent: str) -> Rule:
    """A field that keeps its value for the life of the object, whether it is set or absent."""
    return Rule(
        f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})",
        f"{parent}.{field} cannot be changed once the benchmark exists: "
        "delete it and apply it again, or apply it under another name",
        f".{field}",
        transition=True,
    )


def name_at_most(characters: int, *, because: str) -> Rule:
    return Rule(
        f"size(self.metadata.name) <= {characters}",
        f"metadata.name must have at most {characters} characters, because {because}",
        ".metadata.name",
        detail="this one has %d",
        values=("size(self.metadata.name)",),
    )


def name_of_hosts(*, such_as: str) -> Rule:
    return Rule(
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "metadata.name must begin with a letter and hold only small letters, digits and -, because host "
        f"names are made of it; choose a name such as {such_as}",
        ".metadata.name",
    )


def decimal_within(field: str, low: str, high: str, *, parent: str, such_as: str) -> Rule:
    """Bounds of a decimal text. One that cannot be read is left to its own rule, which says what is wrong with it."""
    number = f"double(self.{field})"
    return Rule(
        f"!{matches(f'self.{field}', units.DECIMAL_PATTERN)} || ({number} >= {low} && {number} <= {high})",
        f"{parent}.{field} must be from {low} to {high}, such as {such_as}",
        f".{field}",
        detail="it is %s",
    )


def is_number(*amounts: str) -> str:
    """CEL: amounts can be read. One that cannot is left to its own field, which says what is wrong with it.

    The API server takes an int-or-string for a text of 3 MiB when it adds up what a rule may cost, so a regular
    expression over one is refused where it stands in a list.
    """
    return " && ".join(f"(type({amount}) == int || isQuantity({amount}))" for amount in amounts)


def above_zero(field: str, *, sentence: str) -> Rule:
    amount = f"self.{field}"
    return where_given(field, Rule(f"!{is_number(amount)} || double({amount}) > 0.0", sentence, f".{field}"))


def about_durations(*fields: str, holds: str) -> str:
    """CEL about durations. One that cannot be read is left to its own rule, which says what is wrong with it."""
    readable = " && ".join(f"self.{field}.matches('^([0-9]{{1,6}}(ms|[hms]))+$')" for field in fields)
    return f"!({readable}) || {holds}"


def positive(field: str, *, parent: str) -> Rule:
    holds = f"duration(self.{field}) > duration('0s')"
    return Rule(about_durations(field, holds=holds), f"{parent}.{field} must be longer than 0s", f".{field}")


def where_given(field: str, rule: Rule) -> Rule:
    return rule._replace(cel=f"!has(self.{field}) || {rule.cel}")


def keys(field: str, *, sentence: str, are: str = "") -> Rule:
    """The keys of a map are label keys, and more than that where `are` says so."""
    return where_given(field, Rule(f"self.{field}.all(key, {matches('key', LABEL_KEY)}{are})", sentence, f".{field}"))


def matches(field: str, pattern: str) -> str:
    """CEL: the field's text is written like that."""
    return f"{field}.matches(r'{pattern}')"
