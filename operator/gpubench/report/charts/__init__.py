# SPDX-License-Identifier: Apache-2.0
"""What of a report is drawn, as values: who draws it, and how it looks, is not known here."""
