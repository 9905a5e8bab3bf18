# SPDX-License-Identifier: Apache-2.0
"""How texts are written, and the sentence that helps whoever wrote one otherwise.

The API server's own message about a `pattern` is the regular expression. So a pattern becomes a rule of the schema,
with the sentence from here; a pattern without a sentence cannot be generated.
"""

from gpubench import units

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


def matches(field: str, pattern: str) -> str:
    """CEL: the field's text is written like that."""
    return f"{field}.matches(r'{pattern}')"
