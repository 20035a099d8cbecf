"""The JSON schema that every report of an audit is valid against."""

import json
from pathlib import Path
from typing import Any

from gpuforge.audit.report import data

SCHEMA: dict[str, Any] = json.loads(Path(data.__file__).with_name("report.schema.json").read_bytes())
