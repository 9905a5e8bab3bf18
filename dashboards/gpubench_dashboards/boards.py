# SPDX-License-Identifier: Apache-2.0
"""The five dashboards, in the order in which a question leads from one to the next."""

from gpubench_dashboards import live, operating, pools, studies, study
from gpubench_dashboards.panels import Dashboard

DASHBOARDS: tuple[Dashboard, ...] = (
    studies.DASHBOARD,
    study.DASHBOARD,
    live.DASHBOARD,
    pools.DASHBOARD,
    operating.DASHBOARD,
)
